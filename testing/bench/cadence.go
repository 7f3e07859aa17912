package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
)

const (
	interval   = time.Minute
	checkTakes = 50 * time.Millisecond
	settle     = time.Minute
	idleFor    = 30 * time.Second
	replicas   = 3
)

// cadenceBench measures whole replicas: how late checks are under load, and what idle
// replicas cost.
type cadenceBench struct {
	report   reporter
	length   time.Duration
	accounts int
}

func (b *cadenceBench) run(ctx context.Context) error {
	if err := b.idle(ctx); err != nil {
		return err
	}
	return b.load(ctx)
}

// sleeper is a checker that finds nothing and takes a while.
type sleeper struct{}

func (sleeper) Kind() string                   { return "sleep" }
func (sleeper) Validate(json.RawMessage) error { return nil }
func (sleeper) RateKey(json.RawMessage) string { return "" }

func (sleeper) Check(ctx context.Context, _ poller.Request) (poller.Result, error) {
	timer := time.NewTimer(checkTakes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return poller.Result{}, ctx.Err()
	case <-timer.C:
		return poller.Result{}, nil
	}
}

// fill registers the accounts, the n-th due at the n-th part of the spread.
func (b *cadenceBench) fill(ctx context.Context, server *connect.Single, first, spread time.Duration) (*circulate.Ring, error) {
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return nil, err
	}
	now, err := ring.Now(ctx, 0)
	if err != nil {
		return nil, err
	}
	shards := make([][]circulate.Registration, ring.Shards())
	for i := range b.accounts {
		id := fmt.Sprintf("account%06d", i)
		s := ring.ShardOf(id)
		shards[s] = append(shards[s], circulate.Registration{
			ID:     id,
			Record: fmt.Appendf(nil, `{"id":%q,"kind":"sleep","cadence":"every 60s"}`, id),
			Due:    now.Add(first + time.Duration(float64(spread)*float64(i)/float64(b.accounts))),
		})
	}
	return ring, eachShard(ring, func(shard int) error {
		for items := range slices.Chunk(shards[shard], 500) {
			if _, err := ring.Register(ctx, shard, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// start runs pools and one monitor until the returned function is called.
func start(ring *circulate.Ring, pools, concurrency int) (stop func() error, err error) {
	checkers, err := poller.NewCheckers(sleeper{})
	if err != nil {
		return nil, err
	}
	m, err := monitor.New(ring, monitor.Config{}, monitor.Options{})
	if err != nil {
		return nil, err
	}
	running := []func(context.Context) error{m.Run}
	for range pools {
		p, err := poller.New(ring, checkers, poller.Config{Concurrency: concurrency, RecordsKept: 2_000_000}, poller.Options{})
		if err != nil {
			return nil, err
		}
		running = append(running, p.Run)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	errs := make(chan error, len(running))
	for _, run := range running {
		wg.Go(func() { errs <- run(ctx) })
	}
	return func() error {
		cancel()
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// idle runs three replicas and a monitor over accounts of which none is due for an hour.
func (b *cadenceBench) idle(ctx context.Context) error {
	_, server, stopRedis, err := startRedis()
	if err != nil {
		return err
	}
	defer stopRedis()
	ring, err := b.fill(ctx, server, time.Hour, time.Hour)
	if err != nil {
		return err
	}
	stop, err := start(ring, replicas, 256)
	if err != nil {
		return err
	}
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	before, err := sample(server)
	if err != nil {
		return err
	}
	if err := pause(ctx, idleFor); err != nil {
		return err
	}
	after, err := sample(server)
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	b.report.figure("idle_commands_per_s", (after.commands-before.commands)/seconds, "commands/s")
	b.report.figure("idle_redis_cpu_share", 100*(after.redis-before.redis)/seconds, "% of a core")
	b.report.figure("idle_replicas_cpu_share", 100*(after.own-before.own)/seconds, "% of a core, three replicas and a monitor")
	return stop()
}

// load has one replica check every account once a minute.
func (b *cadenceBench) load(ctx context.Context) error {
	_, server, stopRedis, err := startRedis()
	if err != nil {
		return err
	}
	defer stopRedis()
	// Registering takes a while: the first accounts are not due before it ends.
	ring, err := b.fill(ctx, server, interval/2, interval)
	if err != nil {
		return err
	}
	perSecond := float64(b.accounts) / interval.Seconds()
	stop, err := start(ring, 1, max(256, int(3*perSecond*checkTakes.Seconds())))
	if err != nil {
		return err
	}
	if err := pause(ctx, interval/2+settle); err != nil {
		return err
	}
	before, err := sample(server)
	if err != nil {
		return err
	}
	var p99, p50, rates []float64
	for end := time.Now().Add(b.length); time.Now().Before(end); {
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		reports, err := reports(ctx, ring)
		if err != nil {
			return err
		}
		for _, r := range reports {
			p99, p50 = append(p99, 1000*r.LatenessP99), append(p50, 1000*r.LatenessP50)
			rates = append(rates, r.ChecksPerSecond)
		}
	}
	after, err := sample(server)
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	b.report.figure("checks_per_s", median(rates), "checks/s")
	b.report.figure("p50_lateness_ms", median(p50), "ms, the median of two-second windows")
	b.report.figure("p99_lateness_ms", median(p99), "ms, the median of two-second windows")
	b.report.figure("p99_lateness_worst_window_ms", slices.Max(p99), "ms")
	b.report.figure("redis_cpu_share", 100*(after.redis-before.redis)/seconds, "% of a core")
	b.report.figure("replica_cpu_share", 100*(after.own-before.own)/seconds, "% of a core")
	b.report.figure("redis_commands_per_s", (after.commands-before.commands)/seconds, "commands/s, those of scripts among them")
	return stop()
}

func reports(ctx context.Context, ring *circulate.Ring) ([]accounts.Report, error) {
	all, _, err := ring.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]accounts.Report, len(all))
	for i := range all {
		if err := json.Unmarshal(all[i].Report, &reports[i]); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// used is the processor time that was used up to a moment.
type used struct {
	at         time.Time
	commands   float64
	redis, own float64 // seconds of processor time
}

func sample(server *connect.Single) (used, error) {
	u := used{at: time.Now()}
	var err error
	if u.redis, err = usedCPU(server); err != nil {
		return u, err
	}
	if u.commands, err = usedCommands(server); err != nil {
		return u, err
	}
	u.own, err = ownCPU()
	return u, err
}

// ownCPU returns how many seconds of processor time this process has used.
func ownCPU() (float64, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, err
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds(), nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
