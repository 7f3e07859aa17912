package main

import (
	"context"
	"fmt"
	"time"
)

const (
	victimHolds   = 100 // claims, or tasks, that a process holds when it is killed
	recoverAtMost = 6 * time.Minute

	// How long after both processes are ready the first of the n-th pair is killed, n
	// times. So kills are spread evenly over the periods in which the other looks for
	// orphaned claims, 5 s and a minute.
	roundsPhase = time.Second
	asynqPhase  = 12 * time.Second
)

const asynqStart = 2 * time.Second // the time until a server looks for the first time

// killing is two processes of one system: the first takes everything and is killed with
// kill -9, the second goes on.
type killing interface {
	// prepare waits until the first process holds victimHolds and the second is ready.
	prepare(ctx context.Context) error
	// kill ends the first process. It returns how long it took until the last of what it
	// held was checked again.
	kill(ctx context.Context) (time.Duration, error)
	close()
}

// measureRecovery kills processes of both systems, at default settings except for how
// much one holds, at several moments. Several pairs run side by side, because they only
// wait.
func measureRecovery(ctx context.Context, b *bench) error {
	binary, err := buildRounds(ctx, b.dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*recoverAtMost)
	defer cancel()
	kinds := map[string]func(pair int) killing{
		"rounds": func(pair int) killing { return &roundsKilling{redis: b.redis, binary: binary, pair: pair} },
		"asynq":  func(pair int) killing { return &asynqKilling{redis: b.redis, pair: pair} },
	}
	phases := map[string]time.Duration{"rounds": roundsPhase, "asynq": asynqPhase}
	took := make(map[string][]float64)
	for _, kind := range []string{"rounds", "asynq"} {
		seconds := make([]float64, b.pairs)
		err := inParallel(b.pairs, func(i int) error {
			k := kinds[kind](i)
			defer k.close()
			if err := k.prepare(ctx); err != nil {
				return fmt.Errorf("%s, pair %d: prepare: %w", kind, i, err)
			}
			if err := pause(ctx, time.Duration(i)*phases[kind]); err != nil {
				return err
			}
			d, err := k.kill(ctx)
			if err != nil {
				return fmt.Errorf("%s, pair %d: %w", kind, i, err)
			}
			seconds[i] = d.Seconds()
			return nil
		})
		if err != nil {
			return err
		}
		for _, s := range seconds {
			b.results.note("%s: %.1f s until the last of %d was checked again", kind, s, victimHolds)
			b.results.sample(sample{Name: "recovery_" + kind, Values: map[string]float64{"seconds": s}})
		}
		took[kind] = seconds
		b.results.figure("recovery_"+kind, median(seconds), fmt.Sprintf("s from kill -9 until the last of %d was checked again, median of %d kills", victimHolds, b.pairs))
	}
	b.results.target("recovery_vs_asynq", median(took["rounds"])/median(took["asynq"]), "at most", 0.3, "×")
	return nil
}
