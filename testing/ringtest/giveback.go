package ringtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func returnWritesAll(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	f.ret(circulate.Written, circulate.Return{
		Claim: c, Due: soon(c), Kind: "feed", Messages: []circulate.Message{message("1"), message("2")}, Cursor: []byte("next"),
	})
	f.placed("a", circulate.Scheduled)
	if v := f.look("a"); v.Due.UnixMilli() != soon(c).UnixMilli() {
		f.Errorf("due %v, want %v", v.Due, soon(c))
	}
	found := f.found()
	if len(found) != 2 || found[0].Message.ID != "1" || found[1].Message.ID != "2" || found[0].Account != "a" || found[0].Kind != "feed" ||
		string(found[0].Message.Data) != `{"n":1}` || !found[0].Message.Time.Equal(message("1").Time) || found[0].Message.Type != "text" {
		f.Errorf("stream holds %+v", found)
	}
	f.do("ZADD", f.key("schedule"), 1, "a")
	if c := f.claim(bob, "a")[0]; string(c.Cursor) != "next" {
		f.Errorf("cursor %q, want next", c.Cursor)
	}
}

func returnLostWritesNothing(f *fixture) {
	f.register("a")
	lost := f.claim(alice, "a")[0]
	f.requeue(circulate.Moved, f.oldest()[0])
	mine := f.claim(bob, "a")[0]
	f.ret(circulate.Fenced, circulate.Return{
		Claim: lost, Due: soon(lost), Messages: []circulate.Message{message("1")}, Cursor: []byte("stolen"), Failures: 3, Park: "gone",
	})
	if got := f.messages(); len(got) != 0 {
		f.Errorf("messages %v of a lost claim", got)
	}
	f.placed("a", circulate.Claimed)
	f.ret(circulate.Written, circulate.Return{Claim: mine})
	if c := f.claim(bob, "a")[0]; c.Cursor != nil || c.Failures != 0 {
		f.Errorf("cursor %q failures %d of a lost claim", c.Cursor, c.Failures)
	}
}

func returnTwice(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	item := circulate.Return{Claim: c, Due: soon(c), Messages: []circulate.Message{message("1")}}
	f.ret(circulate.Written, item)
	f.ret(circulate.Fenced, item)
	if got := f.messages(); len(got) != 1 {
		f.Errorf("messages %v, want one", got)
	}
	outcomes, err := f.ring.Return(context.Background(), 0, []circulate.Return{item, item})
	if err != nil || slices.Contains(outcomes, circulate.Written) {
		f.Errorf("outcomes %v, %v", outcomes, err)
	}
	f.conserved()
}

func returnAtOnce(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	f.ret(circulate.Written, circulate.Return{Claim: c[0]})
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Due: c[1].Due.Add(-time.Hour)})
	f.placed("a", circulate.Waiting)
	f.placed("b", circulate.Waiting)
	again := f.claim(alice, "a", "b")
	if again[0].Ticket() == c[0].Ticket() {
		f.Error("the ticket was used again")
	}
}

func returnItemByItem(f *fixture) {
	f.register("a", "b", "c")
	c := f.claim(alice, "a", "b", "c")
	for _, h := range f.oldest() {
		if h.Entry.ID == "b" {
			f.requeue(circulate.Moved, h)
		}
	}
	outcomes, err := f.ring.Return(context.Background(), 0, []circulate.Return{{Claim: c[0]}, {Claim: c[1]}, {Claim: c[2], Park: "gone"}, {Claim: c[2]}})
	if err != nil {
		f.Fatal(err)
	}
	want := []circulate.Outcome{circulate.Written, circulate.Fenced, circulate.Written, circulate.Fenced}
	if !slices.Equal(outcomes, want) {
		f.Errorf("outcomes %v, want %v", outcomes, want)
	}
	f.placed("c", circulate.Parked)
	if v := f.look("c"); v.Reason != "gone" {
		f.Errorf("reason %q", v.Reason)
	}
}

