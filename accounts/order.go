package accounts

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// Order is an order in which List returns accounts.
type Order string

// The orders. Equal accounts are in the order of their ids.
const (
	// BySuccess has the account first that was without complete success for longest. An
	// account that never succeeded counts from its registration, as in Staleness.
	BySuccess Order = "success"
	// ByFailures has the account with the most failures in a row first. Accounts without are
	// left out.
	ByFailures Order = "failures"
	// ByDue has the account first that is most overdue, and behind the overdue ones the
	// account that is due next. Only scheduled accounts have such a time.
	ByDue Order = "due"
)

// Orders returns all orders.
func Orders() []Order { return []Order{ByDue, ByFailures, BySuccess} }

// Validate returns Faults for an order that is none, or in which the selected accounts cannot be.
func (o Order) Validate(s *Selector) error {
	var faults Faults
	switch {
	case o == "":
	case !slices.Contains(Orders(), o):
		faults.Add(fieldSort, fmt.Sprintf("must be one of %s, is %q", wordsOf(Orders()), string(o)))
	case len(s.IDs) > 0:
		faults.Add(fieldSort, "must be left out where accounts are named by id: these are in the order of their ids")
	case o == ByDue && len(s.Reasons) > 0:
		faults.Add(fieldSort, fmt.Sprintf("must not be %s with reason: parked accounts are not due", o))
	case o == ByDue && len(s.States) > 0 && !slices.ContainsFunc(s.States, mayBeScheduled):
		faults.Add(fieldSort, fmt.Sprintf("must not be %s with state %s: only scheduled accounts have a due time", o, strings.Join(s.States, ", ")))
	}
	return faults.Err()
}

const fieldSort = "sort"

// mayBeScheduled reports whether a scheduled account may be in a state.
func mayBeScheduled(state string) bool {
	return state == string(circulate.Scheduled) || state == StateActive || ofChecks(state)
}

// ranked is an account in an order: what decides, and where its id is in the text of a shard's
// ids. What decides is smallest for the first account.
type ranked struct{ key, at uint32 }

const rankedSize = 8

// rank puts a shard's accounts, which are sorted by id, in their orders.
func (s *shardIDs) rank(checked []circulate.CheckedAccount, failed []circulate.FailedAccount) {
	at := uint32(1) // behind the NUL
	s.successes = make([]ranked, 0, len(checked))
	for _, one := range checked {
		s.successes = append(s.successes, ranked{uint32(min(max(0, one.Succeeded.Unix()), math.MaxUint32)), at})
		if len(failed) > 0 && failed[0].ID < one.ID { // it was deregistered meanwhile
			failed = failed[sort.Search(len(failed), func(i int) bool { return failed[i].ID >= one.ID }):]
		}
		if len(failed) > 0 && failed[0].ID == one.ID {
			s.failures = append(s.failures, ranked{math.MaxUint32 - uint32(min(failed[0].Failures, math.MaxUint32)), at})
			failed = failed[1:]
		}
		at += uint32(len(one.ID)) + 1
	}
	// The place of an id decides among equals.
	order := func(a, b ranked) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at)) }
	slices.SortFunc(s.successes, order)
	slices.SortFunc(s.failures, order)
	s.failures = slices.Clip(s.failures)
}

// id returns the id at a place.
func (s *shardIDs) id(at uint32) string {
	text := cmp.Or(s.written, s.folded)[at:]
	return text[:strings.IndexByte(text, 0)]
}

// behind returns up to n accounts of the shard behind a place in an order.
func (s *shardIDs) behind(o Order, from place, n int) (found []place) {
	all := s.successes
	if o == ByFailures {
		all = s.failures
	}
	all = all[sort.Search(len(all), func(i int) bool {
		return from.less(place{uint64(all[i].key), s.id(all[i].at)})
	}):]
	for _, one := range all[:min(n, len(all))] {
		found = append(found, place{uint64(one.key), strings.Clone(s.id(one.at))})
	}
	return found
}

