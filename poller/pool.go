package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/span"
)

// Options are what a pool works with besides its settings. Each field may be nil.
type Options struct {
	Log     *slog.Logger // nil: no log
	Metrics *Metrics     // nil: no metrics

	// Hurry, once closed, ends the grace period at once and leaves the last writes little
	// time. Nil: there is no hurry.
	Hurry <-chan struct{}

	// Holding is called twice a second, from one goroutine, with the number of checks that third
	// parties hold. Nil: it is not called.
	Holding func(held int)

	// Follow changes the record of an account that has moved for good and was checked at
	// its new address; see Result.MovedTo. It returns accounts.ErrChanged or
	// accounts.ErrNotFound if somebody changed the record meanwhile. Nil: moves only show
	// as warnings.
	Follow func(context.Context, Move) error

	// Tokens seals the tokens of windows; see Answerable. Nil: Redis holds them as they are.
	Tokens TokenSealer

	// Files has the files of sends. Nil: sends with files wait for another replica.
	Files SendFiles

	// Spans records checks and sends as spans of traces. Nil: they are not recorded, which costs nothing.
	Spans span.Recorder
}

// Pool is one replica: it claims accounts, checks them, and returns them. Its claimer claims,
// its flights are the checks under way, and its writer writes what they found.
type Pool struct {
	*replica
	ring       *circulate.Ring
	hurry      <-chan struct{}
	holding    func(held int)
	limiter    *limiter
	claimer    *claimer
	flights    *flights
	writer     *writer
	sends      *sends
	checkers   Checkers
	peers      *peers
	outageTold atomic.Bool
}

// replica is what the parts of a pool share.
type replica struct {
	config    Config
	log       *slog.Logger
	metrics   *Metrics
	tally     *tally
	activity  *activity.Tally
	failures  *failures
	meter     meter
	codes     *accounts.Codes
	clocks    *clocks
	timetable *timetable
	sendTimes *timetable // of shards with sends
	room      *room
	pricing   pricing
	spans     span.Recorder // nil: nothing is recorded
}