// returnManyEqualsSingle returns some of many claims in one step, which reads the list
// once. It expects the same result as single returns would have.
func returnManyEqualsSingle(f *fixture) {
	for _, size := range []int{8, 9, 60, 200, 1000} {
		n := max(8, size/3)
		f.returnOf(fmt.Sprintf("%d any", size), size, rand.Perm(size)[:n])
		first := make([]int, n) // they stand at the end of the list
		for i := range first {
			first[i] = i
		}
		f.returnOf(fmt.Sprintf("%d first", size), size, first)
		if n < size {
			first[n/2] = size - 1
			f.returnOf(fmt.Sprintf("%d but one", size), size, first)
		}
	}
}

// returnOf claims accounts and returns those of some places together, as it would one by one.
func (f *fixture) returnOf(name string, size int, places []int) {
	f.Helper()
	var ids []string
	for i := range size {
		ids = append(ids, fmt.Sprintf("%s-%04d", name, i))
	}
	f.register(ids...)
	claims := f.claim(alice, ids...)
	before := f.strings("LRANGE", f.key("processing_list"), 0, -1)
	var items []circulate.Return
	gone := make(map[string]bool)
	for _, i := range places {
		items = append(items, circulate.Return{Claim: claims[i], Due: soon(claims[i])})
		gone[claims[i].ID] = true
	}
	outcomes, err := f.ring.Return(context.Background(), 0, items)
	if err != nil || slices.Contains(outcomes, circulate.Fenced) {
		f.Fatalf("outcomes %v, %v", outcomes, err)
	}
	want := slices.DeleteFunc(before, func(text string) bool { return gone[text[strings.LastIndexByte(text, '|')+1:]] })
	if got := f.strings("LRANGE", f.key("processing_list"), 0, -1); !slices.Equal(got, want) {
		f.Fatalf("of %d claims %d were returned, and processing_list is\n%v\nwant\n%v", size, len(items), got, want)
	}
	f.conserved()
	if n, err := f.ring.Release(context.Background(), 0, claims); err != nil || n != size-len(items) {
		f.Fatalf("released %d, %v", n, err)
	}
	for _, c := range f.batch(alice, 1000).Claims {
		f.ret(circulate.Written, circulate.Return{Claim: &c, Due: soon(&c)})
	}
}

func cursorShortAndLong(f *fixture) {
	f.register("a")
	ctx := context.Background()
	for _, cursor := range []string{"s", strings.Repeat("x", 44), strings.Repeat("y", 45), strings.Repeat("z", 64<<10), "back|to|short", "\x00\xff", strings.Repeat("l", 100), ""} {
		for _, paged := range []bool{false, true} {
			c := f.claim(alice, "a")[0]
			item := circulate.Return{Claim: c, Cursor: []byte(cursor), DropCursor: cursor == ""}
			if paged {
				if err := f.ring.Progress(ctx, c, circulate.Page{Cursor: item.Cursor, DropCursor: item.DropCursor}); err != nil {
					f.Fatal(err)
				}
				item = circulate.Return{Claim: c}
			}
			f.ret(circulate.Written, item)
			c = f.claim(bob, "a")[0]
			if string(c.Cursor) != cursor {
				f.Fatalf("cursor of %d bytes came back with %d (paged %v)", len(cursor), len(c.Cursor), paged)
			}
			// A release, a requeue and a return without news do not change it.
			if n, err := f.ring.Release(ctx, 0, []*circulate.Claim{c}); n != 1 || err != nil {
				f.Fatal(n, err)
			}
			f.claim(alice, "a")
			f.requeue(circulate.Moved, f.oldest()[0])
			c = f.claim(bob, "a")[0]
			if string(c.Cursor) != cursor {
				f.Fatalf("cursor of %d bytes became %d", len(cursor), len(c.Cursor))
			}
			f.ret(circulate.Written, circulate.Return{Claim: c})
			if kept := f.number("HLEN", f.key("cursors")); (kept == 1) != (len(cursor) > 44) {
				f.Fatalf("%d long cursors are kept for one of %d bytes", kept, len(cursor))
			}
			f.conserved()
		}
	}
}

