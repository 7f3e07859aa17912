package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/span"
)

// Consumer reads the streams of all shards for one group. Any number of consumers, in any number of
// processes, share the shards of a group: each shard is read by one of them at a time, under a
// lease. When the number of shards changes, the consumer goes on with the new ones.
//
// Ring, Group and Handler are required. The zero value of any other setting means its default.
type Consumer struct {
	Ring    *circulate.Ring
	Group   string // 1 to 64 letters, digits, dots, dashes or underscores
	Handler Handler

	// Start is where a new group begins: circulate.StreamStart, circulate.StreamEnd, or
	// a position. The default is circulate.StreamStart.
	Start string
	// Events asks for events beside messages: what becomes of the accounts' sends. In the
	// deliveries of the handler they have Event set. Messages and events of an account come
	// in one order. The setting belongs to the group, and the consumer that started last
	// decides. A group that stops asking still gets the events from before.
	Events bool
	// Unordered says that the order of an account's messages means nothing: a message that is
	// delivered again waits alone, and the later ones of its account do not wait behind it. The
	// handler may then be called at once with different messages of one account.
	Unordered bool
	// Batch is the most messages that a handler gets at once. The default is 256.
	Batch int
	// BatchBytes is the number of bytes of data after which a batch is complete. The
	// default is 1 MiB.
	BatchBytes int
	// Concurrency is the number of batches that are handled at once. Together with
	// BatchBytes it bounds the memory, however many messages wait. The default is 16.
	Concurrency int
	// Parallel is the number of parts, by account, of a shard's batch that are handled
	// side by side. The default is 1.
	Parallel int
	// MaxDeliveries is the number of failed deliveries after which a message is a dead
	// letter. The default is the constant MaxDeliveries.
	MaxDeliveries int
	// Backoff returns the wait after the given number of failed deliveries of a message.
	// Only the message's account waits. The default is FirstPause, and four times as long
	// after each further failure, up to LongestPause, minus a random part of up to a half.
	Backoff func(deliveries int) time.Duration
	// HeldMax is the number of messages of a shard that may wait behind failed ones of
	// their accounts before the whole shard waits. The default is 10,000.
	HeldMax int
	// HandlerTimeout is the time after which the context of Handle is done. The default is
	// 30 s.
	HandlerTimeout time.Duration
	// TakeOver is how long a consumer may be silent before others take over its messages.
	// The default is 15 s.
	TakeOver time.Duration
	// Grace is how long handlers may go on after Run's context is done. The default is 10 s.
	Grace time.Duration
	// Hurry, once closed, ends Grace at once. Nil: there is no hurry.
	Hurry <-chan struct{}

	Log     *slog.Logger // nil: no log; the ring logs outages of Redis, see circulate.Options
	Metrics *Metrics     // nil: no metrics
	// Objective is within how long of the third party's time a message should be acknowledged. Later
	// ones are counted as slow. 0: none are.
	Objective time.Duration
	// Spans records deliveries of messages whose checks are recorded, in the same traces. Nil: nothing
	// is recorded.
	Spans span.Recorder
	// Control lets others watch the running consumer and order a retry. It may be nil.
	Control *Control
}

func (c Consumer) withDefaults() Consumer {
	c.Start = cmp.Or(c.Start, circulate.StreamStart)
	c.Batch = cmp.Or(c.Batch, 256)
	c.BatchBytes = cmp.Or(c.BatchBytes, 1<<20)
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.Parallel = cmp.Or(c.Parallel, 1)
	c.MaxDeliveries = cmp.Or(c.MaxDeliveries, MaxDeliveries)
	c.HeldMax = cmp.Or(c.HeldMax, 10_000)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, 30*time.Second)
	c.TakeOver = cmp.Or(c.TakeOver, 15*time.Second)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Backoff == nil {
		c.Backoff = backoff
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c
}

// validate returns everything that is wrong with the settings at once.
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
			fault("start: %w; circulate.StreamStart is the beginning of the stream and circulate.StreamEnd its end", err)
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

// Run consumes until ctx is done. Then it reads no more, lets handlers go on for up to Grace,
// acknowledges the messages that they handled, and returns its shards to its peers. The other
// messages stay pending for them.
//
// It returns an error for invalid settings, or a Preparer's error. While Redis is away it tries
// again until Redis is back.
func (c Consumer) Run(ctx context.Context) error {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return c.Ring.Follow(ctx, c.consume)
}

// consume consumes from a ring until ctx is done.
func (c Consumer) consume(ctx context.Context, ring *circulate.Ring) error {
	c.Ring = ring
	if effect, ok := c.Handler.(*Effect); ok {
		with := *effect
		with.Ring = ring
		c.Handler = &with
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
		peers:    make(map[string]group.Condition),
		reached:  make(map[int]string),
		reading:  make(map[int]*session),
		meters:   c.Metrics.of(c.Group),
	}
	g.Log = c.Log.With("group", c.Group, "consumer", g.name)
	g.refused, g.deferred = newRefusals(g.Log, c), newDeferrals(g.Log, c)
	c.Control.steer(g)
	defer c.Control.leave(g)

	var helpers sync.WaitGroup
	helpers.Go(func() { g.measure(ctx) })
	renewing, stop := context.WithCancel(work)
	helpers.Go(func() { g.renewLeases(renewing) })
	g.Log.Info("consuming", "namespace", ring.Namespace(), "redis", ring.Server(), "shards", ring.Shards())
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
	g.tellLosses(0)
	g.meters.clear()
	g.Log.Info("the consumer has ended")
	return nil
}

var errGraceOver = errors.New("delivery: the consumer ends")

// prepare has the handler prepare itself, and tries again whenever the handler puts that off. It
// returns nil if ctx is done first.
func (c Consumer) prepare(ctx context.Context) error {
	handler, ok := c.Handler.(Preparer)
	if !ok {
		return nil
	}
	for told := false; ; told = true {
		err := handler.Prepare(ctx)
		later, isLater := laterOf(err)
		switch {
		case err == nil && told:
			c.Log.Info("the consumer's handler is ready", "group", c.Group)
			return nil
		case err == nil || ctx.Err() != nil:
			return nil
		case !isLater:
			return fmt.Errorf("consumer %s: %w", c.Group, err)
		case !told:
			c.Log.Warn("nothing is read yet: the handler is not ready", "group", c.Group, "error", later.reason())
		}
		if !sleep(ctx, max(later.After, heldPause)) {
			return nil
		}
	}
}
