package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

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
			allowed = append(allowed, span{t.injected, t.healed.Add(stragglerTime)})
		}
		if !t.rollback.IsZero() {
			lost = append(lost, span{t.rollback, t.healed})
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
