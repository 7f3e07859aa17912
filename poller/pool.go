package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// Options are what a pool works with, besides its settings. Nil fields stay
// silent.
type Options struct {
	Log     *slog.Logger
	Metrics *Metrics
}

// Pool is one replica: it claims accounts, checks them, and gives them back.
type Pool struct {
	ring       *circulate.Ring
	checkers   Checkers
	config     Config
	log        *slog.Logger
	metrics    *Metrics
	tally      *tally
	meter      meter
	letters    *accounts.Letters
	outage     *outage
	holding    *holding
	limiter    *limiter
	outageTold atomic.Bool
	suspect    atomic.Bool // the one place for suspects is taken
	records    *circulate.Records[*record]
	timetable  *timetable
	room       *room
	places     *places
	running    *running
	committer  *committer
	abandoned  atomic.Int64
	hearing    atomic.Bool               // wake-ups arrive
	origin     atomic.Pointer[instant]   // of the last claim
	clocks     []atomic.Pointer[instant] // shard -> of its last claim

	checks  context.Context // of the checks; done after the grace period
	commits context.Context // of the writes; done when all has been tried
	halt    atomic.Bool     // no further pages
}

// instant is one moment by Redis' clock and by ours.
type instant struct{ server, local time.Time }

// New makes a pool. Its Run may be called once.
func New(ring *circulate.Ring, checkers Checkers, config Config, o Options) (*Pool, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
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
	p := &Pool{
		ring:     ring,
		checkers: checkers,
		config:   config,
		log:      o.Log.With("role", "poller", "replica", config.Replica),
		metrics:  o.Metrics,
		places:   newPlaces(config.Concurrency),
		running:  newRunning(),
		letters:  accounts.NewLetters(),
		outage:   newOutage(),
		holding:  newHolding(),
	}
	p.room = newRoom(ring, config.MemoryMark, p.log, p.metrics)
	p.limiter = newLimiter(ring, limits, leaseOf(config), p.log, p.metrics)
	p.records = circulate.NewRecords(ring, config.RecordsKept, config.RecordBytes, recordTTL, p.decode)
	p.committer = newCommitter(p.linger, 4*config.Concurrency+commitBatch, p.commit)
	return p, nil
}

// Run claims, checks and returns until ctx is done. Then it claims no more,
// lets checks go on for the grace period, ends those that are left, and gives
// every account back: checked ones with what was found, the others next in line.
// It returns nil after that, and an error only where the replica could not say
// that it lives before ctx was done.
func (p *Pool) Run(ctx context.Context) error {
	base := context.WithoutCancel(ctx)
	var endChecks, endCommits context.CancelFunc
	p.checks, endChecks = context.WithCancel(base)
	defer endChecks()
	p.commits, endCommits = context.WithCancel(base)
	defer endCommits()
	gathering, endGathering := context.WithCancel(base)
	defer endGathering()
	heart, endHeart := context.WithCancel(base)
	defer endHeart()
	now := time.Now()
	p.tally = newTally(now)
	p.timetable = newTimetable(p.ring.Shards(), now)
	p.clocks = make([]atomic.Pointer[instant], p.ring.Shards())

	// The monitors must know the replica before it holds anything.
	for p.beat(ctx) != nil {
		if !sleep(ctx, min(time.Second, p.config.Heartbeat)) {
			return nil
		}
	}
	p.room.look(ctx)
	p.log.Info("polling", "concurrency", p.config.Concurrency, "shards", p.ring.Shards())
	var claiming, committing, beating sync.WaitGroup
	for range claimers {
		claiming.Go(func() { p.claim(ctx) })
	}
	committing.Go(func() { p.committer.run(gathering) })
	committing.Go(func() { p.limiter.run(gathering, p.commits) })
	beating.Go(func() { p.beatOn(heart) })
	beating.Go(func() { p.listen(ctx) })
	beating.Go(func() { p.room.run(heart) })

	<-ctx.Done()
	p.log.Info("going down: no more claims", "running", p.running.count())
	p.halt.Store(true)
	claiming.Wait()
	if !p.running.drained(p.config.GracePeriod) {
		p.log.Info("grace period over: ending checks", "running", p.running.count())
		endChecks()
		p.running.drained(abandonAfter)
	}
	// Redis may be away: the last writes are tried for a while, not for ever.
	bound := time.AfterFunc(flushTimeout, endCommits)
	defer bound.Stop()
	p.releaseAll()
	endGathering()
	committing.Wait()
	p.reclaimAll()
	endHeart()
	beating.Wait()
	return p.retire(base)
}

