package ringtest

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// windowed is a send of a kind that has windows.
func windowed(account, peer, words string, waits bool) circulate.Send {
	s := text(account, peer, words)
	s.Windowed, s.Waits = true, waits
	return s
}

// window expects what is known of a peer's window.
func (o *outbox) window(account, peer string, left int, token string) {
	o.Helper()
	w, known, err := o.sends.Window(context.Background(), account, peer)
	if err != nil || known != (left != -2) || known && (w.Left != left || w.Token != token) {
		o.Errorf("window %+v, %v, %v; want %d left, and %q", w, known, err, left, token)
	}
}

// outside expects that a send is refused as outside its window.
func (o *outbox) outside(s circulate.Send, left int) {
	o.Helper()
	_, _, err := o.sends.Queue(context.Background(), s, "", circulate.SendBounds{})
	w := (*circulate.WindowError)(nil)
	if !errors.As(err, &w) || w.Left != left || w.Until.IsZero() != (left == -1) {
		o.Errorf("outside its window: %v", err)
	}
	o.consistent()
}

func windowOpens(f *fixture) {
	o := f.outbox("a", "b")
	o.outside(windowed("a", "anna", "1", false), -1)
	waits := o.queue(windowed("a", "anna", "1", true))
	behind := o.queue(windowed("a", "anna", "2", true))
	o.attempt(alice)
	o.window("a", "anna", -2, "")
	o.finds("b", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2, Token: "other"})
	o.finds("a", circulate.Answerable{Peer: "ben", For: time.Hour, Count: 2, Token: "other"})
	o.attempt(alice)
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2, Token: "t1"})
	o.window("a", "anna", 2, "t1")
	a := o.attempt(alice, waits)[0]
	if a.Token != "t1" {
		f.Errorf("sent with the token %q", a.Token)
	}
	o.window("a", "anna", 1, "t1")
	o.accept(a)
	o.accept(o.attempt(alice, behind)[0])
	o.window("a", "anna", 0, "t1")
	o.outside(windowed("a", "anna", "3", false), 0)
	third := o.queue(windowed("a", "anna", "3", true))
	o.attempt(bob)
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Minute, Count: 9, Token: "older"}) // found late
	o.window("a", "anna", 0, "t1")
	o.finds("a", circulate.Answerable{Peer: "anna", For: 2 * time.Hour, Count: 1, Token: "t2|x"})
	if a := o.attempt(bob, third)[0]; a.Token != "t2|x" {
		f.Errorf("sent with the token %q", a.Token)
	}
	// A kind without windows does not ask for one.
	o.attempt(bob, o.queue(text("a", "cleo", "1")))
}

// windowOpensOnce finds a message twice: the second time refills nothing.
func windowOpensOnce(f *fixture) {
	o := f.outbox("a")
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2, Token: "t"})
	o.accept(o.attempt(alice, o.queue(windowed("a", "anna", "1", false)))[0])
	w, _, err := o.sends.Window(context.Background(), "a", "anna")
	if err != nil {
		f.Fatal(err)
	}
	o.finds("a", circulate.Answerable{Peer: "anna", For: w.Until.Sub(f.now()) + 100*time.Millisecond, Count: 2, Token: "t"})
	o.window("a", "anna", 1, "t")
}

// windowStaysAtARepetition finds a message again that its account remembers: it opens no
// window. A message beside it does.
func windowStaysAtARepetition(f *fixture) {
	f.resting("return", "progress")
	o := &outbox{fixture: f, sends: f.ring.Sends()}
	for _, step := range []string{"return", "progress"} {
		opening := func(id, peer string, lasts time.Duration, token string) circulate.Message {
			m := message(id)
			m.Answerable = &circulate.Answerable{Peer: peer, For: lasts, Count: 2, Token: token}
			return m
		}
		judged := f.pages(step, remembering, step,
			[]circulate.Message{opening("1", "anna", time.Hour, "t1")},
			[]circulate.Message{message("0"), opening("1", "anna", 2*time.Hour, "t2"), opening("2", "ben", time.Hour, "t3")})
		if judged[1].Repeated != 1 {
			f.Errorf("%s: %+v", step, judged)
		}
		o.window(step, "anna", 2, "t1")
		o.window(step, "ben", 2, "t3")
	}
}

// windowOpensByAPage is what Progress does of it.
func windowOpensByAPage(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	waits := o.queue(windowed("a", "anna", "1", true))
	c := f.claim(alice, "a")[0]
	first, second := message("1"), message("2")
	second.Answerable = &circulate.Answerable{Peer: "anna", For: time.Hour, Token: "t"}
	if err := f.ring.Progress(ctx, c, circulate.Page{Kind: chat, Messages: []circulate.Message{first, second}, Cursor: []byte("p")}); err != nil {
		f.Fatal(err)
	}
	if got := f.messages(); len(got) != 2 {
		f.Errorf("messages %q", got)
	}
	o.window("a", "anna", -1, "t")
	o.attempt(bob, waits)
	o.window("a", "anna", -1, "t")
	// What a lost claim found opens nothing.
	f.requeue(circulate.Moved, f.oldest()[0])
	second.Answerable = &circulate.Answerable{Peer: "ben", For: time.Hour}
	if err := f.ring.Progress(ctx, c, circulate.Page{Kind: chat, Messages: []circulate.Message{second}}); !errors.Is(err, circulate.ErrClaimLost) {
		f.Error(err)
	}
	f.ret(circulate.Fenced, circulate.Return{Claim: c, Kind: chat, Messages: []circulate.Message{second}})
	o.window("a", "ben", -2, "")
}

