package ringtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// wakes schedules accounts that may be due before everything else in the shard, and
// listens. It also listens to who leaves and to changed secrets.
func wakes(f *fixture) {
	ctx, cancel := context.WithCancel(context.Background())
	heard, ready, done := make(chan circulate.Woken, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- f.ring.Subscribe(ctx, func() { close(ready) }, func(w circulate.Woken) { heard <- w })
	}()
	<-ready
	var got []string
	expect := func(what string, wakes int) {
		f.Helper()
		// What is published arrives in order, so nothing comes after a wake of our own.
		if err := f.ring.Wake(ctx, 0); err != nil {
			f.Fatal(err)
		}
		got = got[:0]
		for w := range heard {
			if w.Due.UnixMilli() == 0 {
				break
			}
			got = append(got, fmt.Sprint(w.Shard, " ", w.Due.UnixMilli()))
		}
		if len(got) != wakes {
			f.Errorf("%s: woken %v, want %d", what, got, wakes)
		}
	}
	register := func(id string, due time.Time) {
		f.Helper()
		if _, err := f.ring.Register(ctx, 0, []circulate.Registration{{ID: id, Due: due}}); err != nil {
			f.Fatal(err)
		}
	}
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	in := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	register("b", in(5))
	expect("the first account", 1)
	if want := fmt.Sprint("0 ", in(5).UnixMilli()); !slices.Equal(got, []string{want}) {
		f.Errorf("woken %v, want %s", got, want)
	}
	register("c", in(6))
	expect("a later account", 0)
	register("a", in(4))
	expect("an earlier account", 1)
	f.nudge("c", circulate.Nudge{Within: 5 * time.Hour})
	expect("a nudge that is not the first", 0)
	f.nudge("c", circulate.Nudge{Within: 3 * time.Hour})
	expect("a nudge that is", 1)
	f.nudge("c", circulate.Nudge{})
	expect("a nudge to now", 1)
	f.nudge("a", circulate.Nudge{})
	expect("another, behind it", 1)
	if b := f.batch(alice, 10); len(b.Claims) != 2 {
		f.Errorf("claimed %+v", b.Claims)
	}
	if _, err := f.ring.Park(ctx, 0, circulate.ReasonPaused, []string{"b"}); err != nil {
		f.Fatal(err)
	}
	if err := f.ring.Account("b").Resume(ctx, circulate.Resumption{}); err != nil {
		f.Fatal(err)
	}
	expect("a resume", 1)
	move := func(id string, due time.Time) {
		f.Helper()
		far := circulate.Far{ID: id, Due: time.UnixMilli(int64(f.number("ZSCORE", f.key("schedule"), id)))}
		if n, err := f.ring.Clocks().MoveDue(ctx, 0, []circulate.Move{{Far: far, To: due}}); n != 1 || err != nil {
			f.Fatalf("moved %d, %v", n, err)
		}
	}
	register("z", in(9))
	expect("a later account", 0)
	move("z", now.Add(-time.Hour))
	expect("a repair of the clock that moves an account to the front", 1)
	move("z", in(8))
	expect("one that does not", 0)
	c := f.claim(alice, "b")
	expect("a claim", 0)
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Due: in(7)})
	expect("a return", 0)
	f.nudge("b", circulate.Nudge{})
	c = f.claim(alice, "b")
	expect("a nudge to now", 1)
	if n, err := f.ring.Release(ctx, 0, c); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	expect("a release", 1)
	if err := f.ring.Depart(ctx, alice); err != nil {
		f.Fatal(err)
	}
	if w := <-heard; w != (circulate.Woken{Leaving: alice}) {
		f.Errorf("who leaves: %+v", w)
	}
	channel, text := circulate.WakeSecret(f.ns, "key")
	f.do("PUBLISH", channel, text)
	if w := <-heard; w != (circulate.Woken{Secret: "key"}) {
		f.Errorf("a secret: %+v", w)
	}
	cancel()
	if err := <-done; err != nil {
		f.Errorf("subscribe: %v", err)
	}
}