func failuresAndStrikes(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Failures: 1, State: "i40000"})
	c = f.claim(alice, "a")[0]
	if c.Failures != 1 || c.State != "i40000" {
		f.Errorf("failures %d state %q, want 1 and i40000", c.Failures, c.State)
	}
	f.requeue(circulate.Moved, f.oldest()[0])
	if v := f.look("a"); v.Strikes != 1 || v.Failures != 1 {
		f.Errorf("strikes %d failures %d, want 1 and 1", v.Strikes, v.Failures)
	}
	c = f.claim(bob, "a")[0]
	if c.Strikes != 1 {
		f.Errorf("a claim of an account with a strike tells of %d", c.Strikes)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c})
	if v := f.look("a"); v.Strikes != 1 {
		f.Errorf("strikes %d after a return without a check", v.Strikes)
	}
	c = f.claim(bob, "a")[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Mark: 't'})
	if v := f.look("a"); v.Strikes != 0 || v.Failures != 0 {
		f.Errorf("strikes %d failures %d after a good return", v.Strikes, v.Failures)
	}
	if n := f.number("EXISTS", f.key("failures"), f.key("strikes"), f.key("states")); n != 0 {
		f.Error("fields of them are left")
	}
}

func progressRenews(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	was := c[0].Ticket()
	if err := f.ring.Progress(context.Background(), c[0], circulate.Page{Kind: "k", Messages: []circulate.Message{message("1")}, Cursor: []byte("p1")}); err != nil {
		f.Fatal(err)
	}
	if c[0].Ticket() == was || string(c[0].Cursor) != "p1" {
		f.Errorf("ticket %s cursor %q after progress", c[0].Ticket(), c[0].Cursor)
	}
	f.placed("a", circulate.Claimed)
	if oldest := f.oldest(); oldest[0].Entry.ID != "b" {
		f.Errorf("the oldest claim is %q, want b: a was renewed", oldest[0].Entry.ID)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Messages: []circulate.Message{message("2")}})
	if got := f.messages(); !slices.Equal(got, []string{"a/1", "a/2"}) {
		f.Errorf("messages %v", got)
	}
}

// A call that has succeeded counts as a success of the account, although its check goes on.
func progressSucceeds(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Mark: 't'})
	c[0] = f.claim(alice, "a")[0]
	before := f.look("a")
	for _, claim := range c {
		if err := f.ring.Progress(context.Background(), claim, circulate.Page{Kind: "k", Succeeded: claim.ID == "a"}); err != nil {
			f.Fatal(err)
		}
		f.placed(claim.ID, circulate.Claimed)
	}
	v := f.look("a")
	if want := []circulate.Mark{circulate.MarkOK, 't'}; !slices.Equal(v.History.Marks, want) || v.History.Succeeded.Before(before.History.Succeeded) || v.Rule != before.Rule {
		f.Errorf("marks %q, succeeded %v, rule %c; want %q, not before %v, %c", v.History.Marks, v.History.Succeeded, v.Rule, want, before.History.Succeeded, before.Rule)
	}
	if v := f.look("b"); len(v.History.Marks) != 0 {
		f.Errorf("marks %q of a page that is no success", v.History.Marks)
	}
	for _, claim := range c {
		tickets, err := f.ring.Tickets(context.Background(), 0, []string{claim.ID, "nobody"})
		if err != nil || !slices.Equal(tickets, []string{claim.Ticket(), ""}) {
			f.Errorf("tickets %q, %v; want %q and none", tickets, err, claim.Ticket())
		}
		f.ret(circulate.Written, circulate.Return{Claim: claim, Mark: circulate.MarkOK, Cursor: []byte("z")})
	}
	if v := f.look("a"); len(v.History.Marks) != 3 {
		f.Errorf("marks %q after the return", v.History.Marks)
	}
}

