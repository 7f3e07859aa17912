package accounts

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// ListLimit is the number of accounts on a page unless the caller asks otherwise.
	ListLimit = 100
	// MaxListLimit is the most accounts that a caller may ask for.
	MaxListLimit = 1000

	// lookCount is the number of accounts that are looked at at a time, and briefCount the
	// number whose records alone are read, each of up to MaxConfig.
	lookCount  = 200
	briefCount = 400
	// lookBudget is the number of accounts that a page with a filter, or a call of
	// Revive, looks at before it returns: a filter that few accounts pass must not make
	// one request walk through a million.
	lookBudget = 5000
	// passedPerLook is the number of ids without a selected prefix that cost as much as
	// a look at one account.
	passedPerLook = 20
	// lookFor is about how long a page with a filter looks before it returns, so that people who
	// wait for it see how far it is.
	lookFor = 150 * time.Millisecond
)

// Query says which accounts List returns.
type Query struct {
	Limit    int    // 1 to MaxListLimit; 0 means ListLimit
	Cursor   string // Next of the page before; empty: the first page
	Selector Selector
	Order    Order // empty: the order that List describes
}

// Page is a part of a list.
type Page struct {
	Views  []View
	Next   string // the next page's Cursor; empty: this page is the last
	Looked int    // how many accounts the list has gone past for this page, selected or not
}

// List returns accounts, a page at a time, in an order that stays the same. An account
// that stays registered during a walk is in it once, or twice if it moves to another
// shard while the number of shards changes. With a filter, a page may have fewer accounts
// than asked for, or none, and still not be the last. List returns Faults for a query
// that is not valid, and ErrCursor for a cursor that this ring never returned.
//
// The accounts of a small shard are in the order of their ids, which List sorts for each
// page. From a large shard a page reads only a part, in Redis' own order. If another
// server takes over during a walk, or many accounts leave a large shard, the walk may
// return accounts of that shard twice.
func (r *Registry) List(ctx context.Context, q Query) (Page, error) {
	var err error
	if q.Limit, err = pageLimit(q.Limit); err != nil {
		return Page{}, err
	}
	if err := q.Selector.Validate(); err != nil {
		return Page{}, err
	}
	if err := q.Order.Validate(&q.Selector); err != nil {
		return Page{}, err
	}
	q.Selector = r.within(q.Selector)
	if q.Order != "" {
		return r.listOrdered(ctx, q)
	}
	at := listCursor{}
	if q.Cursor != "" {
		if at, err = parseListCursor(q.Cursor, r.ring.Shards()); err != nil {
			return Page{}, err
		}
	}
	l := &listing{registry: r, query: q, at: at, page: Page{Views: make([]View, 0, min(q.Limit, ListLimit))}, began: time.Now()}
	for ; l.at.shard < r.ring.Shards(); l.at = (listCursor{shard: l.at.shard + 1}) {
		// No account of the shards before was selected, or the page is full.
		full := l.enough()
		if !full {
			var err error
			if full, err = l.walk(ctx); err != nil {
				return Page{}, err
			}
		}
		if full {
			l.page.Next = l.at.String(r.ring.Shards())
			return l.page, nil
		}
	}
	return l.page, r.complete(ctx)
}