// place is an account's place in an order: what decides, and the id among equals.
type place struct {
	key uint64
	id  string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.key, q.key), strings.Compare(p.id, q.id))
}
func (p place) less(q place) bool { return p.compare(q) < 0 }

const (
	// orderWait is how long a list waits for an index that is being read.
	orderWait = 150 * time.Millisecond
	// aheadOfShard is how many accounts of each shard a step of an ordered list reads at least.
	aheadOfShard = 4
)

// ordered returns the shards' orders. While they are being read it returns how many accounts were
// read. It returns Faults if there are none.
func (x *IDIndex) ordered(ctx context.Context) (all []shardIDs, read int, err error) {
	refused := func(why string) error { return Faults{{Field: fieldSort, Reason: why}} }
	if x == nil {
		return nil, 0, refused("must be left out: this process has no index")
	}
	timeout := time.NewTimer(orderWait)
	defer timeout.Stop()
	for {
		if !x.usable() {
			return nil, 0, refused(fmt.Sprintf("must be %s, or be left out, while the number of shards changes", ByDue))
		}
		x.mu.Lock()
		x.asked = time.Now()
		news := x.news
		all, read = slices.Clone(x.known), 0
		x.mu.Unlock()
		fresh := true
		for i := range all {
			if all[i].over {
				return nil, 0, refused(fmt.Sprintf("must be %s, or be left out: there are too many accounts for another order", ByDue))
			}
			if fresh = fresh && !all[i].at.IsZero() && time.Since(all[i].at) < indexAge; !all[i].at.IsZero() {
				read += len(all[i].successes)
			}
		}
		if fresh {
			return all, read, nil
		}
		select {
		case <-news:
		case <-timeout.C:
			return nil, read, nil
		case <-ctx.Done():
			return nil, read, ctx.Err()
		}
	}
}

// orderCursor is how far a list in an order has come.
type orderCursor struct {
	order Order
	place     // the last account that was looked at; without an id: none was
	read  int // accounts that were read for the index, and counted
}

// listOrdered is List in an order. The accounts are merged from all shards, whose orders are read
// a few accounts at a time.
func (r *Registry) listOrdered(ctx context.Context, q Query) (Page, error) {
	at := orderCursor{order: q.Order}
	if q.Cursor != "" {
		var err error
		if at, err = parseOrderCursor(q.Cursor, q.Order, r.ring.Shards()); err != nil {
			return Page{}, err
		}
	}
	page := Page{Views: make([]View, 0, min(q.Limit, ListLimit))}
	behind := r.dueBehind
	if q.Order != ByDue {
		index, read, err := r.ids.ordered(ctx)
		if err != nil {
			return Page{}, err
		}
		if index == nil {
			page.Looked = max(0, read-at.read)
			at.read = max(read, at.read)
			page.Next = at.String(r.ring.Shards())
			return page, nil
		}
		behind = func(_ context.Context, shard int, from place, n int) ([]place, error) {
			return index[shard].behind(q.Order, from, n), nil
		}
	}
	began := time.Now()
	for n := q.Limit; ; n = min(2*n, 5*lookCount) { // if few are selected, the next step looks at more
		chosen, err := r.merged(ctx, at.place, n, behind)
		if err != nil {
			return Page{}, err
		}
		if len(chosen) == 0 {
			return page, nil
		}
		views, err := r.selectedOf(ctx, chosen, &q)
		if err != nil {
			return Page{}, err
		}
		for _, p := range chosen {
			v := views[p.id]
			if v != nil && len(page.Views) == q.Limit {
				break
			}
			if at.place = p; v != nil {
				page.Views = append(page.Views, viewOf(v))
			}
			page.Looked++
		}
		if len(page.Views) == q.Limit || page.Looked >= lookBudget || time.Since(began) >= lookFor {
			page.Next = at.String(r.ring.Shards())
			return page, nil
		}
	}
}

