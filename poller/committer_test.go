package poller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// written is what a committer wrote.
type written struct {
	*testing.T
	began time.Time
	gate  chan struct{} // not nil: writing waits for it

	mu      sync.Mutex
	batches []batch
}

type batch struct {
	after time.Duration
	shard int
	ids   []string
}

func (c *committer) submit(item circulate.Return) { c.submitWith(item, nil) }

func (w *written) write(shard int, items []circulate.Return) {
	b := batch{after: time.Since(w.began), shard: shard}
	for _, item := range items {
		if item.Claim.Shard != shard {
			w.Errorf("%q of shard %d in a batch of shard %d", item.Claim.ID, item.Claim.Shard, shard)
		}
		b.ids = append(b.ids, item.Claim.ID)
	}
	if w.gate != nil {
		<-w.gate
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches = append(w.batches, b)
}

// seen returns the batches so far, in order.
func (w *written) seen() []batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.batches)
}

// sizes returns how many returns each batch had, in order.
func (w *written) sizes() []int {
	var sizes []int
	for _, b := range w.seen() {
		sizes = append(sizes, len(b.ids))
	}
	return sizes
}

func (w *written) all() []string {
	var ids []string
	for _, b := range w.seen() {
		ids = append(ids, b.ids...)
	}
	return ids
}

// always returns a function that lets every return wait for others equally long.
func always(interval time.Duration) func(time.Time) time.Duration {
	return func(time.Time) time.Duration { return interval }
}

// committing runs a committer in fake time; stop ends it and waits for it.
func committing(t *testing.T, interval time.Duration, limit int, gate chan struct{}, test func(t *testing.T, c *committer, w *written, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &written{T: t, began: time.Now(), gate: gate}
		if gate != nil {
			w.gate = make(chan struct{}) // made in the bubble that uses it
		}
		c := newCommitter(always(interval), limit, w.write)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			c.run(ctx)
			close(done)
		}()
		synctest.Wait()
		test(t, c, w, func() {
			cancel()
			<-done
		})
	})
}

func item(shard, n, bytes int) circulate.Return {
	r := circulate.Return{Claim: &circulate.Claim{ID: fmt.Sprintf("%d/%d", shard, n), Shard: shard}}
	if bytes > 0 {
		r.Messages = []circulate.Message{{Data: make([]byte, bytes/2)}}
		r.Cursor = make([]byte, bytes-bytes/2)
	}
	return r
}

func TestReturnWaitsForOthersAsLongAsTheInterval(t *testing.T) {
	committing(t, 5*time.Millisecond, 1000, nil, func(t *testing.T, c *committer, w *written, stop func()) {
		c.submit(item(1, 0, 0))
		time.Sleep(2 * time.Millisecond)
		c.submit(item(2, 0, 0))
		c.submit(item(1, 1, 0))
		time.Sleep(3*time.Millisecond - 1)
		if n := len(w.all()); n != 0 {
			t.Errorf("%d written before the interval", n)
		}
		time.Sleep(time.Second)
		want := []batch{{5 * time.Millisecond, 1, []string{"1/0", "1/1"}}, {7 * time.Millisecond, 2, []string{"2/0"}}}
		if got := w.seen(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("wrote %v, want %v", got, want)
		}
		// A pause of any length changes nothing.
		time.Sleep(3 * time.Hour)
		c.submit(item(1, 2, 0))
		time.Sleep(time.Second)
		if last := w.seen()[2]; last.after != time.Second+5*time.Millisecond+3*time.Hour+5*time.Millisecond-1 {
			t.Errorf("written after %v", last.after)
		}
		stop()
	})
}

// A return that nobody waits for may wait twice as long, but goes along with one that may
// not.
func TestCalmReturnsWaitTwiceAsLong(t *testing.T) {
	committing(t, 5*time.Millisecond, 1000, nil, func(t *testing.T, c *committer, w *written, stop func()) {
		c.calm = func(r *circulate.Return) bool { return len(r.Messages) == 0 }
		c.submit(item(1, 0, 0))
		time.Sleep(time.Millisecond)
		c.submit(item(2, 0, 0))
		time.Sleep(time.Millisecond)
		c.submit(item(2, 1, 100))
		time.Sleep(time.Millisecond)
		c.submit(item(3, 0, 100))
		time.Sleep(3 * time.Millisecond)
		c.submit(item(1, 1, 100)) // later than the first one can wait
		time.Sleep(time.Second)
		want := []batch{{7 * time.Millisecond, 2, []string{"2/0", "2/1"}}, {8 * time.Millisecond, 3, []string{"3/0"}}, {10 * time.Millisecond, 1, []string{"1/0", "1/1"}}}
		if got := w.seen(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("wrote %v, want %v", got, want)
		}
		stop()
	})
}

func TestFullBatchIsWrittenAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		items, bytes int
		want         []int
	}{
		"by count":              {commitBatch, 0, []int{commitBatch}},
		"by bytes":              {4, 300 << 10, []int{3, 1}},
		"one that is too large": {1, commitBytes + 1, []int{1}},
		"all too large":         {1, 5 << 20, []int{1}},
		"not full":              {commitBatch - 1, 0, nil},
		"not full by a byte":    {1, commitBytes - 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			committing(t, time.Hour, 10_000, nil, func(t *testing.T, c *committer, w *written, stop func()) {
				// The lock makes all of them arrive while the dispatcher is busy.
				c.mu.Lock()
				var submitting sync.WaitGroup
				for i := range test.items {
					submitting.Go(func() { c.submit(item(0, i, test.bytes)) })
				}
				c.mu.Unlock()
				submitting.Wait()
				synctest.Wait()
				got := w.sizes()
				slices.SortFunc(got, func(a, b int) int { return b - a })
				if !slices.Equal(got, test.want) {
					t.Errorf("wrote batches of %v, want %v", got, test.want)
				}
				if time.Since(w.began) != 0 {
					t.Errorf("after %v", time.Since(w.began))
				}
				stop()
				if n := len(w.all()); n != test.items {
					t.Errorf("%d written in the end, want %d", n, test.items)
				}
			})
		})
	}
}

