package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// tells has the fixture's ring keep so many lines.
func (f *fixture) tells(lines int) {
	f.Helper()
	ring, err := circulate.Open(context.Background(), f.server, circulate.Options{Namespace: f.ns, Timeline: func() int { return lines }})
	if err != nil {
		f.Fatal(err)
	}
	f.ring = ring
}

// lines returns an account's timeline, the oldest line first.
func (f *fixture) lines(id string) []string {
	f.Helper()
	page, err := f.ring.Timeline().Before(context.Background(), id, circulate.LinePlace{}, circulate.MaxLines)
	if err != nil {
		f.Fatal(err)
	}
	var lines []string
	for _, l := range page.Lines {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d %s", l.Event, l.N, l.Text)))
	}
	slices.Reverse(lines)
	return lines
}

func (f *fixture) told(id string, want ...string) {
	f.Helper()
	if got := f.lines(id); !slices.Equal(got, want) {
		f.Errorf("the timeline of %q is\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// tick returns in another millisecond, by Redis' clock. Lines of one moment in the two streams
// have no order.
func (f *fixture) tick() {
	f.Helper()
	now := func() int64 {
		at, err := f.ring.Now(context.Background(), 0)
		if err != nil {
			f.Fatal(err)
		}
		return at.UnixMilli()
	}
	for before := now(); now() == before; {
	}
}

// one claims one account. Void entries may be in front of it.
func (f *fixture) one() *circulate.Claim {
	f.Helper()
	f.tick()
	for range 5 {
		if b := f.batch(alice, 1); len(b.Claims) == 1 {
			return &b.Claims[0]
		}
	}
	f.Fatal("nothing is due")
	return nil
}

// fails claims an account and returns it with a failure.
func (f *fixture) fails(text string) {
	f.Helper()
	c := f.one()
	f.ret(circulate.Written, circulate.Return{Claim: c, Failures: c.Failures + 1, Mark: 't', Error: text})
}

func (f *fixture) succeeds(messages ...circulate.Message) {
	f.Helper()
	c := f.one()
	f.ret(circulate.Written, circulate.Return{Claim: c, Mark: circulate.MarkOK, Messages: messages})
}

func timelineSteps(f *fixture) {
	ctx := context.Background()
	f.tells(1000)
	f.register("a")
	a := f.ring.Account("a")
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	f.succeeds(message("1"), message("2"))
	c := f.one()
	must(f.ring.Progress(ctx, c, circulate.Page{Messages: []circulate.Message{message("3")}}))
	f.ret(circulate.Written, circulate.Return{Claim: c, Mark: circulate.MarkOK, Messages: []circulate.Message{message("4")}})
	f.fails("http_500: it broke")
	f.succeeds()
	f.ret(circulate.Written, circulate.Return{Claim: f.one(), Mark: circulate.MarkOK, Reset: "began anew"})
	c = f.one()
	f.ret(circulate.Written, circulate.Return{Claim: c, Mark: 'r', Error: "http_429: slow down"})
	c = f.one()
	f.ret(circulate.Written, circulate.Return{Claim: c, Failures: 1, Mark: 'i', Error: "bad_cursor: anew", DropCursor: true})
	f.tick()
	must(a.Nudge(ctx, circulate.Nudge{Within: 5 * time.Second}))
	must(a.Nudge(ctx, circulate.Nudge{Within: time.Second})) // merges with the first
	f.one()
	held := f.oldest()[0]
	f.requeue(circulate.Moved, held)
	if parked, err := f.ring.Quarantine(ctx, 0, held, 1, "quarantine: it kills"); err != nil || !parked {
		f.Fatalf("quarantine: %v, %v", parked, err)
	}
	must(a.Resume(ctx, circulate.Resumption{}))
	c = f.one()
	f.ret(circulate.Written, circulate.Return{Claim: c, Failures: 3, Mark: 'g', Error: "http_410: gone", Park: "gone: http_410: gone"})
	if _, err := f.ring.Probe(ctx, 0, []circulate.Resumption{{ID: "a"}}); err != nil {
		f.Fatal(err)
	}
	must(a.Park(ctx, circulate.ReasonPaused))
	must(a.Resume(ctx, circulate.Resumption{ForgetCursor: true}))
	must(a.Park(ctx, circulate.ReasonPaused))
	must(a.Resume(ctx, circulate.Resumption{State: "s17 i60000"}))
	must(a.Park(ctx, "gone: away"))
	_, err := a.Upsert(ctx, circulate.Registration{Record: []byte(`{"id":"a","url":"new"}`), Moved: "https://new.example"})
	must(err)
	want := []string{
		"found 2", "found 2", "failed 1 http_500: it broke", "recovered 1", "cursor_reset 0 began anew", "hindered 0 http_429: slow down",
		"cursor_reset 1 bad_cursor: anew", "nudged 5000", "requeued 0 " + alice, "parked 0 quarantine: it kills", "resumed 0",
		"parked 3 gone: http_410: gone", "probed 0", "parked 0 paused", "resumed 0 backfill", "parked 0 paused", "resumed 0 now",
		"parked 0 gone: away", "resumed 0 changed", "moved 0 https://new.example",
	}
	f.told("a", want...)
	must(a.Deregister(ctx))
	f.told("a", "deregistered 0")
	f.register("a")
	f.succeeds(message("5"))
	f.told("a", "deregistered 0", "found 1")
	f.told("b")
	f.conserved()
}

func timelineFailures(f *fixture) {
	f.tells(1000)
	f.register("a")
	for n := range 12 {
		f.fails(fmt.Sprintf("timeout: no answer within %d s", n))
	}
	f.fails("http_500: it broke")
	f.fails("http_500: it broke again")
	f.fails("timeout: no answer")
	f.succeeds()
	f.told("a", "failed 1 timeout: no answer within 0 s", "failed 10 timeout: no answer within 9 s",
		"failed 13 http_500: it broke", "failed 15 timeout: no answer", "recovered 15")
	for range 3 { // what an account is not to blame for counts nothing
		c := f.one()
		f.ret(circulate.Written, circulate.Return{Claim: c, Mark: 'b', Error: "http_429: slow down"})
	}
	if got := f.lines("a"); len(got) != 6 || got[5] != "hindered 0 http_429: slow down" {
		f.Errorf("%q", got)
	}
	c := f.one() // a lost claim writes no line
	f.requeue(circulate.Moved, f.oldest()[0])
	f.ret(circulate.Fenced, circulate.Return{Claim: c, Failures: 1, Mark: 't', Error: "other: text", Messages: []circulate.Message{message("1")}})
	if got := f.lines("a"); len(got) != 7 || got[6] != "requeued 0 "+alice {
		f.Errorf("%q", got)
	}
}

func timelineFlapping(f *fixture) {
	f.tells(1000)
	f.register("a")
	for range 5 {
		f.succeeds()
		f.fails("http_500: it broke")
	}
	if got := f.lines("a"); len(got) != 9 {
		f.Errorf("%q", got)
	}
	// The second recovery finds three changes before it, and so do all later lines.
	if mattered, routine := f.number("XLEN", f.key("timeline")), f.number("XLEN", f.key("timeline:routine")); mattered != 3 || routine != 6 {
		f.Errorf("%d lines mattered, %d were routine; want 3 and 6", mattered, routine)
	}
}

func timelineOrdinary(f *fixture) {
	f.tells(1000)
	f.register("a", "b")
	for range 3 {
		f.succeeds()
	}
	c := f.one() // denied by a limit
	f.ret(circulate.Written, circulate.Return{Claim: c, Rule: circulate.RuleSlot})
	if n := f.number("EXISTS", f.key("timeline"), f.key("timeline:routine")); n != 0 {
		f.Errorf("there are %d streams", n)
	}
	f.fails("http_500: it broke")
	f.succeeds(message("0"))
	if n := f.number("EXISTS", f.key("timeline"), f.key("timeline:routine")); n != 2 {
		f.Errorf("there are %d streams, want 2", n)
	}
	if err := f.ring.Timeline().Forget(context.Background()); err != nil {
		f.Fatal(err)
	}
	f.tells(0)
	f.batch(alice, 2)
	for _, held := range f.oldest() {
		f.requeue(circulate.Moved, held)
	}
	f.fails("http_500: it broke")
	f.succeeds(message("1"))
	if _, err := f.ring.Deregister(context.Background(), 0, []string{"a", "b"}); err != nil {
		f.Fatal(err)
	}
	if n := f.number("EXISTS", f.key("timeline"), f.key("timeline:routine")); n != 0 {
		f.Errorf("there are %d streams though no line is kept", n)
	}
}

func timelineCompensated(f *fixture) {
	f.tells(1000)
	f.register("a")
	c := f.one()
	held := f.oldest()[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	f.requeue(circulate.Compensated, held)
	f.told("a")
	f.placed("a", circulate.Scheduled)
}

// Redis drops whole blocks of a hundred lines, and the embedded server single ones.
func timelineCapped(f *fixture) {
	f.tells(400)
	f.register("quiet")
	f.fails("http_500: it broke")
	if _, err := f.ring.Deregister(context.Background(), 0, []string{"other"}); err != nil {
		f.Fatal(err)
	}
	if err := f.ring.Account("quiet").Park(context.Background(), circulate.ReasonPaused); err != nil {
		f.Fatal(err)
	}
	f.register("busy")
	for n := range 300 {
		f.succeeds(message(fmt.Sprint(n)))
	}
	if n := f.number("XLEN", f.key("timeline:routine")); n < 100 || n > 200 {
		f.Errorf("%d lines are routine, want 100 to 200", n)
	}
	f.told("quiet", "failed 1 http_500: it broke", "parked 0 paused")
	for range 500 {
		if err := f.ring.Account("busy").Park(context.Background(), circulate.ReasonPaused); err != nil {
			f.Fatal(err)
		}
	}
	if n := f.number("XLEN", f.key("timeline")); n < 300 || n > 400 {
		f.Errorf("%d lines mattered, want 300 to 400", n)
	}
	f.told("quiet")
}

func timelinePages(f *fixture) {
	ctx := context.Background()
	f.tells(10_000)
	f.register("a")
	for n := range 7 {
		f.succeeds(message(fmt.Sprint(n)))
		f.tick()
		if err := f.ring.Account("a").Park(ctx, fmt.Sprintf("reason %d", n)); err != nil {
			f.Fatal(err)
		}
		if err := f.ring.Account("a").Resume(ctx, circulate.Resumption{}); err != nil {
			f.Fatal(err)
		}
	}
	want := f.lines("a")
	if len(want) != 21 {
		f.Fatalf("%q", want)
	}
	var got []string
	var place circulate.LinePlace
	for range 30 {
		page, err := f.ring.Timeline().Before(ctx, "a", place, 4)
		if err != nil {
			f.Fatal(err)
		}
		for _, l := range page.Lines {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d %s", l.Event, l.N, l.Text)))
		}
		if page.Last {
			break
		}
		place = page.Next
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		f.Errorf("page by page:\n%q, want\n%q", got, want)
	}
	// Lines of one moment in both streams are shown once each, also where a page ends.
	for _, key := range []string{"timeline", "timeline:routine"} {
		f.do("XADD", f.key(key), "99999999999999-5", "account", "tied", "event", key, "n", 1, "text", "")
	}
	page, err := f.ring.Timeline().Before(ctx, "tied", circulate.LinePlace{}, 1)
	if err != nil || len(page.Lines) != 1 || page.Lines[0].Event != "timeline" {
		f.Fatalf("%+v, %v", page, err)
	}
	page, err = f.ring.Timeline().Before(ctx, "tied", page.Next, 5)
	if err != nil || len(page.Lines) != 1 || page.Lines[0].Event != "timeline:routine" || !page.Last {
		f.Errorf("%+v, %v", page, err)
	}
}

// A key of another type makes no step fail. Reading sets it aside.
func timelineSpoilt(f *fixture) {
	f.tells(1000)
	f.register("a")
	spoil := func() {
		for _, key := range []string{"timeline", "timeline:routine"} {
			f.do("DEL", f.key(key))
			f.do("SET", f.key(key), "no stream")
		}
	}
	spoil()
	f.fails("http_500: it broke")
	f.succeeds(message("1"))
	f.one()
	held := f.oldest()[0]
	f.requeue(circulate.Moved, held)
	f.requeue(circulate.Compensated, held)
	if err := f.ring.Account("a").Park(context.Background(), circulate.ReasonPaused); err != nil {
		f.Fatal(err)
	}
	f.placed("a", circulate.Parked)
	f.told("a")
	if err := f.ring.Account("a").Resume(context.Background(), circulate.Resumption{}); err != nil {
		f.Fatal(err)
	}
	f.told("a", "resumed 0")
	f.do("XADD", f.key("timeline"), "*", "not", "a line")
	f.do("XADD", f.key("timeline"), "*", "account", "a", "event", "\xff", "n", "many", "text", strings.Repeat("x", 500))
	f.told("a", "resumed 0", "� 0 "+strings.Repeat("x", 240))
}

// Accounts whose checks found something in one batch share entries, and each reads its own.
func timelineFinds(f *fixture) {
	f.tells(1000)
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("a%02d", i))
	}
	all = append(all, "event", "found")
	f.register(all...)
	b := f.batch(alice, len(all))
	var items []circulate.Return
	for i := range b.Claims {
		item := circulate.Return{Claim: &b.Claims[i], Due: soon(&b.Claims[i]), Mark: circulate.MarkOK}
		for n := range i % 3 {
			item.Messages = append(item.Messages, message(fmt.Sprint(n)))
		}
		items = append(items, item)
	}
	if _, err := f.ring.Return(context.Background(), 0, items); err != nil {
		f.Fatal(err)
	}
	for i := range items {
		if id, n := items[i].Claim.ID, len(items[i].Messages); n == 0 {
			f.told(id)
		} else {
			f.told(id, fmt.Sprintf("found %d", n))
		}
	}
	if n := f.number("XLEN", f.key("timeline:routine")); n != 2 {
		f.Errorf("%d entries, want 2", n)
	}
}

func timelineBadInput(f *fixture) {
	for _, most := range []int{-1, 0, circulate.MaxLines + 1} {
		if page, err := f.ring.Timeline().Before(context.Background(), "a", circulate.LinePlace{}, most); err == nil {
			f.Errorf("%d lines at once: %+v", most, page)
		}
	}
}

// On a full Redis the steps that succeed write lines as well.
func fullTimeline(f *fullFixture) {
	f.tells(1000)
	f.register("a")
	c := f.one()
	f.full()
	f.ret(circulate.Written, circulate.Return{Claim: c, Failures: 1, Mark: 't', Error: "http_500: it broke"})
	f.one()
	f.requeue(circulate.Moved, f.oldest()[0])
	f.must("park", f.ring.Account("a").Park(context.Background(), circulate.ReasonPaused))
	f.told("a", "failed 1 http_500: it broke", "requeued 0 "+alice, "parked 0 paused")
	f.must("deregister", f.ring.Account("a").Deregister(context.Background()))
	f.told("a", "deregistered 0")
}
