package accounts

import (
	"context"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/rounds-dev/rounds/accounts/cursor"
)

const (
	// ListLimit is the number of accounts on a page unless the caller asks otherwise.
	ListLimit = 100
	// MaxListLimit is the most accounts that a caller may ask for.
	MaxListLimit = 1000

	// lookCount is the number of records that are read at a time, each of up to MaxConfig.
	lookCount = 200
	// lookBudget is the number of accounts that a page with a filter, or a call of
	// Revive, looks at before it returns: a filter that few accounts pass must not make
	// one request walk through a million.
	lookBudget = 5000
	// passedPerLook is the number of ids without a selected prefix that cost as much as
	// a look at one account.
	passedPerLook = 20
)

// Query says which accounts List returns.
type Query struct {
	Limit    int    // 1 to MaxListLimit; 0 means ListLimit
	Cursor   string // Next of the page before; empty: the first page
	Selector Selector
}

// Page is a part of a list.
type Page struct {
	Views []View
	Next  string // the next page's Cursor; empty: this page is the last
}

// List returns accounts, a page at a time, in an order that stays the same. An account that
// stays registered during a walk is in it once, or twice if it moves to another shard while
// the number of shards changes. With a filter, a page may have fewer accounts than asked
// for, or none, and still not be the last. List returns Faults for a query that is not
// valid, and ErrCursor for a cursor that this ring never returned.
//
// A page costs a scan of the ids in one shard. Shards keep no order: List sorts the ids of
// a shard for each page, and so keeps nothing between requests.
func (r *Registry) List(ctx context.Context, q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = ListLimit
	}
	if q.Limit < 0 || q.Limit > MaxListLimit {
		return Page{}, Faults{{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d, is %d", MaxListLimit, q.Limit)}}
	}
	if err := q.Selector.Validate(); err != nil {
		return Page{}, err
	}
	q.Selector = r.within(q.Selector)
	at := listCursor{}
	if q.Cursor != "" {
		var err error
		if at, err = parseListCursor(q.Cursor, r.ring.Shards()); err != nil {
			return Page{}, err
		}
	}
	page := Page{Views: make([]View, 0, min(q.Limit, ListLimit))}
	looked := 0
	for ; at.shard < r.ring.Shards(); at = (listCursor{shard: at.shard + 1}) {
		if looked >= lookBudget { // no account of the shards before was selected
			page.Next = at.String(r.ring.Shards())
			return page, nil
		}
		if at.after == "" {
			if err := r.enter(ctx, at.shard); err != nil {
				return Page{}, err
			}
		}
		ids, err := r.idsOf(ctx, at.shard)
		if err != nil {
			return Page{}, err
		}
		ids = ids[sort.Search(len(ids), func(i int) bool { return ids[i] > at.after }):]
		passed := len(ids)
		ids = q.Selector.passes(ids)
		looked += (passed - len(ids)) / passedPerLook
		for len(ids) > 0 {
			if len(page.Views) == q.Limit || looked >= lookBudget {
				page.Next = at.String(r.ring.Shards())
				return page, nil
			}
			// Never more than fit, so that every account that was looked at is on the page or not selected.
			batch := ids[:min(len(ids), lookCount, q.Limit-len(page.Views))]
			views, err := r.ring.Look(ctx, at.shard, batch)
			if err != nil {
				return Page{}, err
			}
			for i := range views {
				if v := &views[i]; q.Selector.matchesView(v) {
					page.Views = append(page.Views, viewOf(v))
				}
			}
			at.after = batch[len(batch)-1]
			ids = ids[len(batch):]
			looked += len(batch)
		}
	}
	return page, r.complete(ctx)
}

// listCursor is how far a list came: behind an id of a shard, in the order of bytes.
type listCursor struct {
	shard int
	after string
}

func (c listCursor) String(shards int) string {
	content := binary.AppendUvarint(nil, uint64(shards))
	content = binary.AppendUvarint(content, uint64(c.shard))
	return cursor.Seal(cursor.List, append(content, c.after...))
}

func parseListCursor(text string, shards int) (listCursor, error) {
	content, err := cursor.Unseal(cursor.List, text)
	if err != nil {
		return listCursor{}, err
	}
	of, n := binary.Uvarint(content)
	if n <= 0 || of != uint64(shards) {
		return listCursor{}, fmt.Errorf("%w: it is of a ring with another number of shards", ErrCursor)
	}
	shard, m := binary.Uvarint(content[n:])
	if m <= 0 || shard >= of {
		return listCursor{}, fmt.Errorf("%w: it names no shard", ErrCursor)
	}
	return listCursor{int(shard), string(content[n+m:])}, nil
}
