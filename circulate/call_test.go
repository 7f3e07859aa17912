package circulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
	"github.com/rounds-dev/rounds/circulate/internal/wiretest"
)

// against runs a test in fake time on a ring of one shard over a peer.
func against(t *testing.T, answer wiretest.Answer, test func(t *testing.T, r *Ring, p *wiretest.Peer)) {
	t.Helper()
	wiretest.Against(t, answer, func(t *testing.T, w *wire.Wire, p *wiretest.Peer) { test(t, newRing(w), p) })
}

func newRing(w *wire.Wire) *Ring {
	return &Ring{wire: w, namespace: "rounds", log: slog.New(slog.DiscardHandler), keys: []shardKeys{newShardKeys("rounds", 1, 0)}}
}

// steps are calls of every kind.
var steps = map[string]func(ctx context.Context, r *Ring) error{
	"claim": func(ctx context.Context, r *Ring) error { _, err := r.Claim(ctx, 0, "alice00000", 1, 0); return err },
	"return": func(ctx context.Context, r *Ring) error {
		_, err := r.Return(ctx, 0, []Return{{Claim: held()}})
		return err
	},
	"progress": func(ctx context.Context, r *Ring) error { return r.Progress(ctx, held(), Page{}) },
	"release":  func(ctx context.Context, r *Ring) error { _, err := r.Release(ctx, 0, []*Claim{held()}); return err },
	"requeue": func(ctx context.Context, r *Ring) error {
		_, _, err := r.Requeue(ctx, 0, ClaimedEntry{text: held().entry})
		return err
	},
	"oldest": func(ctx context.Context, r *Ring) error { _, _, err := r.Oldest(ctx, 0, 0, 1); return err },
	"register": func(ctx context.Context, r *Ring) error {
		_, err := r.Register(ctx, 0, []Registration{{ID: "a"}})
		return err
	},
	"deregister": func(ctx context.Context, r *Ring) error { _, err := r.Deregister(ctx, 0, []string{"a"}); return err },
	"park":       func(ctx context.Context, r *Ring) error { _, err := r.Park(ctx, 0, "x", []string{"a"}); return err },
	"resume":     func(ctx context.Context, r *Ring) error { return r.Account("a").Resume(ctx, Resumption{}) },
	"nudge":      func(ctx context.Context, r *Ring) error { return r.Account("a").Nudge(ctx, Nudge{}) },
	"nudge overdue": func(ctx context.Context, r *Ring) error {
		_, err := r.NudgeOverdue(ctx, 0, []string{"a"})
		return err
	},
	"look":      func(ctx context.Context, r *Ring) error { _, err := r.Look(ctx, 0, []string{"a"}); return err },
	"scan":      func(ctx context.Context, r *Ring) error { _, _, err := r.Scan(ctx, 0, "", 1); return err },
	"count":     func(ctx context.Context, r *Ring) error { _, err := r.Count(ctx, 0); return err },
	"count all": func(ctx context.Context, r *Ring) error { _, err := r.CountAll(ctx); return err },
	"messages": func(ctx context.Context, r *Ring) error {
		_, err := r.Streams().Messages(ctx, 0, StreamStart, 1)
		return err
	},
	"trim": func(ctx context.Context, r *Ring) error {
		_, _, err := r.Streams().Trim(ctx, 0, time.Now())
		return err
	},
	"trim to": func(ctx context.Context, r *Ring) error { _, _, err := r.Streams().TrimTo(ctx, 0, 1); return err },
	"heartbeat": func(ctx context.Context, r *Ring) error {
		_, err := r.Heartbeat(ctx, "alice00000", nil, time.Minute)
		return err
	},
	"retire":   func(ctx context.Context, r *Ring) error { return r.Retire(ctx, "alice00000") },
	"replicas": func(ctx context.Context, r *Ring) error { _, _, err := r.Replicas(ctx); return err },
	"check":    func(ctx context.Context, r *Ring) error { return r.Check(ctx) },
	"now":      func(ctx context.Context, r *Ring) error { _, err := r.Now(ctx, 0); return err },
}