// releaseAll gives back, unchecked, what still runs. Where a page is being written
// the claim is given back after that, by the entry that it then has.
func (p *Pool) releaseAll() {
	var idle, writing []*flight
	for _, f := range p.running.seize() {
		if f.isWriting() {
			writing = append(writing, f)
		} else {
			idle = append(idle, f)
		}
	}
	p.releaseFlights(idle)
	for _, f := range writing {
		f.awaitWriting()
	}
	p.releaseFlights(writing)
}

// releaseFlights gives back flights that are settled.
func (p *Pool) releaseFlights(flights []*flight) {
	byShard := make(map[int][]*circulate.Claim)
	for _, f := range flights {
		if f.unsure {
			f.forgo()
			continue
		}
		byShard[f.claim.Shard] = append(byShard[f.claim.Shard], f.claim)
	}
	for shard, claims := range byShard {
		for len(claims) > 0 {
			n := min(len(claims), circulate.MaxBatch)
			p.release(p.commits, shard, claims[:n])
			claims = claims[n:]
		}
	}
}

func (p *Pool) retire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.Heartbeat)
	defer cancel()
	if err := p.ring.Retire(ctx, p.config.Replica); err != nil {
		p.log.Warn("could not sign off; the monitors will find out", "error", err)
	}
	p.log.Info("stopped")
	return nil
}

func (p *Pool) beatOn(ctx context.Context) {
	for sleep(ctx, p.config.Heartbeat) {
		_ = p.beat(ctx) // counted and logged there; the next one may succeed
	}
}

// beat says that the replica lives, with its report.
func (p *Pool) beat(ctx context.Context) error {
	report := p.tally.report(time.Now())
	report.Host, report.Concurrency, report.InFlight = p.config.Host, p.config.Concurrency, p.running.count()
	report.Layout = p.ring.Layout()
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, max(p.config.Heartbeat, time.Second))
	defer cancel()
	p.metrics.running.Set(float64(report.InFlight))
	p.metrics.hanging.Set(float64(p.abandoned.Load()))
	p.noteOutage()
	alive, err := p.ring.Heartbeat(ctx, p.config.Replica, text, peerWindow*p.config.Heartbeat)
	if err != nil {
		p.metrics.heartbeats.WithLabelValues("failed").Inc()
		if !errors.Is(err, context.Canceled) {
			p.log.Debug("heartbeat failed", "error", err)
		}
		return err
	}
	p.metrics.heartbeats.WithLabelValues("ok").Inc()
	p.timetable.divide(p.config.Replica, alive, time.Now())
	return nil
}

// noteOutage tells when our own network begins to seem down, and when it is back.
func (p *Pool) noteOutage() {
	down := p.outage.suspected()
	if down == p.outageTold.Swap(down) {
		return
	}
	if down {
		p.metrics.outage.Set(1)
		p.log.Error("many hosts are out of reach: our own network seems to be down; nothing is held against accounts")
		return
	}
	p.metrics.outage.Set(0)
	p.log.Info("hosts can be reached again")
}

// linger is how long a result may wait for others of its shard.
func (p *Pool) linger(now time.Time) time.Duration {
	if p.meter.isBusy(now) {
		return p.config.GatherInterval
	}
	return min(p.config.CommitInterval, p.config.GatherInterval)
}

func (p *Pool) stopping() bool { return p.halt.Load() }

// tooManyAbandoned holds claims while as many checkers hang as there are places:
// checkers that never come back must not eat up the process. A small pool may
// have some more, or one bad account would stop it.
func (p *Pool) tooManyAbandoned() bool {
	return p.abandoned.Load() >= int64(max(p.config.Concurrency, leastAbandoned))
}

// counted counts messages that were written.
func (p *Pool) counted(kind string, messages int) {
	if messages > 0 {
		p.metrics.messages.WithLabelValues(kind).Add(float64(messages))
		p.tally.found(messages)
	}
}

// serverNow is the time by Redis' clock, as the last claim had it.
func (p *Pool) serverNow() time.Time {
	if o := p.origin.Load(); o != nil {
		return o.server.Add(time.Since(o.local))
	}
	return time.Now() // nothing was claimed yet
}

// local is a time by Redis' clock as one by ours, as the last claim had them.
func (p *Pool) local(server time.Time) time.Time {
	if o := p.origin.Load(); o != nil {
		return o.local.Add(server.Sub(o.server))
	}
	return time.Now()
}
