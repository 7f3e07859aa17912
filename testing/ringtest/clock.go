package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// aDay is how far a clock was ahead before it went back. A real server's clock cannot be
// set, so what is kept of it, and what is due by it, is set ahead instead.
const aDay = 24 * time.Hour

// now returns the time of the server, in milliseconds as scripts tell it.
func (f *fixture) now() time.Time {
	f.Helper()
	now, err := f.ring.Now(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	return now.Truncate(time.Millisecond)
}

// due has a scheduled account due at another time, as a wrong clock would.
func (f *fixture) due(id string, at time.Time) {
	f.Helper()
	f.do("ZADD", f.key("schedule"), at.UnixMilli(), id)
}

// clockBack keeps a newest time that is ahead. It is reported until it is forgotten, and
// a difference smaller than a step is not reported.
func clockBack(f *fixture) {
	ctx := context.Background()
	read := func(want time.Time) {
		f.Helper()
		c, err := f.ring.Clocks().Read(ctx, 0)
		if err != nil || !c.Newest.Equal(want) {
			f.Fatalf("the newest is %v, %v, want %v", c.Newest, err, want)
		}
		if back := want.Sub(c.Now); !want.IsZero() && c.Back() != back {
			f.Errorf("it went back by %v, want %v", c.Back(), back)
		}
	}
	keep := func(ahead time.Duration) time.Time {
		newest := time.UnixMilli(f.now().Add(ahead).UnixMilli())
		f.do("HSET", f.key("clock"), "newest", newest.UnixMilli())
		return newest
	}
	read(time.Time{})
	if n := f.number("HGET", f.key("clock"), "newest"); time.UnixMilli(int64(n)).Before(f.now().Add(-time.Minute)) {
		f.Errorf("the newest time is %d", n)
	}
	keep(circulate.ClockStep / 2)
	read(time.Time{})
	newest := keep(aDay)
	for range 2 {
		read(newest)
		if err := f.ring.Clocks().ForgetNewest(ctx, 0, newest.Add(-time.Millisecond)); err != nil { // another client has seen a newer one
			f.Fatal(err)
		}
	}
	if err := f.ring.Clocks().ForgetNewest(ctx, 0, newest); err != nil {
		f.Fatal(err)
	}
	read(time.Time{})
}

// clockGap notices that the clock went on for longer than nobody looks, tells it for a day, and
// brings a gap nearer that ended by a clock that was ahead.
func clockGap(f *fixture) {
	now := f.now()
	kept := func(field string, ahead time.Duration, rest string) {
		f.do("HSET", f.key("clock"), field, fmt.Sprint(now.Add(ahead).UnixMilli(), rest))
	}
	gap := func(want time.Duration) {
		f.Helper()
		c, err := f.ring.Clocks().Read(context.Background(), 0)
		if err != nil || c.Gap.Truncate(time.Minute) != want {
			f.Errorf("the gap is %v, %v, want %v", c.Gap, err, want)
		}
	}
	gap(0) // nobody looked before
	kept("newest", -9*time.Minute, "")
	gap(0)
	kept("newest", -2*time.Hour, "")
	gap(2 * time.Hour)
	gap(2 * time.Hour)
	kept("newest", -time.Hour, "") // a shorter one is no reason to forget it
	gap(2 * time.Hour)
	kept("gap", -23*time.Hour, "|10800000")
	gap(3 * time.Hour)
	kept("gap", -25*time.Hour, "|10800000")
	gap(0)
	kept("gap", 365*aDay, "|31536000000")
	kept("newest", 365*aDay, "") // the clock went back, and what was due is not put right yet
	gap(365 * aDay)
	if ended := f.text("HGET", f.key("clock"), "gap"); !strings.HasPrefix(ended, fmt.Sprint(f.now().UnixMilli())[:7]) {
		f.Errorf("the gap ended at %s", ended)
	}
}

// clockFar finds what is due after some time, page by page, and moves it earlier, unless
// it has moved since.
func clockFar(f *fixture) {
	ctx := context.Background()
	var ids, want []string
	for i := range 300 {
		ids = append(ids, fmt.Sprintf("%03d", i))
	}
	f.register(ids...)
	now := f.now()
	for i, id := range ids {
		ahead := time.Minute
		if i%3 == 0 {
			want, ahead = append(want, id), aDay+time.Duration(i)*time.Second
		}
		f.due(id, now.Add(ahead))
	}
	var moves []circulate.Move
	for cursor := ""; cursor != circulate.ScanDone; {
		far, at, next, err := f.ring.Clocks().FarScheduled(ctx, 0, cursor, 20, time.Hour)
		if err != nil || at.Before(now) {
			f.Fatal(at, err)
		}
		cursor = next
		for _, one := range far {
			if string(one.Record) != `{"id":"`+one.ID+`"}` || one.Rule == 0 || one.Due.Before(now.Add(aDay-time.Second)) {
				f.Errorf("%s: record %s, rule %q, due in %v", one.ID, one.Record, one.Rule, one.Due.Sub(now))
			}
			if !slices.ContainsFunc(moves, func(m circulate.Move) bool { return m.Far.ID == one.ID }) {
				moves = append(moves, circulate.Move{Far: one, To: now.Add(30 * time.Minute)})
			}
		}
	}
	slices.SortFunc(moves, func(a, b circulate.Move) int { return strings.Compare(a.Far.ID, b.Far.ID) })
	var got []string
	for _, m := range moves {
		got = append(got, m.Far.ID)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("far are %q, want %q", got, want)
	}
	f.nudge("000", circulate.Nudge{})
	for _, moved := range []int{len(moves) - 1, 0} { // twice: then no account is where it was seen
		if n, err := f.ring.Clocks().MoveDue(ctx, 0, moves); n != moved || err != nil {
			f.Errorf("moved %d, %v, want %d", n, err, moved)
		}
	}
	if due := f.look("003").Due; due.UnixMilli() != now.Add(30*time.Minute).UnixMilli() {
		f.Errorf("due in %v, want half an hour", due.Sub(now))
	}
	f.conserved()
	f.claimAll("000")
}

// clockRewind brings nearer what ends by a clock that was a day ahead, and does not
// change other times.
func clockRewind(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	token := f.lease(alice).Token()
	f.register("ahead", "right", "parked")
	f.claim(alice, "ahead", "parked", "right")
	if _, err := f.ring.Park(ctx, 0, "gone", []string{"parked"}); err != nil {
		f.Fatal(err)
	}
	now := f.now()
	ms := func(ahead time.Duration) string { return fmt.Sprintf("%013d", now.Add(ahead).UnixMilli()) }
	right := ms(-time.Second) + "|" + ms(time.Hour) + "|right"
	f.do("HSET", f.key("leases"), crew, token+"|"+ms(aDay+30*time.Second)+"|"+alice)
	f.do("HSET", f.key("nudges"), "ahead", ms(aDay+time.Minute)+"|"+ms(aDay+time.Hour)+"|hint", "right", right)
	f.do("ZADD", f.key("parked"), now.Add(aDay).UnixMilli(), "parked")
	if err := f.ring.Clocks().Rewind(ctx, 0, aDay, true); err != nil {
		f.Fatal(err)
	}
	lease, after, err := group.Of(f.ring).Member(crew, bob, time.Minute).Lease(ctx, 0)
	if err != nil || after > 30*time.Second {
		f.Errorf("the lease lasts for %v, %v, want half a minute at most", after, err)
	}
	if kept := f.text("HGET", f.key("leases"), crew); f.now().Before(now.Add(30*time.Second)) && (lease != nil || kept != token+"|"+ms(30*time.Second)+"|"+alice) {
		f.Errorf("the lease is %s, and bob's %v", kept, lease)
	}
	if nudge := f.text("HGET", f.key("nudges"), "right"); nudge != right {
		f.Errorf("the nudge of a clock that was right is %s, was %s", nudge, right)
	}
	// On a loaded machine that takes longer than the nudge should wait, it is due at
	// once.
	if nudge, want := f.text("HGET", f.key("nudges"), "ahead"), ms(time.Minute)+"|"+ms(time.Hour)+"|hint"; nudge != want && f.now().Before(now.Add(time.Minute)) {
		f.Errorf("the nudge is %s, want %s", nudge, want)
	}
	// Once more, it leaves nudges alone: they were brought nearer before.
	if err := f.ring.Clocks().Rewind(ctx, 0, time.Second, false); err != nil {
		f.Fatal(err)
	}
	if nudge, want := f.text("HGET", f.key("nudges"), "ahead"), ms(time.Minute)+"|"+ms(time.Hour)+"|hint"; nudge != want && f.now().Before(now.Add(time.Minute)) {
		f.Errorf("the second time, the nudge is %s, want %s", nudge, want)
	}
	// Redis keeps it in milliseconds.
	if since := f.look("parked").Since; since.After(f.now()) || since.Before(now.Truncate(time.Millisecond)) {
		f.Errorf("parked since %v, want %v", since, now)
	}
	f.conserved()
}

// auditFindsBeyond asks about accounts that are not due for a while, and moves those that
// are due too late, unless they have moved meanwhile.
func auditFindsBeyond(f *fixture) {
	ctx := context.Background()
	f.register("far", "late", "moved", "near")
	now := f.now()
	for id, ahead := range map[string]time.Duration{"far": aDay, "late": 2 * time.Hour, "moved": aDay, "near": circulate.AuditFar - time.Minute} {
		f.due(id, now.Add(ahead))
	}
	audit := func(repair bool, want ...string) {
		f.Helper()
		var got, asked []string
		found, err := f.ring.AuditShard(ctx, 0, circulate.AuditOptions{Repair: repair, Beyond: func(far circulate.Far, at time.Time) (time.Time, bool) {
			asked = append(asked, far.ID)
			if repair && far.ID == "moved" {
				f.nudge("moved", circulate.Nudge{Within: 10 * time.Minute})
			}
			return at, far.Due.Sub(at) > 3*time.Hour
		}})
		if err != nil {
			f.Fatal(err)
		}
		for _, v := range found.Findings {
			got = append(got, fmt.Sprint(v.Kind, " ", v.ID, " ", v.Repaired))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || slices.Contains(asked, "near") || !slices.Contains(asked, "late") {
			f.Errorf("found %q, want %q, and asked about %q", got, want, asked)
		}
	}
	audit(false, "beyond far false", "beyond moved false")
	if due := f.look("far").Due; due.Before(now.Add(aDay - time.Second)) {
		f.Errorf("due in %v, and nothing was to be repaired", due.Sub(now))
	}
	audit(true, "beyond far true", "beyond moved false")
	audit(true)
	f.conserved()
	f.claimAll("far")
}