// overWire are the steps as they begin with a wire.
func overWire() map[string]wiretest.Step {
	over := make(map[string]wiretest.Step, len(steps))
	for name, step := range steps {
		over[name] = func(ctx context.Context, w *wire.Wire) error { return step(ctx, newRing(w)) }
	}
	return over
}

func held() *Claim {
	return &Claim{ID: "a", entry: Entry{1, time.UnixMilli(1), "alice00000", "a"}.String()}
}

func TestCancelledBeforeSendingIsNotSent(t *testing.T) {
	wiretest.CancelledBeforeSending(t, overWire())
}

func TestCallEndsAtItsDeadlineWithAnUnknownOutcome(t *testing.T) {
	wiretest.EndsAtItsDeadline(t, overWire())
}

func TestNonsenseRepliesAreErrorsAndNoPanic(t *testing.T) {
	wiretest.NonsenseIsNoPanic(t, overWire())
}

// TestSlowDripEndsAtTheDeadline has each reply of a pipeline arrive just in time, and all
// of them together far too late.
func TestSlowDripEndsAtTheDeadline(t *testing.T) {
	drip := func(int, string) (time.Duration, string) { return 900 * time.Millisecond, "+OK\r\n" }
	against(t, drip, func(t *testing.T, r *Ring, _ *wiretest.Peer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := r.Count(ctx, 0)
		if took := time.Since(began); took > 1100*time.Millisecond || !Unknown(err) {
			t.Errorf("took %v, unknown %v: %v", took, Unknown(err), err)
		}
	})
}

// A reply under way is waited for: giving up would leave the outcome unknown although it
// is about to be known.
func TestCancelledWhileUnderWayIsWaitedFor(t *testing.T) {
	slow := func(int, string) (time.Duration, string) { return 2 * time.Second, "$1\r\nr\r\n" }
	against(t, slow, func(t *testing.T, r *Ring, _ *wiretest.Peer) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if err := r.Account("a").Resume(ctx, Resumption{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A second try after NOSCRIPT has the same deadline, and is not sent if ctx was cancelled
// meanwhile. Then the outcome is known: nothing was done.
func TestNoScriptIsTriedAgainOnce(t *testing.T) {
	const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	always := func(int, string) (time.Duration, string) { return 100 * time.Millisecond, noScript }
	against(t, always, func(t *testing.T, r *Ring, p *wiretest.Peer) {
		if err := r.Account("a").Resume(t.Context(), Resumption{}); !wire.HasCode(err, "NOSCRIPT") || Unknown(err) {
			t.Error(err)
		}
		if n := p.Sent(); n != 2 {
			t.Errorf("%d commands were sent, want EVALSHA and EVAL", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := r.Account("a").Resume(ctx, Resumption{}); !Unknown(err) {
			t.Error(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := r.Account("a").Resume(ctx, Resumption{}); !errors.Is(err, context.Canceled) || Unknown(err) {
			t.Error(err)
		}
	})
}

// We check a batch's bounds ourselves, so that nothing reaches Redis that it would have
// to refuse half way.
func TestBatchesOutOfBoundsAreNotSent(t *testing.T) {
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	ring, err := Open(context.Background(), server, Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	server.Miniredis().SetError("ERR something was sent")
	ctx := context.Background()
	for _, n := range []int{-1, 0, MaxBatch + 1} {
		ids := make([]string, max(0, n))
		items, claims, returns := make([]Registration, len(ids)), make([]*Claim, len(ids)), make([]Return, len(ids))
		for i := range ids {
			ids[i] = fmt.Sprint("a", i)
			items[i].ID, claims[i], returns[i].Claim = ids[i], held(), held()
		}
		var errs [7]error
		_, errs[0] = ring.Claim(ctx, 0, "alice00000", n, 0)
		_, errs[1] = ring.Register(ctx, 0, items)
		_, errs[2] = ring.Deregister(ctx, 0, ids)
		_, errs[3] = ring.Park(ctx, 0, "x", ids)
		_, errs[4] = ring.Look(ctx, 0, ids)
		_, errs[5] = ring.Release(ctx, 0, claims)
		_, errs[6] = ring.Return(ctx, 0, returns)
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "a batch has 1 to 1000 accounts") {
				t.Errorf("call %d with %d: %v", i, n, err)
			}
		}
	}
}
