package poller

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	commitBatch     = 256     // the most returns in one step
	commitBytes     = 1 << 20 // about the most bytes of messages and cursors in one step
	committers      = 4       // steps under way at once
	commitRetry     = 50 * time.Millisecond
	commitRetryMax  = 2 * time.Second
	progressRetries = 3
)

// committer gathers returns by shard and writes them in batches. It writes a batch when the
// batch is full, or when its first return has waited long enough. A calm return, which nobody
// waits for, may wait twice as long.
type committer struct {
	linger func(now time.Time) time.Duration
	calm   func(*circulate.Return) bool // nil: none is
	write  func(shard int, items []circulate.Return)

	slots chan struct{} // one for each unwritten return, to bound them
	kick  signal        // has a value when the dispatcher should look again
	jobs  chan batchOfShard

	mu      sync.Mutex
	pending map[int]*gathering
	then    map[*circulate.Claim]func() // called once the claim's return is written
}

// gathering is the returns of one shard that wait to be written together.
type gathering struct {
	items []circulate.Return
	bytes int
	since time.Time
	hasty time.Time // since when a return waits that is not calm; zero: none does
}

type batchOfShard struct {
	shard int
	items []circulate.Return
}

func newCommitter(linger func(time.Time) time.Duration, limit int, write func(int, []circulate.Return)) *committer {
	return &committer{
		linger:  linger,
		write:   write,
		slots:   make(chan struct{}, limit),
		kick:    newSignal(),
		jobs:    make(chan batchOfShard),
		pending: make(map[int]*gathering),
		then:    make(map[*circulate.Claim]func()),
	}
}

// submitWith takes over a return, with a function to call once it is written or dropped, which may
// be nil. It blocks while too many are unwritten.
func (c *committer) submitWith(item circulate.Return, written func()) {
	c.slots <- struct{}{}
	c.mu.Lock()
	if written != nil {
		c.then[item.Claim] = written
	}
	shard := item.Claim.Shard
	now := time.Now()
	g, ok := c.pending[shard]
	if !ok {
		g = &gathering{since: now}
		c.pending[shard] = g
	}
	g.items = append(g.items, item)
	g.bytes += size(&item)
	wake := g.full() || len(c.pending) == 1 && len(g.items) == 1 || c.crowded()
	if g.hasty.IsZero() && (c.calm == nil || !c.calm(&item)) {
		g.hasty = now
		wake = wake || c.calm != nil // others may be calm
	}
	c.mu.Unlock()
	if wake {
		c.kick.give()
	}
}

// callThen calls the functions of returns that are written or dropped.
func (c *committer) callThen(items []circulate.Return) {
	for i := range items {
		c.mu.Lock()
		written := c.then[items[i].Claim]
		delete(c.then, items[i].Claim)
		c.mu.Unlock()
		if written != nil {
			written()
		}
	}
}

// crowded reports whether checks may soon wait until results are written. Lingering then costs more
// than small batches.
func (c *committer) crowded() bool { return 4*len(c.slots) >= 3*cap(c.slots) }

func (g *gathering) full() bool { return len(g.items) >= commitBatch || g.bytes >= commitBytes }

// run writes submitted returns until ctx is done, and then what is left. Nothing may be
// submitted after that.
func (c *committer) run(ctx context.Context) {
	var writers sync.WaitGroup
	for range committers {
		writers.Go(func() {
			for job := range c.jobs {
				c.write(job.shard, job.items)
				c.callThen(job.items)
				for range job.items {
					<-c.slots
				}
			}
		})
	}
	defer writers.Wait()
	defer close(c.jobs)

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		last := ctx.Err() != nil
		ready, wait := c.take(time.Now(), last)
		for _, job := range ready {
			c.jobs <- job
		}
		if last {
			return
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-c.kick:
		case <-timer.C:
		}
	}
}

// take returns the batches to write now, and how long the next one may wait.
func (c *committer) take(now time.Time, all bool) (ready []batchOfShard, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait = time.Hour
	linger := c.linger(now)
	if c.crowded() {
		linger = 0
	}
	for shard, g := range c.pending {
		left := 2*linger - now.Sub(g.since)
		if !g.hasty.IsZero() {
			left = min(left, linger-now.Sub(g.hasty))
		}
		if !all && !g.full() && left > 0 {
			wait = min(wait, left)
			continue
		}
		delete(c.pending, shard)
		for _, items := range split(g.items) {
			ready = append(ready, batchOfShard{shard, items})
		}
	}
	return ready, wait
}

// split cuts a shard's returns into steps that do not hold up Redis for long.
func split(items []circulate.Return) [][]circulate.Return {
	var steps [][]circulate.Return
	first, bytes := 0, 0
	for i := range items {
		more := size(&items[i])
		if i > first && (i-first >= commitBatch || bytes+more > commitBytes) {
			steps = append(steps, items[first:i])
			first, bytes = i, 0
		}
		bytes += more
	}
	return append(steps, items[first:])
}

// size returns roughly how many bytes a return writes.
func size(item *circulate.Return) int {
	return len(item.Cursor) + sizeOf(item.Messages)
}

// sizeOf returns roughly how many bytes messages have.
func sizeOf(messages []circulate.Message) int {
	n := 0
	for i := range messages {
		n += len(messages[i].Data)
	}
	return n
}
