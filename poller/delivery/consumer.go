package delivery

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// Consumer reads the streams of all shards for one group. Any number of them, in
// any number of processes, share the shards of a group among them: each shard is
// read by one of them at a time, under a lease.
//
// The zero value of each setting but the first three is its default.
type Consumer struct {
	Ring    *circulate.Ring
	Group   string // 1 to 64 letters, digits, dots, dashes or underscores
	Handler Handler

	// Start is where a group that is new begins: circulate.StreamStart, which is
	// the default, circulate.StreamEnd, or a position.
	Start string
	// Batch is how many messages a shard's handler gets at once, at most: 256.
	Batch int
	// BatchBytes is after how many bytes of data a batch is large enough: 1 MiB.
	BatchBytes int
	// Concurrency is how many batches are handled at once: 16. With BatchBytes it
	// bounds what is in memory, however much waits.
	Concurrency int
	// Parallel is into how many parts, by account, a shard's batch is divided to be
	// handled side by side: 1.
	Parallel int
	// MaxDeliveries is after how many deliveries that failed a message goes to the
	// dead-letter stream: the constant of this name.
	MaxDeliveries int
	// Backoff is how long to wait after so many failed deliveries of a message; by
	// default FirstPause, then four times as long each time, up to LongestPause, less
	// up to a half by chance. Only the message's account waits.
	Backoff func(deliveries int) time.Duration
	// HeldMax is how many messages of a shard may wait behind failed ones of their
	// accounts, before all of the shard waits: 10,000.
	HeldMax int
	// HandlerTimeout is after how long the context of a Handle is done: 30 s.
	HandlerTimeout time.Duration
	// TakeOver is how long a consumer may be silent before others take over what
	// it left: 15 s.
	TakeOver time.Duration
	// Grace is how long handlers may go on when Run is to end: 10 s.
	Grace time.Duration
	// Hurry ends that time at once when it is closed; nil: nothing does.
	Hurry <-chan struct{}

	Log     *slog.Logger // nil: nowhere
	Metrics *Metrics     // nil: counted for nobody
	// Control is through what others look at the consumer while it runs, and hasten it;
	// nil: nobody does.
	Control *Control
}

func (c Consumer) withDefaults() Consumer {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	setTime := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	set(&c.Batch, 256)
	set(&c.BatchBytes, 1<<20)
	set(&c.Concurrency, 16)
	set(&c.Parallel, 1)
	set(&c.MaxDeliveries, MaxDeliveries)
	set(&c.HeldMax, 10_000)
	setTime(&c.HandlerTimeout, 30*time.Second)
	setTime(&c.TakeOver, 15*time.Second)
	setTime(&c.Grace, 10*time.Second)
	if c.Start == "" {
		c.Start = circulate.StreamStart
	}
	if c.Backoff == nil {
		c.Backoff = backoff
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c
}

// validate tells all that is wrong with the settings at once.
func (c Consumer) validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("consumer: "+format, args...)) }
	if c.Ring == nil {
		fault("ring: missing")
	}
	if c.Handler == nil {
		fault("handler: missing")
	}
	if err := circulate.ValidateGroup(c.Group); err != nil {
		fault("group %q: %w", c.Group, err)
	}
	if c.Start != circulate.StreamEnd {
		if err := circulate.ValidatePosition(c.Start); err != nil {
			fault("start: %w", err)
		}
	}
	if c.Batch < 1 || c.Batch > group.MaxRead {
		fault("batch: must be 1 to %d, is %d", group.MaxRead, c.Batch)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"batch bytes", c.BatchBytes}, {"concurrency", c.Concurrency}, {"parallel", c.Parallel}, {"max deliveries", c.MaxDeliveries}, {"held max", c.HeldMax}} {
		if f.value < 1 {
			fault("%s: must be at least 1, is %d", f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"handler timeout", c.HandlerTimeout}, {"grace", c.Grace}} {
		if f.value < 0 {
			fault("%s: must not be negative, is %v", f.name, f.value)
		}
	}
	if c.TakeOver < time.Second {
		fault("take over: must be at least 1s, is %v", c.TakeOver)
	}
	return errors.Join(errs...)
}

// Run consumes until ctx is done. Then it reads no more, lets handlers finish for
// up to Grace, acknowledges what they did, and returns its shards to its peers. What
// could not be finished stays pending for them.
//
// It returns an error only where the settings are wrong. That Redis is away is
// no reason to end: it tries again until it is back.
func (c Consumer) Run(ctx context.Context) error {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(context.Canceled)
	g := &member{
		Consumer: c,
		name:     circulate.NewReplica(),
		hanging:  newHanging(),
		work:     work,
		slots:    make(chan struct{}, c.Concurrency),
		suspects: make(chan struct{}, 1),
		seed:     maphash.MakeSeed(),
		sessions: make(map[int]*session),
		reached:  make(map[int]string),
		reading:  make(map[int]*session),
		meters:   c.Metrics.of(c.Group),
	}
	g.Log = c.Log.With("group", c.Group, "consumer", g.name)
	c.Control.steer(g)
	defer c.Control.steer(nil)

	var helpers sync.WaitGroup
	helpers.Go(func() { g.measure(ctx) })
	keeping, stop := context.WithCancel(work)
	helpers.Go(func() { g.keep(keeping) })
	g.Log.Debug("consumer starts")
	g.manage(ctx)

	grace, hurry := time.NewTimer(c.Grace), c.Hurry
	defer grace.Stop()
	for _, s := range g.sessions {
		for ended := false; !ended; {
			select {
			case <-s.ended:
				ended = true
			case <-grace.C:
				cancel(errGraceOver)
			case <-hurry:
				cancel(errGraceOver)
				hurry = nil
			}
		}
	}
	g.quit()
	stop()
	helpers.Wait()
	g.rest()
	g.meters.clear()
	g.Log.Debug("consumer has ended")
	return nil
}

var errGraceOver = errors.New("delivery: the consumer ends")