func TestStepsAreBoundedByCountAndBytes(t *testing.T) {
	for name, sizes := range map[string][]int{
		"none large":          make([]int, 1000),
		"exactly two batches": make([]int, 2*commitBatch),
		"large among small":   {10, 10, commitBytes, 10, 10, commitBytes + 1, commitBytes + 1, 10},
		"just over":           {commitBytes / 2, commitBytes / 2, 1},
		"one":                 {0},
		"one large":           {5 * commitBytes},
	} {
		t.Run(name, func(t *testing.T) {
			var items []circulate.Return
			for i, size := range sizes {
				items = append(items, item(0, i, size))
			}
			next := 0
			for _, step := range split(items) {
				bytes := 0
				for _, it := range step {
					if it.Claim != items[next].Claim {
						t.Fatalf("%q where %q should be", it.Claim.ID, items[next].Claim.ID)
					}
					bytes += sizes[next]
					next++
				}
				if len(step) == 0 || len(step) > commitBatch || bytes > commitBytes && len(step) > 1 {
					t.Errorf("a step of %d returns and %d bytes", len(step), bytes)
				}
			}
			if next != len(items) {
				t.Errorf("%d of %d are in a step", next, len(items))
			}
		})
	}
}

func TestSubmitWaitsWhileTooManyAreNotWritten(t *testing.T) {
	const limit = 10
	committing(t, time.Millisecond, limit, make(chan struct{}), func(t *testing.T, c *committer, w *written, stop func()) {
		var submitted atomic.Int64
		var submitting sync.WaitGroup
		submitting.Go(func() {
			for i := range 3 * limit {
				c.submit(item(i%3, i, 0))
				submitted.Add(1)
			}
		})
		time.Sleep(time.Hour) // Redis is away
		if n := submitted.Load(); n != limit {
			t.Errorf("%d were taken over while nothing could be written, want %d", n, limit)
		}
		close(w.gate)
		submitting.Wait()
		stop()
		expectOnce(t, w.all(), 3*limit)
	})
}

func expectOnce(t *testing.T, ids []string, want int) {
	t.Helper()
	seen := make(map[string]bool)
	for _, id := range ids {
		if seen[id] {
			t.Errorf("%s was written twice", id)
		}
		seen[id] = true
	}
	if len(ids) != want {
		t.Errorf("%d written, want %d", len(ids), want)
	}
}

func TestShutdownWritesWhatIsLeft(t *testing.T) {
	committing(t, time.Hour, 10_000, make(chan struct{}), func(t *testing.T, c *committer, w *written, stop func()) {
		for i := range 1500 {
			c.submit(item(i%7, i, 0))
		}
		synctest.Wait()
		go func() {
			time.Sleep(time.Minute)
			close(w.gate)
		}()
		stop()
		if took := time.Since(w.began); took != time.Minute {
			t.Errorf("run ended after %v, want when all was written", took)
		}
		expectOnce(t, w.all(), 1500)
	})
}

// A shard that hangs does not stop the others as long as one writer is left.
func TestOneShardThatHangsDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var others atomic.Int64
		c := newCommitter(always(time.Millisecond), 1000, func(shard int, items []circulate.Return) {
			if shard == 0 {
				<-release
				return
			}
			others.Add(int64(len(items)))
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			c.run(ctx)
			close(done)
		}()
		for round := range committers - 1 {
			c.submit(item(0, round, 0))
			time.Sleep(10 * time.Millisecond)
		}
		for i := range 100 {
			c.submit(item(1+i%5, i, 0))
		}
		time.Sleep(10 * time.Millisecond)
		if n := others.Load(); n != 100 {
			t.Errorf("%d of the other shards' returns were written, want 100", n)
		}
		close(release)
		cancel()
		<-done
	})
}

// TestEachReturnIsWrittenOnce lets many goroutines submit at once, in real time.
func TestEachReturnIsWrittenOnce(t *testing.T) {
	const submitters, each = 16, 1000
	w := &written{T: t, began: time.Now()}
	c := newCommitter(always(100*time.Microsecond), 300, w.write)
	ctx, cancel := context.WithCancel(t.Context())
	var running, submitting sync.WaitGroup
	running.Go(func() { c.run(ctx) })
	for s := range submitters {
		submitting.Go(func() {
			for i := range each {
				size := 0
				if i%100 == 0 {
					size = 400 << 10
				}
				c.submit(item((s+i)%5, s*each+i, size))
			}
		})
	}
	submitting.Wait()
	cancel()
	running.Wait()
	expectOnce(t, w.all(), submitters*each)
	for _, b := range w.seen() {
		if len(b.ids) > commitBatch {
			t.Errorf("a batch of %d", len(b.ids))
		}
	}
	if len(c.slots) != 0 || len(c.pending) != 0 {
		t.Errorf("%d slots are taken and %d shards gather after the end", len(c.slots), len(c.pending))
	}
}
