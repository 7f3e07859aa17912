package monitor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestThreeMonitorsRequeueEachEntryOnce has three monitors sweep the claims of a dead
// replica, all at once, while live replicas claim and return.
func TestThreeMonitorsRequeueEachEntryOnce(t *testing.T) {
	t.Parallel()
	const (
		shards, held, turning = 8, 600, 200
		deadAfter             = 400 * time.Millisecond
	)
	server := redistest.Connect(t, redistest.Start(t))
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	register := func(prefix string, n int) {
		t.Helper()
		for i := range n {
			id := fmt.Sprint(prefix, i)
			if _, err := ring.Register(t.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte("{}")}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	register("held", held)
	for shard := range shards {
		if _, err := ring.Claim(t.Context(), shard, carol, 1000, 0); err != nil {
			t.Fatal(err)
		}
	}
	register("turning", turning)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var back atomic.Int64 // how many of those that were held are checked again
	var running sync.WaitGroup
	for poller, replica := range []string{alice, bob} {
		if _, err := ring.Heartbeat(t.Context(), replica, nil, time.Minute); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for i := poller; ctx.Err() == nil; i++ {
				if err := turn(ctx, ring, i%shards, replica, &back); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	var orphaned, compensated, stale, sweeps atomic.Int64
	for range 3 {
		m, err := monitor.New(ring, monitor.Config{DeadAfter: deadAfter}, monitor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for ctx.Err() == nil {
				s, err := m.Sweep(ctx)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				orphaned.Add(int64(s.Orphaned))
				compensated.Add(int64(s.Compensated))
				stale.Add(int64(s.Stale))
				sweeps.Add(1)
				if s.Dead[alice]+s.Dead[bob] > 0 {
					t.Errorf("live replicas were robbed: %v", s.Dead)
				}
				if back.Load() >= held {
					cancel()
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d sweeps: %d requeued, %d compensated; %d checked again", sweeps.Load(), orphaned.Load(), compensated.Load(), back.Load())
	if orphaned.Load() != held || stale.Load() != 0 {
		t.Errorf("%d entries requeued as orphaned and %d as stale, want %d and 0", orphaned.Load(), stale.Load(), held)
	}
	if back.Load() != held {
		t.Errorf("%d of the dead replica's accounts were checked again, want %d", back.Load(), held)
	}
	expectLaw(t, server, ring, held+turning)
}

// turn claims some accounts of a shard and returns them. Accounts that had been claimed
// before are due later, the others now.
func turn(ctx context.Context, ring *circulate.Ring, shard int, replica string, back *atomic.Int64) error {
	// The last step is not cut short, because its outcome must be known.
	ctx = context.WithoutCancel(ctx)
	if _, err := ring.Heartbeat(ctx, replica, nil, time.Minute); err != nil {
		return err
	}
	b, err := ring.Claim(ctx, shard, replica, 10, 0)
	if err != nil || len(b.Claims) == 0 {
		return err
	}
	items := make([]circulate.Return, len(b.Claims))
	n := 0
	for i := range b.Claims {
		items[i].Claim = &b.Claims[i]
		if b.Claims[i].ID[0] == 'h' {
			items[i].Due = b.Now.Add(time.Hour)
			n++
		}
	}
	outcomes, err := ring.Return(ctx, shard, items)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		if o != circulate.Written {
			return fmt.Errorf("return of %q: %v", items[i].Claim.ID, o)
		}
	}
	back.Add(int64(n))
	return nil
}

// TestMonitorsAndSlowPollersKeepTheLaw uses the shortest possible long timeout, so that
// claims are taken from pollers that are alive.
func TestMonitorsAndSlowPollersKeepTheLaw(t *testing.T) {
	t.Parallel()
	const shards, accounts = 4, 100
	server := redistest.Connect(t, redistest.Start(t))
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	for i := range accounts {
		id := fmt.Sprint("a", i)
		if _, err := ring.Register(t.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var written, fenced, requeued atomic.Int64
	var pollers, monitors sync.WaitGroup
	for poller := range 3 {
		pollers.Go(func() {
			var before []circulate.Return // of the turn before, so late by one
			for i := range 400 {
				shard := (i/2 + poller) % shards
				b, err := ring.Claim(t.Context(), shard, fmt.Sprintf("poller%04d", poller), 10, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if len(before) > 0 {
					outcomes, err := ring.Return(t.Context(), before[0].Claim.Shard, before)
					if err != nil {
						t.Error(err)
						return
					}
					for _, o := range outcomes {
						if o == circulate.Written {
							written.Add(1)
						} else {
							fenced.Add(1)
						}
					}
				}
				before = before[:0:0]
				for j := range b.Claims {
					c := &b.Claims[j]
					before = append(before, circulate.Return{Claim: c, Messages: []circulate.Message{{ID: c.ID + "/" + c.Ticket()}}})
				}
			}
		})
	}
	for range 3 {
		m, err := monitor.New(ring, monitor.Config{LongTimeout: time.Millisecond, DeadAfter: time.Millisecond}, monitor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		monitors.Go(func() {
			for ctx.Err() == nil {
				s, err := m.Sweep(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				requeued.Add(int64(s.Stale + s.Orphaned))
			}
		})
	}
	pollers.Wait()
	cancel()
	monitors.Wait()
	t.Logf("%d written, %d fenced, %d requeued", written.Load(), fenced.Load(), requeued.Load())
	if written.Load() == 0 || fenced.Load() == 0 || requeued.Load() == 0 {
		t.Error("the race was none: nothing is shown by this run")
	}
	expectLaw(t, server, ring, accounts)
	seen := make(map[string]bool)
	for shard := range shards {
		found, err := ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if seen[f.Message.ID] {
				t.Errorf("%s is in the stream twice", f.Message.ID)
			}
			seen[f.Message.ID] = true
		}
	}
	if int64(len(seen)) != written.Load() {
		t.Errorf("%d messages in the stream, %d were written", len(seen), written.Load())
	}
}
