package accounts

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// ParkedQuery says which parked accounts Parked returns.
type ParkedQuery struct {
	Limit  int    // 1 to MaxListLimit; 0 means ListLimit
	Cursor string // Next of the page before; empty: the first page
	Kind   string // only accounts of this kind; empty: all
	Reason string // only accounts whose reason begins with this; empty: all
}

// ParkedPage is a part of a list of parked accounts.
type ParkedPage struct {
	Accounts []View // their State says why and since when they are parked, and how the last check failed
	Next     string // the next page's Cursor; empty: this page is the last
}

// Parked returns parked accounts, a page at a time: shard by shard, the longest parked
// first. An account that stays parked during a walk is in it once. With a filter, a page
// may have fewer accounts than asked for, or none, and still not be the last. Parked
// returns Faults for a limit that is not valid, and ErrCursor for a cursor that this ring
// never returned.
func (r *Registry) Parked(ctx context.Context, q ParkedQuery) (ParkedPage, error) {
	var err error
	if q.Limit, err = pageLimit(q.Limit); err != nil {
		return ParkedPage{}, err
	}
	var at parkedPlace
	if q.Cursor != "" {
		content, err := UnsealCursor(CursorParked, q.Cursor)
		if err != nil {
			return ParkedPage{}, err
		}
		if at, err = parseParkedPlace(content, r.ring.Shards()); err != nil {
			return ParkedPage{}, err
		}
	}
	page := ParkedPage{Accounts: make([]View, 0, min(q.Limit, ListLimit))}
	for looked := 0; at.shard < r.ring.Shards(); {
		if len(page.Accounts) == q.Limit || looked >= lookBudget {
			page.Next = SealCursor(CursorParked, at.append(nil, r.ring.Shards()))
			return page, nil
		}
		// Never more than fit, so that every account that was looked at is on the page or not selected.
		want := min(lookCount, q.Limit-len(page.Accounts))
		if at.behind.ID == "" {
			if err := r.enter(ctx, at.shard); err != nil {
				return ParkedPage{}, err
			}
		}
		parked, _, err := r.ring.ParkedPage(ctx, at.shard, at.behind, want)
		if err != nil {
			return ParkedPage{}, err
		}
		views, err := r.lookAt(ctx, at.shard, parked, q, Selector{})
		if err != nil {
			return ParkedPage{}, err
		}
		for i := range views {
			page.Accounts = append(page.Accounts, viewOf(&views[i]))
		}
		looked += len(parked)
		at = at.after(parked, want)
	}
	return page, r.complete(ctx)
}

// lookAt returns the selected accounts among some parked ones, if they are still parked.
func (r *Registry) lookAt(ctx context.Context, shard int, parked []circulate.ParkedAccount, q ParkedQuery, s Selector) ([]circulate.View, error) {
	var ids []string
	for i := range parked {
		if strings.HasPrefix(parked[i].Reason, q.Reason) {
			ids = append(ids, parked[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	views, err := r.ring.Look(ctx, shard, ids)
	if err != nil {
		return nil, err
	}
	kept := views[:0]
	for _, v := range views {
		if v.Place == circulate.Parked && strings.HasPrefix(v.Reason, q.Reason) && (q.Kind == "" || q.Kind == kindOf(v.Record)) && r.sees(v.Record) && s.matchesView(&v) {
			kept = append(kept, v)
		}
	}
	return kept, nil
}

// parkedPlace is how far a walk through parked accounts has come: after one of them in a
// shard.
type parkedPlace struct {
	shard  int
	behind circulate.ParkedAccount // the zero value: before the first
}

// after returns the place behind a page that was to have that many accounts.
func (p parkedPlace) after(page []circulate.ParkedAccount, asked int) parkedPlace {
	if len(page) < asked {
		return parkedPlace{shard: p.shard + 1}
	}
	last := page[len(page)-1]
	return parkedPlace{p.shard, circulate.ParkedAccount{ID: last.ID, Since: last.Since}}
}

func (p parkedPlace) append(content []byte, shards int) []byte {
	content = appendShard(content, shards, p.shard)
	since := int64(0)
	if p.behind.ID != "" {
		since = p.behind.Since.UnixMilli()
	}
	return append(binary.AppendVarint(content, since), p.behind.ID...)
}

// parseParkedPlace reads the content of a cursor. Its error is ErrCursor.
func parseParkedPlace(content []byte, shards int) (parkedPlace, error) {
	shard, content, err := cutShard(content, shards)
	if err != nil {
		return parkedPlace{}, err
	}
	since, k := binary.Varint(content)
	if k <= 0 {
		return parkedPlace{}, fmt.Errorf("%w: it names no place", ErrCursor)
	}
	p := parkedPlace{shard: shard}
	if id := string(content[k:]); id != "" {
		p.behind = circulate.ParkedAccount{ID: id, Since: time.UnixMilli(since)}
	}
	return p, nil
}
