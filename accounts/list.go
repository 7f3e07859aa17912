package accounts

import (
	"context"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/rounds-dev/rounds/accounts/cursor"
)

const (
	// ListLimit is how many accounts a page has unless asked otherwise.
	ListLimit = 100
	// MaxListLimit is the most that a page may be asked for.
	MaxListLimit = 1000

	// lookCount is how many records are read at a time, of up to MaxConfig each.
	lookCount = 200
	// lookBudget is how many accounts a page with a filter, or a call of Revive,
	// looks at before it lets the caller go on: a filter that few pass must not
	// make one request of a walk through a million.
	lookBudget = 5000
	// passedPerLook is how many ids that the selector passes over cost what a look
	// at one account does.
	passedPerLook = 20
)

// Query says which accounts List returns.
type Query struct {
	Limit    int    // 1 to MaxListLimit; 0 means ListLimit
	Cursor   string // where the page before ended; empty for the first
	Selector Selector
}

// Page is a part of a list.
type Page struct {
	Views []View
	Next  string // where to go on; empty: this is the end
}

// List returns accounts, a page at a time, in an order of its own that stays: what
// is registered throughout a walk is in it once, or twice if it goes to another
// shard meanwhile, as their number changes. With a filter a page may have
// fewer than were asked for, or none, and still not be the last. A cursor that
// this ring never gave is ErrCursor.
//
// A page costs a scan of the ids in one shard. Shards know no order; one that is
// made anew for each page needs nothing kept between requests.
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
		if looked >= lookBudget { // all in the shards before were passed over
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
			// Never more than fit, so that what was looked at is what was given.
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

// listCursor is how far a list came: behind an id of a shard, in the order of
// the bytes.
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