// New returns a pool. Its Run may be called once. The error names the faults of the settings.
func New(ring *circulate.Ring, checkers Checkers, config Config, o Options) (*Pool, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("poller: %w", err)
	}
	if err := config.validateHolds(checkers); err != nil {
		return nil, fmt.Errorf("poller: %w", err)
	}
	limits, err := config.Limits.withDefaults(checkers)
	if err != nil {
		return nil, fmt.Errorf("poller: limits: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	now, log := time.Now(), o.Log.With("role", "poller", "replica", config.Replica)
	r := &replica{
		config:    config,
		log:       log,
		metrics:   o.Metrics,
		tally:     newTally(now),
		activity:  activity.NewTally(),
		failures:  newFailures(),
		codes:     accounts.NewCodes(),
		clocks:    newClocks(ring.Shards()),
		timetable: newTimetable(ring.Shards(), now),
		room:      newRoom(ring, config.MemoryMark, log, o.Metrics),
		spans:     o.Spans,
	}
	r.timetable.idle = config.IdleInterval
	limiter := newLimiter(ring, limits, leaseOf(config), log, o.Metrics)
	writer := newWriter(r, ring, checkers.once())
	sends := newSends(r, ring, checkers, limiter, writer.syncer, o.Tokens, o.Files)
	flights := newFlights(r, limiter, writer, newMover(r, o.Follow), newHeldChecks(r, ring, writer))
	flights.tokens, flights.sends, sends.troubles = o.Tokens, sends, flights.troubles
	peers := newPeers(ring, config.Replica, checkers.Kinds())
	return &Pool{
		replica: r, ring: ring, hurry: o.Hurry, holding: o.Holding, checkers: checkers, peers: peers, limiter: limiter, writer: writer, flights: flights, sends: sends,
		claimer: newClaimer(r, ring, checkers, peers, limiter, flights, writer, sends),
	}, nil
}

// Limit prepares limits that replace Config.Limits. The function that it returns applies them to
// checks that start from then on, and cannot fail. The error is about a checker's default limit.
func (p *Pool) Limit(limits Limits) (change func(), err error) {
	limits, err = limits.withDefaults(p.checkers)
	if err != nil {
		return nil, fmt.Errorf("poller: limits: %w", err)
	}
	return func() { p.limiter.set(limits) }, nil
}

// Run claims, checks and returns accounts until ctx is done. Then it claims no more, lets
// checks go on for the grace period, ends those that are left, and returns every account:
// checked ones with their messages, the others next in line. Then Run returns nil. Before it
// claims, it waits until Redis has its first heartbeat.
func (p *Pool) Run(ctx context.Context) error {
	base := context.WithoutCancel(ctx)
	checks, endChecks := context.WithCancel(base)
	defer endChecks()
	writes, endWrites := context.WithCancel(base)
	defer endWrites()
	gathering, endGathering := context.WithCancel(base)
	defer endGathering()
	heart, endHeart := context.WithCancel(base)
	defer endHeart()
	p.flights.checks, p.writer.writes = checks, writes
	defer p.flights.crew.Close()

	// The monitors must know the replica before it has any account.
	for p.beat(ctx) != nil {
		if !sleep(ctx, min(time.Second, p.config.Heartbeat)) {
			return nil
		}
	}
	p.flights.maintained.read(ctx)
	p.room.look(ctx)
	p.log.Info("polling", "concurrency", p.config.Concurrency, "shards", p.ring.Shards())
	var claiming, writing, beating, sending sync.WaitGroup
	sending.Go(func() { p.sends.run(ctx, writes, p.hurry) })
	for range claimers {
		claiming.Go(func() { p.claimer.run(ctx) })
	}
	writing.Go(func() { p.writer.run(gathering) })
	writing.Go(func() { p.limiter.run(gathering, writes) })
	beating.Go(func() { p.beatOn(heart) })
	beating.Go(func() { p.tellHeld(heart) })
	beating.Go(func() { p.keepActivity(heart) })
	beating.Go(func() { p.flights.latest.run(heart, p.config.Heartbeat) })
	beating.Go(func() { p.claimer.listen(ctx) })
	beating.Go(func() { p.room.run(heart) })
	beating.Go(func() { p.flights.troubles.run(heart) })
	beating.Go(func() { p.followBudget(heart) })
	beating.Go(func() { p.failures.tell(heart, p.log, p.metrics.failing) })
	beating.Go(func() { p.flights.mover.run(heart) })
	beating.Go(func() { p.flights.watch(ctx) })
	beating.Go(func() { p.limiter.tell(heart, p.config.Replica, p.clocks.now) })

	<-ctx.Done()
	why, end := "shutting down", "stopped"
	if errors.Is(context.Cause(ctx), circulate.ErrResharding) {
		why, end = "the number of shards changed, and another pool goes on", "nothing is held under this name any more"
	}
	p.log.Info(why+": no more claims", "running", p.flights.count())
	p.flights.halt.Store(true)
	writing.Go(func() { p.tellStopping(writes) })
	claiming.Wait()
	p.claimer.departing.Wait()
	p.flights.stopHeld(p.hurry)
	if !p.flights.drained(p.config.GracePeriod, p.hurry) {
		p.log.Info("grace period over: ending checks", "running", p.flights.count())
		p.flights.callOffAll()
		endChecks()
		p.flights.drained(abandonAfter, nil)
	}
	<-p.sends.quiet
	// Redis may be away. The last writes are tried for a while, not for ever.
	bound := time.AfterFunc(flushTimeout, endWrites)
	defer bound.Stop()
	flushed := make(chan struct{})
	defer close(flushed)
	go func() {
		select {
		case <-p.hurry:
			bound.Reset(hurriedFlush)
		case <-flushed:
		}
	}()
	p.flights.releaseAll()
	sending.Wait()
	endGathering()
	writing.Wait()
	p.claimer.reclaimAll(writes)
	endHeart()
	beating.Wait()
	p.retire(base)
	p.log.Info(end)
	return nil
}
