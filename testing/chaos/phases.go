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

// usually is how long a fault takes on average, with the recovery from it.
const usually = 6500 * time.Millisecond

// phase does the run in one world.
func (o options) phase(ctx context.Context, on topology, faults []fault, redisPath string) (*report, error) {
	w, err := newWorld(on, o.dir, o.binary, redisPath, o.log)
	if err != nil {
		return nil, err
	}
	defer w.close()
	rate, err := w.warmUp(ctx, o.accounts)
	if err != nil {
		return nil, err
	}
	before := w.goroutines(ctx)
	fmt.Fprintf(o.log, "seed %d, on %s: %d kinds of fault, %.0f checks a second\n", o.seed, on, len(faults), rate)

	working, endWork := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer endWork()
	for i, name := range []string{"client-a", "client-b"} {
		workers.Go(func() { w.clients.run(working, name, rand.New(rand.NewPCG(o.seed, uint64(i)<<32))) })
	}
	workers.Go(func() { w.post(working, o.seed) })
	began := time.Now()
	turns, err := w.play(ctx, o, faults, rate)
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
	r.length, r.Accounts = took, o.accounts
	return r, nil
}

// play injects faults until the time is up.
func (w *world) play(ctx context.Context, o options, faults []fault, rate float64) ([]*turn, error) {
	const most = 100_000 // turns, far beyond any run
	limit := most
	if o.rounds > 0 {
		limit = o.rounds * len(faults)
	}
	var turns []*turn
	began := time.Now()
	for n, f := range schedule(o.seed, faults, limit) {
		if time.Since(began) > o.length && (!o.complete || n >= len(faults)) {
			break
		}
		t := &turn{Context: ctx, world: w, fault: f, number: n, rate: rate, random: rand.New(rand.NewPCG(o.seed, uint64(n)+1))}
		if err := t.play(); err != nil {
			return nil, fmt.Errorf("%s, turn %d: %w", f.name, n, err)
		}
		turns = append(turns, t)
		fmt.Fprintf(o.log, "%5.0f s  %-28s lasted %4.1f s, recovered in %4.1f s  %s\n", time.Since(began).Seconds(), f.name,
			t.healed.Sub(t.injected).Seconds(), t.recovery.Seconds(), strings.Join(t.faults[:min(2, len(t.faults))], "; "))
		if err := t.last(t.between(100*time.Millisecond, 500*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return turns, nil
}

// warmUp waits until everything is ready, registers the accounts that stay and
// gives how many checks a second there are.
func (w *world) warmUp(ctx context.Context, accounts int) (rate float64, err error) {
	t := &turn{Context: ctx, world: w}
	if !t.until(func() bool { return w.ready(ctx) == "" }) {
		return 0, errors.New(w.ready(ctx))
	}
	if err := w.populate(ctx, accounts); err != nil {
		return 0, err
	}
	if !t.until(func() bool { return len(w.third.unchecked(w.base, time.Time{})) == 0 }) {
		return 0, errors.New("not every account is checked")
	}
	began := time.Now()
	if err := t.last(4 * time.Second); err != nil {
		return 0, err
	}
	return float64(w.third.begun(began)) / time.Since(began).Seconds(), nil
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

// goroutines is what each role's processes have at most.
func (w *world) goroutines(ctx context.Context) map[string]float64 {
	most := make(map[string]float64)
	for _, role := range []string{roleAPI, rolePoller, roleMonitor} {
		for _, n := range counter(role, "go_goroutines").read(ctx, w) {
			most[role] = max(most[role], n)
		}
	}
	return most
}

const (
	settleWithin    = 50 * time.Second // the longest backoff after a first or second failure, and some
	spareGoroutines = 150              // that connections opened meanwhile may take
)

// conclude lets things settle, ends all processes in the proper way and judges.
func (w *world) conclude(ctx context.Context, turns []*turn, before map[string]float64) (*report, error) {
	var allowed, lost []span
	for _, t := range turns {
		if t.fault.straggler {
			allowed = append(allowed, span{from: t.injected, to: t.healed.Add(stragglerTime)})
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
	var late []violation
	for role, n := range w.goroutines(ctx) {
		if n > before[role]+spareGoroutines {
			late = append(late, violation{what: fmt.Sprintf("I6: a process with role %s has %.0f goroutines, and had %.0f", role, n, before[role])})
		}
	}
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
	return summarize(turns, v), nil
}

// certainlyActive are the accounts that must be checked on.
func (w *world) certainlyActive(lost []span) []string {
	ids := slices.Clone(w.base)
	for id, f := range follow(w.clients.operations(), lost) {
		if f.standing == active {
			ids = append(ids, id)
		}
	}
	return ids
}