func progressLost(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	f.requeue(circulate.Moved, f.oldest()[0])
	err := f.ring.Progress(context.Background(), c, circulate.Page{Messages: []circulate.Message{message("1")}, Cursor: []byte("p1")})
	if !errors.Is(err, circulate.ErrClaimLost) {
		f.Errorf("progress: %v, want %v", err, circulate.ErrClaimLost)
	}
	if got := f.messages(); len(got) != 0 {
		f.Errorf("messages %v of a lost claim", got)
	}
	f.placed("a", circulate.Waiting)
}

func releaseNextInLine(f *fixture) {
	f.register("a", "b", "c")
	c := f.claim(alice, "a", "b")
	if n, err := f.ring.Release(context.Background(), 0, c); n != 2 || err != nil {
		f.Fatal(n, err)
	}
	f.conserved()
	again := f.claim(bob, "a", "b", "c")
	if !again[0].Due.Equal(c[0].Due) {
		f.Errorf("due %v, want %v as before", again[0].Due, c[0].Due)
	}
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
}

// releaseHeld releases what the replica knows only from processing_list.
func releaseHeld(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	entries := f.oldest()
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Due: soon(c[1])})
	if n, err := f.ring.ReleaseEntries(context.Background(), 0, entries); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	f.placed("a", circulate.Waiting)
	f.placed("b", circulate.Scheduled)
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
	if again := f.claim(bob, "a")[0]; again.Due.Before(c[0].Due) {
		f.Errorf("due %v, before %v", again.Due, c[0].Due)
	}
}

func releaseLost(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")
	f.requeue(circulate.Moved, f.oldest()[0])
	if n, err := f.ring.Release(context.Background(), 0, c); n != 0 || err != nil {
		f.Errorf("released %d, %v", n, err)
	}
	f.placed("a", circulate.Waiting)
}

// returnFromLongList returns full batches while thousands of others are in flight, so
// that the rest is put back in several pushes: exactly as much as one push takes, one
// more, and at the length from which the list is not read as a whole.
func returnFromLongList(f *fixture) {
	const full = circulate.MaxBatch
	id := func(i int) string { return fmt.Sprintf("%05d", i) }
	var claims []*circulate.Claim
	add := func(n int) {
		for n > 0 {
			ids := make([]string, min(n, full))
			for i := range ids {
				ids[i] = id(len(claims) + i)
			}
			n -= len(ids)
			f.register(ids...)
			claims = append(claims, f.claim(alice, ids...)...)
		}
	}
	claimed := func() []string { return f.strings("LRANGE", f.key("processing_list"), 0, -1) }
	returned := 0
	giveBack := func(n, left int) {
		f.Helper()
		var items []circulate.Return
		gone := make(map[string]bool)
		// Every other entry, as far as that goes, so that gaps are everywhere.
		for i := 0; len(items) < n; i = (i + 2) % (len(claims) | 1) {
			if c := claims[i%len(claims)]; c != nil {
				items = append(items, circulate.Return{Claim: c, Due: soon(c)})
				gone[c.ID] = true
				claims[i%len(claims)] = nil
			}
		}
		want := slices.DeleteFunc(claimed(), func(text string) bool { return gone[text[strings.LastIndexByte(text, '|')+1:]] })
		if len(want) != left {
			f.Fatalf("the test has %d in flight behind the return, and means %d", len(want), left)
		}
		outcomes, err := f.ring.Return(context.Background(), 0, items)
		if err != nil || slices.Contains(outcomes, circulate.Fenced) {
			f.Fatalf("of %d with %d left: %v, %v", n, left, outcomes, err)
		}
		returned += n
		if got := claimed(); !slices.Equal(got, want) {
			f.Fatalf("%d were returned: of the other %d processing_list has %d, and not the same in the same order", n, left, len(got))
		}
	}
	add(6 * full)
	giveBack(full, 5000)
	giveBack(full, 4000)
	add(1001)
	giveBack(full, 4001)
	giveBack(8, 3993) // one by one: the list is too long for so few
	f.conserved()
	if n := f.number("ZCARD", f.key("schedule")); n != returned {
		f.Errorf("%d are scheduled, and %d were returned", n, returned)
	}
}
