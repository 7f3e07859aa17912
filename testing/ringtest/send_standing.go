package ringtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// standing returns how the sends of an account stand.
func (o *outbox) standing(account string, q circulate.SendQuery) circulate.SendStanding {
	o.Helper()
	s, err := o.sends.Standing(context.Background(), account, q)
	if err != nil {
		o.Fatal(err)
	}
	return s
}

// peersOf returns how the sends to each peer stand, in words.
func peersOf(s circulate.SendStanding) (all []string) {
	for _, p := range s.Peers {
		left := "none"
		if p.Window != nil {
			left = fmt.Sprint(p.Window.Left, " left, ", p.Window.Token)
		}
		all = append(all, fmt.Sprintf("%s: %d in line, waits %t, window: %s", p.Peer, p.Line, p.Waits, left))
	}
	return all
}

// sendsStand looks at all that is known about an account's sends, and at nothing of others.
func sendsStand(f *fixture) {
	o := f.outbox("a", "ab", "none")
	if s := o.standing("none", circulate.SendQuery{Peers: 5, Latest: 5}); s.Unknown != 0 || s.Windows != 0 || len(s.Peers) > 0 || len(s.Latest) > 0 || s.Now.IsZero() {
		f.Errorf("an account without sends: %+v", s)
	}
	o.queue(windowed("ab", "anna", "of another account", true))
	o.finds("ab", circulate.Answerable{Peer: "zoe", For: time.Hour, Count: 9, Token: "x"})

	o.finds("a", circulate.Answerable{Peer: "ben", For: time.Hour, Count: 4, Token: "t|1"})
	o.finds("a", circulate.Answerable{Peer: "dora", For: time.Hour, Token: "t2"})
	accepted := o.queue(windowed("a", "ben", "1", false))
	o.accept(o.attempt(alice, accepted)[0])
	lost := o.queue(text("a", "cleo", "2"))
	o.settle(true, o.attempt(alice, lost)[0], circulate.Settlement{Outcome: circulate.AttemptUnknown})
	first := o.queue(windowed("a", "anna", "3", true))
	second := o.queue(windowed("a", "anna", "4", true))
	under := o.queue(windowed("a", "ben", "5", false))
	o.attempt(alice, under)
	turn := o.queue(windowed("a", "ben", "6", false))

	s := o.standing("a", circulate.SendQuery{Peers: 10, Of: []string{"cleo", "nobody"}, Latest: 10})
	want := []string{
		"cleo: 0 in line, waits false, window: none", "nobody: 0 in line, waits false, window: none",
		"anna: 2 in line, waits true, window: none", "ben: 2 in line, waits false, window: 2 left, t|1", "dora: 0 in line, waits false, window: -1 left, t2",
	}
	if got := peersOf(s); !slices.Equal(got, want) {
		f.Errorf("peers %q, want %q", got, want)
	}
	if since := o.is(lost, circulate.SendUnknown).Since; s.Unknown != 1 || !s.UnknownSince.Equal(since) || s.Windows != 2 || s.Now.Before(since) {
		f.Errorf("got %+v", s)
	}
	ids := func(s circulate.SendStanding) (all []string) {
		for _, send := range s.Latest {
			all = append(all, send.ID)
		}
		slices.Sort(all) // within a millisecond their order is any
		return all
	}
	sorted := func(ids ...string) []string { slices.Sort(ids); return ids }
	if got := ids(s); !slices.Equal(got, sorted(accepted, lost, first, second, under, turn)) {
		f.Errorf("latest %q", got)
	}
	if !slices.IsSortedFunc(s.Latest, func(a, b circulate.Send) int { return a.Queued.Compare(b.Queued) }) {
		f.Errorf("the latest are in disorder: %+v", s.Latest)
	}
	if got := ids(o.standing("a", circulate.SendQuery{Peers: 1, Latest: 10, Only: "ben"})); !slices.Equal(got, sorted(accepted, under, turn)) {
		f.Errorf("latest to ben %q", got)
	}
	if got := o.standing("a", circulate.SendQuery{Peers: 2, Latest: 3}); len(got.Peers) != 2 || got.Peers[0].Peer != "anna" || len(got.Latest) != 3 || got.Windows != 2 {
		f.Errorf("bounded: %+v", got)
	}
	if _, err := o.sends.Standing(context.Background(), "a", circulate.SendQuery{}); err == nil {
		f.Error("any number of peers")
	}
	o.consistent()
}
