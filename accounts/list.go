package accounts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/rounds-dev/rounds/accounts/cursor"
	"github.com/rounds-dev/rounds/circulate"
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
		ids, err := r.idsFor(ctx, at.shard, &q.Selector)
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

// Counted is how many accounts a selector selects.
type Counted struct {
	Count    int  // that are selected, as far as was looked
	Complete bool // all accounts were looked at, or counted without a look
	Estimate int  // of all that are selected, if not complete; 0: none can be told
}

// Count counts the accounts that a selector selects, without changing any. It looks at
// CountBudget accounts or a few more, and counts all that are registered, or in one place,
// without a look. It returns Faults for a selector that is not valid.
func (r *Registry) Count(ctx context.Context, s Selector) (Counted, error) {
	return r.count(ctx, s, CountBudget)
}

// count is Count with a budget.
func (r *Registry) count(ctx context.Context, s Selector, budget int) (Counted, error) {
	if err := s.Validate(); err != nil {
		return Counted{}, err
	}
	var all circulate.Count
	if len(r.labels) == 0 {
		var err error
		if all, err = r.countPlaces(ctx); err != nil {
			return Counted{}, err
		}
		if n, ok := s.countIn(&all); ok {
			return Counted{Count: n, Complete: true}, nil
		}
	}
	w := &bulkWalk{registry: r, Bulk: Bulk{Action: PauseAll, Selector: s, DryRun: true}, enough: true}
	w.left.Store(int64(budget))
	did, err := w.run(ctx, func(Progress) error { return nil })
	switch {
	case err == nil:
		return Counted{Count: did.Matched, Complete: true}, nil
	case !errors.Is(err, errEnough):
		return Counted{}, err
	}
	counted := Counted{Count: did.Matched}
	if did.Seen > 0 && len(r.labels) == 0 && !s.onlyFailing() {
		// Shards are a fair sample: a hash of the id decides where an account is.
		share := float64(did.Matched) / float64(did.Seen)
		counted.Estimate = max(did.Matched, int(math.Round(share*float64(all.Registered))))
	}
	return counted, nil
}

// countPlaces counts the accounts of all shards by place, as far as that is exact.
func (r *Registry) countPlaces(ctx context.Context) (circulate.Count, error) {
	var all circulate.Count
	counts, err := circulate.CountAll(ctx, r.ring)
	for _, c := range counts {
		all.Registered += c.Registered
		all.Scheduled += c.Scheduled
		all.Parked += c.Parked
	}
	return all, err
}

// countIn returns how many accounts the selector selects, if the counts by place tell.
func (s *Selector) countIn(all *circulate.Count) (int, bool) {
	if s.Empty() {
		return all.Registered, true
	}
	rest := *s
	if rest.States = nil; !rest.Empty() || len(s.States) != 1 {
		return 0, false
	}
	switch s.States[0] {
	case StateActive:
		return max(0, all.Registered-all.Parked), true
	case string(circulate.Parked):
		return all.Parked, true
	case string(circulate.Scheduled):
		return all.Scheduled, true
	}
	return 0, false // queues may have entries that are void
}