// pageLimit returns the most accounts of a page, given what a query asks for.
func pageLimit(asked int) (int, error) {
	if asked < 0 || asked > MaxListLimit {
		return 0, Faults{{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d, is %d", MaxListLimit, asked)}}
	}
	return cmp.Or(asked, ListLimit), nil
}

// listing is a page that is being made.
type listing struct {
	registry *Registry
	query    Query
	page     Page
	at       listCursor
	looked   int // what the looks cost, in accounts
	ahead    lookedAhead
	began    time.Time
}

// enough reports whether the page has cost what it may. It has then looked at some account, so
// that the next page comes further. A page that has found all that it looked at is not cut short
// for its time.
func (l *listing) enough() bool {
	return l.looked >= lookBudget || l.looked > len(l.page.Views) && time.Since(l.began) >= lookFor
}

// walk goes on in the shard, and reports whether the page ends there.
func (l *listing) walk(ctx context.Context) (full bool, err error) {
	if l.at.after == "" {
		if err := l.registry.enter(ctx, l.at.shard); err != nil {
			return false, err
		}
	}
	s := &l.query.Selector
	if w, windowed := l.at.window(); windowed {
		return l.windows(ctx, w, nil)
	}
	if ids, ok := l.registry.ids.find(l.at.shard, s); ok {
		return l.sorted(ctx, ids)
	}
	if l.at.after == "" && len(s.IDs) == 0 && !s.indexed() {
		first, err := l.registry.ring.ScanWindow(ctx, l.at.shard, circulate.ScanDone, l.room())
		if err != nil {
			return false, err
		}
		if first.Accounts > scanCount && first.Server != "" {
			return l.windows(ctx, listWindow{server: shortRun(first.Server)}, &first)
		}
	}
	ids, err := l.ids(ctx)
	if err != nil {
		return false, err
	}
	return l.sorted(ctx, ids)
}

// sorted goes on among some ids of the shard, which are sorted.
func (l *listing) sorted(ctx context.Context, ids []string) (full bool, err error) {
	ids = ids[sort.Search(len(ids), func(i int) bool { return ids[i] > l.at.after }):]
	chosen := l.chosen(ids)
	rest, err := l.look(ctx, chosen)
	switch {
	case err != nil:
		return false, err
	case len(rest) == 0:
		l.page.Looked += len(ids)
		return false, nil
	case len(rest) < len(chosen):
		l.at.after = chosen[len(chosen)-len(rest)-1]
		l.page.Looked += sort.Search(len(ids), func(i int) bool { return ids[i] > l.at.after })
	}
	return true, nil
}

// chosen returns the ids that may be selected, and counts the others as far as they cost.
func (l *listing) chosen(ids []string) []string {
	chosen := l.query.Selector.passes(slices.Clone(ids))
	l.looked += (len(ids) - len(chosen)) / passedPerLook
	return chosen
}

// look puts the selected accounts on the page. It returns the ids that are left when the
// page is full or lookBudget is used up.
func (l *listing) look(ctx context.Context, ids []string) (rest []string, err error) {
	s, few := &l.query.Selector, l.room()
	for first := true; len(ids) > 0 && len(l.page.Views) < l.query.Limit && (!l.enough() || first); first = false {
		// If few are selected, the next step looks at more.
		batch := ids[:min(len(ids), few, lookCount)]
		var views map[string]*circulate.View
		if s.asksRecord() && !l.ahead.has(batch) {
			batch, views, err = l.lookTwice(ctx, ids[:min(len(ids), 2*few, briefCount)])
		} else {
			views, err = l.views(ctx, batch)
		}
		if err != nil {
			return nil, err
		}
		before := len(l.page.Views)
		for i, id := range batch {
			if len(l.page.Views) == l.query.Limit {
				batch = batch[:i]
				break
			}
			if v := views[id]; v != nil && s.matchesView(v) {
				l.page.Views = append(l.page.Views, viewOf(v))
			}
		}
		ids = ids[len(batch):]
		if len(l.page.Views)-before < len(batch)/4 {
			few *= 2
		}
	}
	return ids, nil
}

// lookTwice looks at accounts briefly, and then again at those whose records are selected, but
// at no more of these than the page has room for. It returns the ids that it has gone through.
func (l *listing) lookTwice(ctx context.Context, ids []string) (gone []string, views map[string]*circulate.View, err error) {
	brief, _, err := l.registry.ring.LookBrief(ctx, l.at.shard, ids)
	if err != nil {
		return nil, nil, err
	}
	l.looked += len(ids)
	selected := make(map[string]bool)
	for i := range brief {
		if l.query.Selector.mayBeRecord(brief[i].Record) {
			selected[brief[i].ID] = true
		}
	}
	var again []string
	most := min(lookCount, l.query.Limit-len(l.page.Views))
	for i, id := range ids {
		if !selected[id] {
			continue
		}
		if len(again) == most {
			ids = ids[:i]
			break
		}
		again = append(again, id)
	}
	if len(again) == 0 {
		return ids, nil, nil
	}
	views, err = l.views(ctx, again)
	return ids, views, err
}

// views looks at accounts, unless that was done ahead.
func (l *listing) views(ctx context.Context, ids []string) (map[string]*circulate.View, error) {
	l.looked += len(ids)
	if l.ahead.has(ids) {
		return l.ahead.views, nil
	}
	found, err := l.registry.ring.Look(ctx, l.at.shard, ids)
	views := make(map[string]*circulate.View, len(found))
	for i := range found {
		views[found[i].ID] = &found[i]
	}
	return views, err
}

const (
	// shardsAhead is how many shards are read at once if the selected accounts have an index,
	// and looksAhead is about how many of their accounts are looked at.
	shardsAhead = 16
	looksAhead  = 200
)

// lookedAhead is what was read of the next shards at once. One after the other they would
// take a round trip or two each, however few of their accounts are selected.
type lookedAhead struct {
	ids   map[int][]string           // by shard
	views map[string]*circulate.View // nil: it is not registered
}

// has reports whether all of these accounts were looked at.
func (a *lookedAhead) has(ids []string) bool {
	for _, id := range ids {
		if _, ok := a.views[id]; !ok {
			return false
		}
	}
	return true
}

// ids returns the ids of the shard that may be selected.
func (l *listing) ids(ctx context.Context) ([]string, error) {
	s, ring := &l.query.Selector, l.registry.ring
	if len(s.IDs) == 0 && !s.indexed() {
		return l.registry.idsOf(ctx, l.at.shard)
	}
	if ids, ok := l.ahead.ids[l.at.shard]; ok {
		return ids, nil
	}
	end := min(l.at.shard+shardsAhead, ring.Shards())
	if l.at.shard < ring.Sources() {
		end = min(end, ring.Sources()) // enter comes first
	}
	all := make([][]string, end-l.at.shard)
	if err := circulate.EachShard(ctx, len(all), func(ctx context.Context, i int) (err error) {
		all[i], err = l.registry.idsFor(ctx, l.at.shard+i, s)
		return err
	}); err != nil {
		return nil, err
	}
	l.ahead = lookedAhead{ids: make(map[int][]string, len(all)), views: make(map[string]*circulate.View)}
	batches, sum := make([][]string, 0, len(all)), 0
	for i, ids := range all {
		l.ahead.ids[l.at.shard+i] = ids
		if i == 0 {
			ids = ids[sort.Search(len(ids), func(i int) bool { return ids[i] > l.at.after }):]
		}
		if sum < looksAhead && len(s.Prefixes)+len(s.Parts) == 0 {
			ids = ids[:min(len(ids), l.room())]
			batches, sum = append(batches, ids), sum+len(ids)
		}
	}
	found := make([][]circulate.View, len(batches))
	if err := circulate.EachShard(ctx, len(batches), func(ctx context.Context, i int) (err error) {
		if len(batches[i]) > 0 {
			found[i], err = ring.Look(ctx, l.at.shard+i, batches[i])
		}
		return err
	}); err != nil {
		return nil, err
	}
	for i, ids := range batches {
		for _, id := range ids {
			l.ahead.views[id] = nil
		}
		for j := range found[i] {
			l.ahead.views[found[i][j].ID] = &found[i][j]
		}
	}
	return all[0], nil
}

// room returns how many accounts a window should have if all of them are selected.
func (l *listing) room() int { return max(leftMost, l.query.Limit-len(l.page.Views)) }

// windows goes through a shard in Redis' own order, a window at a time. The first window
// may have been read already.
func (l *listing) windows(ctx context.Context, w listWindow, first *circulate.Window) (full bool, err error) {
	begun := len(w.left) > 0 || w.next != 0
	left, err := l.look(ctx, w.left)
	l.page.Looked += len(w.left) - len(left)
	for count := l.room(); err == nil; {
		switch w.left = left; {
		case begun && w.next == 0 && len(left) == 0:
			return false, nil
		case len(left) > 0 || len(l.page.Views) == l.query.Limit || l.enough():
			if l.at.after = ""; begun {
				l.at.after = w.String()
			}
			return true, nil
		}
		seen, next, err := l.scan(ctx, w.next, count, first)
		if err != nil {
			return false, err
		}
		if first = nil; w.server != shortRun(seen.Server) && (w.next != 0 || next != 0) {
			if seen.Server == "" {
				return false, fmt.Errorf("%w: the server no longer tells its identity", ErrCursor)
			}
			// Another server has the accounts in another order: the shard begins anew.
			w, begun = listWindow{server: shortRun(seen.Server)}, false
			continue
		}
		before := len(l.page.Views)
		ids := slices.Compact(slices.Sorted(slices.Values(seen.IDs)))
		if left, err = l.look(ctx, l.chosen(ids)); err != nil {
			return false, err
		}
		if len(left) > 2*leftMost && count > leftMost { // too many for a cursor
			l.page.Views, left, count = l.page.Views[:before], nil, leftMost
			continue
		}
		l.page.Looked += len(ids) - len(left)
		if w.next, begun = next, true; len(l.page.Views)-before < l.room()/4 {
			count = min(2*count, scanCount)
		} else {
			count = l.room()
		}
	}
	return false, err
}

// scan reads a window, unless it was read already.
func (l *listing) scan(ctx context.Context, at uint64, count int, read *circulate.Window) (w circulate.Window, next uint64, err error) {
	if read != nil {
		w = *read
	} else if w, err = l.registry.ring.ScanWindow(ctx, l.at.shard, strconv.FormatUint(at, 10), count); err != nil {
		return w, 0, err
	}
	if next, err = strconv.ParseUint(w.Next, 10, 64); err != nil {
		return w, 0, fmt.Errorf("list, shard %d: %w", l.at.shard, err)
	}
	return w, next, nil
}

// listCursor is how far a list has come: after an id of a shard, in the order of bytes,
// or in a window of a large shard. The text of a window begins with a NUL, which no id
// has: a version that does not know windows takes it for an id before all others, and
// lists the shard from its beginning.
type listCursor struct {
	shard int
	after string
}

// leftMost is about how many ids are left over for the next page at most.
const leftMost = 16

// listWindow is how far a list has come in a large shard.
type listWindow struct {
	server string   // the beginning of the run's id of the server that has this order
	next   uint64   // the next window; 0: none, or the first if none was read
	left   []string // earlier ids that have not been looked at yet
}

const runLength = 16

func shortRun(server string) string { return server[:min(len(server), runLength)] }

// String returns the window as it stands in a cursor.
func (w *listWindow) String() string {
	text := append([]byte{0}, byte(len(w.server)))
	text = binary.AppendUvarint(append(text, w.server...), w.next)
	for _, id := range w.left {
		text = append(binary.AppendUvarint(text, uint64(len(id))), id...)
	}
	return string(text)
}

// window returns the window, if the cursor is in one.
func (c listCursor) window() (w listWindow, ok bool) {
	text, found := strings.CutPrefix(c.after, "\x00")
	if !found || text == "" || len(text) <= int(text[0]) {
		return w, false
	}
	w.server, text = text[1:1+text[0]], text[1+text[0]:]
	next, n := binary.Uvarint([]byte(text))
	if n <= 0 {
		return w, false
	}
	w.next = next
	for text = text[n:]; text != ""; {
		length, n := binary.Uvarint([]byte(text))
		if n <= 0 || length > uint64(len(text)-n) || circulate.ValidateID(text[n:n+int(length)]) != nil {
			return w, false
		}
		w.left, text = append(w.left, text[n:n+int(length)]), text[n+int(length):]
	}
	return w, len(w.left) <= circulate.MaxBatch && (w.next != 0 || len(w.left) > 0)
}

func (c listCursor) String(shards int) string {
	return SealCursor(CursorList, append(appendShard(nil, shards, c.shard), c.after...))
}

func parseListCursor(text string, shards int) (listCursor, error) {
	content, err := UnsealCursor(CursorList, text)
	if err != nil {
		return listCursor{}, err
	}
	shard, after, err := cutShard(content, shards)
	if err != nil {
		return listCursor{}, err
	}
	c := listCursor{shard, string(after)}
	if _, windowed := c.window(); !windowed && strings.HasPrefix(c.after, "\x00") {
		return listCursor{}, fmt.Errorf("%w: it names no place in a shard", ErrCursor)
	}
	return c, nil
}

// Counted is how many accounts a selector selects.
type Counted struct {
	Count    int  // selected accounts among those looked at
	Complete bool // all accounts were looked at, or counted without a look
	Estimate int  // of all selected accounts, if not complete; 0: no estimate
}

// CountWithin counts the accounts that a selector selects, without changing any. It looks at
// budget accounts or a few more, and counts all that are registered, or in one place, without
// a look. A smaller budget takes less time. It returns Faults for a selector that is not valid.
func (r *Registry) CountWithin(ctx context.Context, s Selector, budget int) (Counted, error) {
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
	w := &bulkWalk{registry: r, Bulk: Bulk{Action: PauseAll, Selector: s, DryRun: true}, bounded: true}
	w.left.Store(int64(budget))
	did, err := w.run(ctx, func(Progress) error { return nil })
	switch {
	case err == nil:
		return Counted{Count: did.Matched, Complete: true}, nil
	case !errors.Is(err, errEnough):
		return Counted{}, err
	}
	counted := Counted{Count: did.Matched}
	if did.Seen > 0 && len(r.labels) == 0 && !s.indexed() {
		// Shards are a fair sample: a hash of the id decides where an account is.
		share := float64(did.Matched) / float64(did.Seen)
		counted.Estimate = max(did.Matched, int(math.Round(share*float64(all.Registered))))
	}
	return counted, nil
}

// countPlaces counts the accounts of all shards by place, as far as an exact count is
// possible.
func (r *Registry) countPlaces(ctx context.Context) (circulate.Count, error) {
	var all circulate.Count
	counts, err := r.ring.CountAll(ctx)
	for _, c := range counts {
		all.Add(c)
	}
	return all, err
}

// countIn returns how many accounts the selector selects, if the counts by place suffice.
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
	return 0, false // queues may have void entries
}
