package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// least is the least time that a fault and its recovery take.
const least = 5 * time.Second

// phase does the run in one world.
func (o options) phase(ctx context.Context, on topology, faults []fault, redisPath string) (*report, error) {
	w, err := newWorld(on, o.dir, o.binary, redisPath, o.log)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.warmUp(ctx, o.accounts); err != nil {
		return nil, err
	}
	before := w.goroutines(ctx)
	_, rate := w.rate(w.base)
	fmt.Fprintf(o.log, "seed %d, on %s: %d kinds of fault, %.0f checks a second\n", o.seed, on, len(faults), rate)

	working, endWork := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer endWork()
	for i, name := range []string{"client-a", "client-b"} {
		workers.Go(func() { w.clients.run(working, name, rand.New(rand.NewPCG(o.seed, uint64(i)<<32))) })
	}
	workers.Go(func() { w.post(working, o.seed) })
	if w.sends != nil {
		for i := range sendCallers {
			workers.Go(func() {
				w.sends.run(working, fmt.Sprint("caller", i), w.senders(i), rand.New(rand.NewPCG(o.seed, uint64(i)<<33|1)))
			})
		}
	}
	began := time.Now()
	turns, err := w.play(ctx, o, on, faults)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	endWork()
	workers.Wait()
	r, err := w.conclude(ctx, turns, before)
	if err != nil {
		return nil, err
	}
	r.Length, r.Accounts = took.Seconds(), o.accounts
	return r, nil
}

// play injects faults until the time is up.
func (w *world) play(ctx context.Context, o options, on topology, faults []fault) ([]*turn, error) {
	const most = 200 // times each, far beyond any run
	rounds := o.rounds
	if rounds == 0 {
		rounds = most
	}
	signs := signsOf(faults)
	var turns []*turn
	began := time.Now()
	order := schedule(o.seed, on, faults, rounds)
	for n, f := range order {
		if time.Since(began) > o.length && (!o.complete || n >= len(order)/rounds) {
			break
		}
		t := &turn{Context: ctx, world: w, fault: f, signs: signs, number: n, random: rand.New(rand.NewPCG(o.seed, uint64(n)+1))}
		if err := t.play(); err != nil {
			return nil, fmt.Errorf("%s, turn %d: %w", f.name, n, err)
		}
		turns = append(turns, t)
		fmt.Fprintf(o.log, "%5.0f s  %-28s lasted %4.1f s, took %4.1f s  %s\n", time.Since(began).Seconds(), f.name,
			t.healed.Sub(t.injected).Seconds(), time.Since(t.healed).Seconds(), strings.Join(append(t.moved, t.faults[:min(2, len(t.faults))]...), "; "))
		if err := t.last(t.between(100*time.Millisecond, 500*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	// Accounts that still wait out their backoff.
	t := &turn{Context: ctx, world: w}
	for w.ailing.review(w.third); len(w.ailing.since) > 0; w.ailing.review(w.third) {
		if err := t.last(100 * time.Millisecond); err != nil {
			return nil, err
		}
	}
	w.assess(turns)
	return turns, nil
}

// startWithin is how long all processes of a world may take to be ready, beside other tests.
const startWithin = time.Minute

// warmUp waits until everything is ready, registers the accounts that stay and counts how
// often each is checked.
func (w *world) warmUp(ctx context.Context, accounts int) error {
	t := &turn{Context: ctx, world: w}
	missing := ""
	if !t.untilWithin(startWithin, func() bool { missing = w.ready(ctx); return missing == "" }) {
		return errors.New(missing)
	}
	if err := w.populate(ctx, accounts); err != nil {
		return err
	}
	if !t.untilWithin(startWithin, func() bool { return len(w.third.unchecked(w.base, time.Time{})) == 0 }) {
		return errors.New("not every account is checked")
	}
	began := time.Now()
	if err := t.last(2 * longestCadence); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	w.third.each(began, func(c *check) {
		if u, ok := w.usual[c.account]; ok && c.began.After(began) {
			u.rate += 1 / took
			w.usual[c.account] = u
		}
	})
	return nil
}

// post has messages arrive until ctx is done.
func (w *world) post(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1<<40))
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.third.Post(w.base[random.IntN(len(w.base))])
		}
	}
}

// goroutines returns the most goroutines that a process of each role has.
func (w *world) goroutines(ctx context.Context) map[string]float64 {
	most := make(map[string]float64)
	for _, role := range []string{roleAPI, rolePoller, roleMonitor} {
		for _, n := range counter(role, "go_goroutines").of(w.snap(ctx)) {
			most[role] = max(most[role], n)
		}
	}
	return most
}

const (
	settleWithin    = wholeWithin
	spareGoroutines = 150             // those of connections that were opened meanwhile
	idleWithin      = 2 * time.Minute // the time in which idle ones have been closed
)

// conclude lets things settle, ends all processes properly and judges.
func (w *world) conclude(ctx context.Context, turns []*turn, before map[string]float64) (*report, error) {
	var allowed []*excuse
	var lost []span
	for _, t := range turns {
		if t.fault.straggler {
			allowed = append(allowed, t.excuse())
		}
		if !t.rollback.IsZero() {
			until := t.lostUntil
			if until.IsZero() {
				until = t.healed
			}
			lost = append(lost, span{t.rollback, until, t.torn})
		}
	}
	t := &turn{Context: ctx, world: w}
	settled, expected := time.Now(), w.certainlyActive(lost)
	for len(w.third.unchecked(expected, settled)) > 0 && time.Since(settled) < settleWithin {
		if err := t.last(100 * time.Millisecond); err != nil {
			return nil, err
		}
	}
	if w.sends != nil {
		w.sends.settle(ctx)
	}
	var late []violation
	t.untilWithin(idleWithin, func() bool {
		late = leaked(before, w.goroutines(ctx))
		return len(late) == 0 || t.last(time.Second) != nil
	})
	for _, role := range []string{rolePoller, roleMonitor, roleAPI} {
		for _, m := range w.ofRole(role) {
			if err := m.process.Terminate(20 * time.Second); err != nil {
				late = append(late, violation{what: "I6: " + err.Error()})
			}
		}
	}
	v, err := w.judge(allowed, lost, settled)
	if err != nil {
		return nil, err
	}
	v.violations = append(v.violations, late...)
	return summarize(turns, v, allowed), nil
}

// leaked compares the goroutines of each role with those before.
func leaked(before, now map[string]float64) (found []violation) {
	for role, n := range now {
		if n > before[role]+spareGoroutines {
			found = append(found, violation{what: fmt.Sprintf("I6: a process with role %s has %.0f goroutines, and had %.0f", role, n, before[role])})
		}
	}
	return found
}

// certainlyActive returns the accounts that must still be checked.
func (w *world) certainlyActive(lost []span) []string {
	ids := slices.Clone(w.base)
	for id, f := range follow(w.clients.operations(), lost) {
		if f.standing == active {
			ids = append(ids, id)
		}
	}
	return ids
}