// merged returns about n accounts of all shards behind a place. What it returns is complete: no
// other account is between two of these.
func (r *Registry) merged(ctx context.Context, from place, n int, behind func(ctx context.Context, shard int, from place, n int) ([]place, error)) ([]place, error) {
	shards := r.ring.Shards()
	each := min(circulate.MaxBatch, max(aheadOfShard, 2*n/shards))
	found := make([][]place, shards)
	if err := circulate.EachShard(ctx, shards, func(ctx context.Context, shard int) (err error) {
		found[shard], err = behind(ctx, shard, from, each)
		return err
	}); err != nil {
		return nil, err
	}
	var all []place
	end := place{key: math.MaxUint64}
	for _, some := range found {
		if all = append(all, some...); len(some) == each && some[each-1].less(end) {
			end = some[each-1] // the shard may have others right behind
		}
	}
	slices.SortFunc(all, place.compare)
	return all[:min(n, sort.Search(len(all), func(i int) bool { return end.less(all[i]) }))], nil
}

// dueBehind returns up to n scheduled accounts of a shard behind a place.
func (r *Registry) dueBehind(ctx context.Context, shard int, from place, n int) ([]place, error) {
	page, err := r.ring.DuePage(ctx, shard, circulate.DueAccount{ID: from.id, Due: time.UnixMilli(int64(min(from.key, math.MaxInt64)))}, n)
	found := make([]place, len(page))
	for i := range page {
		found[i] = place{uint64(max(0, page[i].Due.UnixMilli())), page[i].ID}
	}
	return found, err
}

// selectedOf looks at accounts, and returns those that are selected.
func (r *Registry) selectedOf(ctx context.Context, places []place, q *Query) (map[string]*circulate.View, error) {
	byShard := make(map[int][]string)
	for _, p := range places {
		if q.Selector.named(p.id) {
			shard := r.ring.ShardOf(p.id)
			byShard[shard] = append(byShard[shard], p.id)
		}
	}
	var shards []int
	for shard := range byShard {
		shards = append(shards, shard)
	}
	found := make([][]circulate.View, len(shards))
	err := circulate.EachShard(ctx, len(shards), func(ctx context.Context, i int) (err error) {
		found[i], err = r.ring.Look(ctx, shards[i], byShard[shards[i]])
		return err
	})
	views := make(map[string]*circulate.View)
	for _, some := range found {
		for i := range some {
			v := &some[i]
			if q.Selector.matchesView(v) && (q.Order != ByDue || v.Place == circulate.Scheduled) && (q.Order != ByFailures || v.Failures > 0) {
				views[v.ID] = v
			}
		}
	}
	return views, err
}

// String returns the cursor's text: how many shards there are, the order's letter, how many
// accounts were read, what decides, and the id.
func (c *orderCursor) String(shards int) string {
	text := append(binary.AppendUvarint(nil, uint64(shards)), c.order[0])
	text = binary.AppendUvarint(binary.AppendUvarint(text, uint64(c.read)), c.key)
	return SealCursor(CursorOrder, append(text, c.id...))
}

func parseOrderCursor(text string, order Order, shards int) (orderCursor, error) {
	content, err := UnsealCursor(CursorOrder, text)
	if err != nil {
		return orderCursor{}, err
	}
	number := func() uint64 {
		value, n := binary.Uvarint(content)
		content = content[max(0, n):]
		if n <= 0 {
			err = fmt.Errorf("%w: it is cut off or mistyped", ErrCursor)
		}
		return value
	}
	of := number()
	if err != nil || of != uint64(shards) {
		return orderCursor{}, fmt.Errorf("%w: it is of a ring with another number of shards", ErrCursor)
	}
	if len(content) == 0 || content[0] != order[0] {
		return orderCursor{}, fmt.Errorf("%w: it is of a list in another order", ErrCursor)
	}
	content = content[1:]
	c := orderCursor{order: order, read: int(min(number(), math.MaxInt32))}
	c.key = number()
	if c.id = string(content); err == nil && c.id != "" && circulate.ValidateID(c.id) != nil {
		err = fmt.Errorf("%w: it names no account", ErrCursor)
	}
	return c, err
}
