package ringtest

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/circulate"
)

func requeueTakes(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	entries := f.oldest()
	if len(entries) != 2 || entries[0].Entry.ID != "a" || entries[0].Entry.Replica != alice {
		f.Fatalf("oldest %+v", entries)
	}
	f.requeue(circulate.Moved, entries[0])
	f.placed("a", circulate.Waiting)
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Due: soon(c[1])})
	f.requeue(circulate.Compensated, entries[1])
	f.placed("b", circulate.Scheduled)
	f.claim(bob, "a")
}

// first and second are the halves of a requeue, for monitors that stop or are
// overtaken between them.
func (f *fixture) first(h circulate.ClaimedEntry) int {
	f.Helper()
	n := f.number("LREM", f.key("processing_list"), -1, h.Entry.String())
	f.do("LPUSH", f.key("message_queue"), h.Entry.String())
	return n
}

func (f *fixture) second(h circulate.ClaimedEntry) {
	f.Helper()
	f.do("LREM", f.key("message_queue"), 1, h.Entry.String())
	f.do("LREM", f.key("processing_list"), 1, h.Entry.String())
}

func noDoubling(f *fixture) {
	f.register("a")
	slow := f.claim(alice, "a")[0]
	f.requeue(circulate.Moved, f.oldest()[0])
	f.ret(circulate.Fenced, circulate.Return{Claim: slow})
	f.placed("a", circulate.Waiting)
	f.ret(circulate.Written, circulate.Return{Claim: f.claim(bob, "a")[0], Due: soon(slow)})
	f.placed("a", circulate.Scheduled)
}

func noLoss(f *fixture) {
	f.register("a")
	f.claim(alice, "a")
	m1, m2 := f.oldest()[0], f.oldest()[0]
	if n := f.first(m1); n != 1 {
		f.Fatalf("the first monitor took %d", n)
	}
	if n := f.first(m2); n != 0 {
		f.Fatalf("the second monitor took %d", n)
	}
	mine := f.claim(bob, "a")[0]
	f.second(m2)
	f.placed("a", circulate.Claimed)
	f.ret(circulate.Written, circulate.Return{Claim: mine, Due: soon(mine)})
	f.placed("a", circulate.Scheduled)
}

func latePushIsVoid(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	h := f.oldest()[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	if n := f.first(h); n != 0 {
		f.Fatalf("took %d", n)
	}
	// Here the monitor dies. The account is scheduled, and its old entry waits.
	f.placed("a", circulate.Scheduled)
	if b := f.batch(bob, 10); len(b.Claims) != 0 || b.Void != 1 {
		f.Errorf("claimed %d, dropped %d", len(b.Claims), b.Void)
	}
	f.placed("a", circulate.Scheduled)
}

func halfRequeue(f *fixture) {
	f.register("a")
	f.claim(alice, "a")
	h := f.oldest()[0]
	f.first(h)
	f.first(h) // another one, which dies before it compensates
	f.conservedOnceClaimed()
	b := f.batch(bob, 1)
	if len(b.Claims) != 1 {
		f.Fatalf("claimed %d", len(b.Claims))
	}
	f.conserved()
	if b := f.batch(bob, 10); len(b.Claims) != 0 || b.Void != 1 {
		f.Errorf("claimed %d, dropped %d", len(b.Claims), b.Void)
	}
	f.placed("a", circulate.Claimed)
}

func requeueIntoMistyped(f *fixture) {
	f.register("a")
	f.claim(alice, "a")
	h := f.oldest()[0]
	f.do("DEL", f.key("message_queue"))
	f.do("SET", f.key("message_queue"), "not a list")
	// This is after Oldest looked: MULTI takes the entry out and cannot push it.
	f.requeue(circulate.Moved, h)
	f.placed("a", circulate.Waiting)
	f.claim(bob, "a")
}

func requeueSetsGarbageAside(f *fixture) {
	f.register("a")
	f.claim(alice, "a")
	for i, text := range []string{"garbage", fmt.Sprintf("%014d|%013d|%s|", 1, 1, alice)} {
		f.do("RPUSH", f.key("processing_list"), text)
		h := f.oldest()[0]
		if !h.Malformed() {
			f.Fatalf("%q was read as %+v", text, h.Entry)
		}
		f.requeue(circulate.SetAsideEntry, h)
		if n := f.number("LLEN", f.key("set_aside")); n != i+1 {
			f.Errorf("%d texts set aside, want %d", n, i+1)
		}
	}
	f.placed("a", circulate.Claimed)
}

func ticketsNeverTwice(f *fixture) {
	seen := make(map[string]bool)
	fresh := func() {
		ticket := f.text("HGET", f.key("tickets"), "a")[:14]
		if seen[ticket] {
			f.Fatalf("ticket %s twice", ticket)
		}
		seen[ticket] = true
	}
	f.register("a")
	fresh()
	for i := range 20 {
		c := f.claim(alice, "a")[0]
		fresh()
		f.ret(circulate.Written, circulate.Return{Claim: c})
		fresh()
		if i == 10 {
			f.do("DEL", f.key("ticket_seq")) // the sequence is lost: it must not start again
		}
	}
}

func scriptFlush(f *fixture) {
	f.register("a")
	f.do("SCRIPT", "FLUSH")
	c := f.claim(alice, "a")[0]
	f.do("SCRIPT", "FLUSH")
	f.ret(circulate.Written, circulate.Return{Claim: c})
	f.do("SCRIPT", "FLUSH")
	if n, err := f.ring.Deregister(context.Background(), 0, []string{"a"}); n != 1 || err != nil {
		f.Error(n, err)
	}
}