// windowCounts: as many attempts as the window allows, and what did not leave is not
// counted.
func windowCounts(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2})
	first, second := o.queue(windowed("a", "anna", "1", false)), o.queue(windowed("a", "anna", "2", false))
	o.outside(windowed("a", "anna", "3", false), 2) // two in line take both
	third := o.queue(windowed("a", "anna", "3", true))
	a := o.attempt(alice, first)[0]
	o.window("a", "anna", 1, "")
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptUnsent, After: f.now()})
	o.window("a", "anna", 2, "")
	a = o.attempt(alice, first)[0]
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptAgain, After: f.now()})
	o.window("a", "anna", 1, "")
	a = o.attempt(alice, first)[0]
	o.window("a", "anna", 0, "")
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptNotBegun})
	o.window("a", "anna", 1, "")
	attempts, _, err := o.sends.Attempt(ctx, 0, circulate.AttemptOrder{Replica: alice, Step: "lost", Kinds: []string{chat}, Most: 1, Lasts: time.Minute})
	if err != nil || len(attempts) != 1 {
		f.Fatal(attempts, err)
	}
	if n, err := o.sends.Withdraw(ctx, 0, alice, "lost"); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	o.window("a", "anna", 1, "")
	o.accept(o.attempt(bob, first)[0])
	o.window("a", "anna", 0, "")
	// The retry took the second one's place in the count: it is not sent outside.
	o.attempt(bob)
	if s := o.is(second, circulate.SendRejected); s.Code != "window" {
		f.Errorf("rejected as %+v", s)
	}
	o.is(third, circulate.SendQueued)
	// A count is given back to the window that it was taken from.
	o.finds("a", circulate.Answerable{Peer: "anna", For: 2 * time.Hour, Count: 5})
	a = o.attempt(bob, third)[0]
	o.finds("a", circulate.Answerable{Peer: "anna", For: 3 * time.Hour, Count: 5})
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptNotBegun})
	o.window("a", "anna", 5, "")
	o.accept(o.attempt(bob, third)[0])
	freeCounts(o)
}

// freeCounts: a send that is free needs the window, and takes nothing from its count, neither in line
// nor when it is attempted.
func freeCounts(o *outbox) {
	free := func(peer string) circulate.Send {
		s := windowed("a", peer, "typing", false)
		s.Free = true
		return s
	}
	o.outside(free("ben"), -1)
	o.finds("a", circulate.Answerable{Peer: "ben", For: time.Hour, Count: 1})
	first, last := o.queue(free("ben")), o.queue(windowed("a", "ben", "1", false))
	o.outside(windowed("a", "ben", "2", false), 1)
	a := o.attempt(alice, first)[0]
	if s := o.is(first, circulate.SendAttempting); !s.Windowed || !s.Free {
		o.Errorf("it has become %+v", s)
	}
	o.window("a", "ben", 1, "")
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptUnsent, After: o.now()})
	o.window("a", "ben", 1, "")
	o.accept(o.attempt(alice, first)[0])
	o.accept(o.attempt(alice, last)[0])
	o.window("a", "ben", 0, "")
	o.outside(free("ben"), 0)

	// One under an attempt has taken from the count, and does not take again.
	o.finds("a", circulate.Answerable{Peer: "carl", For: time.Hour, Count: 2})
	first = o.queue(windowed("a", "carl", "1", false))
	a = o.attempt(alice, first)[0]
	last = o.queue(windowed("a", "carl", "2", false))
	o.outside(windowed("a", "carl", "3", false), 1)
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptUnsent, After: o.now()}) // and gives it back
	o.window("a", "carl", 2, "")
	o.accept(o.attempt(alice, first)[0])
	o.accept(o.attempt(alice, last)[0])
	o.window("a", "carl", 0, "")
}

func windowCloses(f *fixture) {
	o := f.outbox("a")
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2, Token: "t"})
	now, waits := o.queue(windowed("a", "anna", "1", false)), o.queue(windowed("a", "anna", "2", true))
	f.do("HSET", f.key("windows"), "a\x00anna", "0000000000001|2|0000000000001|t")
	o.attempt(alice)
	o.is(now, circulate.SendRejected)
	o.is(waits, circulate.SendQueued)
	o.outside(windowed("a", "anna", "1", false), 2)
	o.passed()
	o.sweep(time.Minute, nil)
	o.window("a", "anna", -2, "")
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2})
	o.attempt(alice, waits)
	if n, err := f.ring.Deregister(context.Background(), 0, []string{"a"}); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	o.consistent()
	f.register("a")
	o.window("a", "anna", -2, "")
}
