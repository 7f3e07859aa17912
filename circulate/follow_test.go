package circulate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// inFakeTime runs a test with a ring of two shards, and a function that opens it anew.
func inFakeTime(t *testing.T, test func(t *testing.T, ring *circulate.Ring, open func(context.Context) (*circulate.Ring, error))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := redistest.Embedded(t)
		open := func(ctx context.Context) (*circulate.Ring, error) {
			return circulate.Open(ctx, server, circulate.Options{})
		}
		test(t, openRing(t, server, 2), open)
	})
}

// Work goes on while the number of shards changes. Work with the new ring begins before
// the old work is ended, and opening the ring is tried until it succeeds.
func TestFollowOpensTheRingAnewWhenShardsChange(t *testing.T) {
	inFakeTime(t, func(t *testing.T, ring *circulate.Ring, open func(context.Context) (*circulate.Ring, error)) {
		var mu sync.Mutex
		var events []string
		event := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, args...))
		}
		failures := 2
		again := func(ctx context.Context) (*circulate.Ring, error) {
			if failures > 0 {
				failures--
				return nil, errors.New("Redis is away")
			}
			return open(ctx)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- circulate.Follow(ctx, ring, again, func(ctx context.Context, ring *circulate.Ring) error {
				event("begins with %s", ring.Layout())
				<-ctx.Done()
				event("ends with %s", ring.Layout())
				if why := context.Cause(ctx); errors.Is(why, circulate.ErrResharding) != (ring.Sources() == 0) {
					t.Errorf("%s ends because: %v", ring.Layout(), why)
				}
				return nil
			})
		}()
		time.Sleep(time.Minute)
		change, err := ring.Mover().Begin(t.Context(), 3)
		if err != nil || change.Layout() != "0:2>1:3" || change.Phase != circulate.Moving {
			t.Fatal(change, err)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{"begins with 0:2", "begins with 0:2>1:3", "ends with 0:2", "ends with 0:2>1:3"}
		if failures != 0 || len(events) != 4 || events[0] != want[0] || events[3] != want[3] || !slices.Contains(events, want[1]) || !slices.Contains(events, want[2]) {
			t.Errorf("%q, want %q; %d failures are left", events, want, failures)
		}
	})
}

func TestFollowEndsWithTheFirstErrorOfItsWork(t *testing.T) {
	inFakeTime(t, func(t *testing.T, ring *circulate.Ring, open func(context.Context) (*circulate.Ring, error)) {
		broken := errors.New("broken")
		err := circulate.Follow(t.Context(), ring, open, func(ctx context.Context, _ *circulate.Ring) error {
			time.Sleep(time.Second)
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

// EachShard calls once for each shard, and the first error ends the other calls.
func TestEachShardIsCalledOnceUntilOneFails(t *testing.T) {
	var mu sync.Mutex
	called := make(map[int]int)
	if err := circulate.EachShard(t.Context(), 100, func(_ context.Context, shard int) error {
		mu.Lock()
		defer mu.Unlock()
		called[shard]++
		return nil
	}); err != nil || len(called) != 100 {
		t.Errorf("%d shards were called, %v", len(called), err)
	}
	for shard, n := range called {
		if n != 1 || shard < 0 || shard >= 100 {
			t.Errorf("shard %d was called %d times", shard, n)
		}
	}
	broken := errors.New("broken")
	if err := circulate.EachShard(t.Context(), 100, func(ctx context.Context, shard int) error {
		if shard == 0 {
			return broken
		}
		<-ctx.Done() // the first error ends the calls under way
		return ctx.Err()
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := circulate.EachShard(t.Context(), 0, func(context.Context, int) error { return broken }); err != nil {
		t.Errorf("of no shards: %v", err)
	}
}

// A monitor that starts knows what the one before it stored of a clock's step.
func TestLastStepOfTheClockIsKept(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ring := openRing(t, server, 1)
		if step, err := ring.Clocks().LastStep(t.Context()); step != nil || err != nil {
			t.Errorf("before any: %q, %v", step, err)
		}
		for _, found := range []string{"one", "two"} {
			if err := ring.Clocks().KeepStep(t.Context(), []byte(found)); err != nil {
				t.Fatal(err)
			}
		}
		if step, err := openRing(t, server, 0).Clocks().LastStep(t.Context()); string(step) != "two" || err != nil {
			t.Errorf("kept %q, %v", step, err)
		}
	})
}
