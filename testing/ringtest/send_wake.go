package ringtest

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// sendWakes expects a wake-up whenever a send may be attempted now that could not before,
// and none otherwise. It also expects that Due and Present name the shard of a send.
func sendWakes(f *fixture) {
	o := f.outbox("a")
	ctx, cancel := context.WithCancel(context.Background())
	heard, ready, done := make(chan circulate.Woken, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- f.ring.Subscribe(ctx, func() { close(ready) }, func(w circulate.Woken) { heard <- w })
	}()
	<-ready
	// In a cluster the wake-up of the registration may still be on its way. A nudge in a later
	// millisecond tells that it has come.
	began := f.now()
	for !f.now().Truncate(time.Millisecond).After(began) {
	}
	marks := 0
	mark := func() func() { // by an account that is due later: an overdue one is moved only once
		marks++
		id := fmt.Sprint("mark", marks)
		f.upsert(circulate.Created, circulate.Registration{ID: id, Record: []byte("{}"), Due: f.now().Add(time.Hour)})
		f.nudge(id, circulate.Nudge{})
		return func() {
			if err := f.ring.Account(id).Deregister(context.Background()); err != nil {
				f.Fatal(err)
			}
		}
	}
	gone := mark()
	for w := range heard {
		if w.Due.After(began) {
			break
		}
	}
	gone()
	others := 0 // wake-ups for the account before
	expect := func(what string, wakes int) {
		f.Helper()
		// What one node publishes arrives in order, so nothing comes after the wake-up of a nudge.
		defer mark()()
		n, others := 0, others
		for w := range heard {
			if !w.Send {
				if others--; others < 0 {
					break
				}
				continue
			}
			if n++; w.Shard != 0 {
				f.Errorf("%s: woken %+v", what, w)
			}
		}
		if n != wakes {
			f.Errorf("%s: woken %d times, want %d", what, n, wakes)
		}
	}
	waits := func(what string, want bool) {
		f.Helper()
		due, err := o.sends.Due(ctx)
		if err != nil || (len(due) == 1 && due[0] == 0) != want {
			f.Errorf("%s: due in %v, %v; want %v", what, due, err, want)
		}
	}
	waits("no send", false)
	if present, err := o.sends.Present(ctx); err != nil || len(present) != 0 {
		f.Errorf("no send: present in %v, %v", present, err)
	}
	expect("no send", 0)
	head := o.queue(text("a", "anna", "1"))
	expect("the first of its peer", 1)
	waits("the first of its peer", true)
	if present, err := o.sends.Present(ctx); err != nil || len(present) != 1 {
		f.Errorf("a send: present in %v, %v", present, err)
	}
	second := o.queue(text("a", "anna", "2"))
	expect("one behind it", 0)
	first := o.attempt(alice, head)
	expect("an attempt", 0)
	waits("an attempt", false)
	o.accept(first[0])
	expect("the next in line", 1)
	next := o.attempt(alice, second)
	o.settle(true, next[0], circulate.Settlement{Outcome: circulate.AttemptAgain, After: f.now().Add(time.Hour)})
	expect("one that is put off", 0)
	waits("one that is put off", true)
	o.queue(windowed("a", "ben", "1", true))
	expect("one that waits for its window", 0)
	o.finds("a", circulate.Answerable{Peer: "ben", For: time.Hour, Token: "t"})
	others = 1
	expect("its window", 1)
	cancel()
	if err := <-done; err != nil {
		f.Error(err)
	}
}
