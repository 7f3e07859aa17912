package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/telemetry"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/span"
)

const (
	interval   = time.Minute
	checkTakes = 50 * time.Millisecond
	settle     = time.Minute
	idleFor    = 30 * time.Second
	idlers     = 3
)

// cadenceBench measures whole replicas: how late checks are under load, and what idle
// replicas cost.
type cadenceBench struct {
	report   reporter
	length   time.Duration
	accounts int
	interval time.Duration // between two checks of an account under load
	pools    int           // replicas under load
	only     string        // "idle" or "load": measure that alone
	commands io.Writer     // where commands by name are printed; nil: nowhere
}

// flags adds the bench's own settings.
func (b *cadenceBench) flags(set *flag.FlagSet) {
	set.DurationVar(&b.length, "for", 5*time.Minute, "how long the load is measured, after a minute to settle")
	set.DurationVar(&b.interval, "every", interval, "how often each account is checked under load")
	set.IntVar(&b.pools, "replicas", 1, "how many replicas share the load")
	set.StringVar(&b.only, "only", "", "measure this alone: idle or load")
	set.BoolFunc("commands", "print on standard error how often each command was run", func(string) error {
		b.commands = os.Stderr
		return nil
	})
}

func (b *cadenceBench) validate() error {
	if b.accounts < 1 || b.pools < 1 || b.interval < time.Second || b.length < 2*time.Second {
		return errors.New("accounts and replicas must be at least 1, every a second, and for 2 s")
	}
	if b.only != "" && b.only != "idle" && b.only != "load" {
		return errors.New("only must be idle or load")
	}
	return nil
}

// args are those of one run with the same settings. The defaults are left out, because another
// build may not know them.
func (b *cadenceBench) args() []string {
	args := []string{"cadence", "--json", "--for", b.length.String(), "--accounts", strconv.Itoa(b.accounts)}
	if b.interval != interval {
		args = append(args, "--every", b.interval.String())
	}
	if b.pools != 1 {
		args = append(args, "--replicas", strconv.Itoa(b.pools))
	}
	if b.only != "" {
		args = append(args, "--only", b.only)
	}
	return args
}

func (b *cadenceBench) run(ctx context.Context) error {
	if b.only != "load" {
		if err := b.idle(ctx); err != nil {
			return err
		}
	}
	if b.only == "idle" {
		return nil
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
			Record: fmt.Appendf(nil, `{"id":%q,"kind":"sleep","cadence":"every %s"}`, id, b.interval),
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

// start runs pools and one monitor until the returned function is called. Traces are exported if
// variables of OpenTelemetry ask for it, as the service does.
func start(ring *circulate.Ring, checker poller.Checker, pools int, config poller.Config, metrics *poller.Metrics) (stop func() error, err error) {
	checkers, err := poller.NewCheckers(checker)
	if err != nil {
		return nil, err
	}
	m, err := monitor.New(ring, monitor.Config{}, monitor.Options{})
	if err != nil {
		return nil, err
	}
	var spans span.Recorder
	closeSpans := func() {}
	if telemetry.Asked(os.LookupEnv) {
		recorder, err := telemetry.Open(context.Background(), telemetry.Options{Version: "bench", Instance: "bench", Log: slog.Default()})
		if err != nil {
			return nil, err
		}
		spans, closeSpans = recorder, recorder.Close
	}
	config.RecordsKept = 2_000_000
	running := []func(context.Context) error{m.Run}
	for range pools {
		p, err := poller.New(ring, checkers, config, poller.Options{Metrics: metrics, Spans: spans})
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
		closeSpans()
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
	stop, err := start(ring, sleeper{}, idlers, poller.Config{Concurrency: 256}, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	before, err := b.sample(server, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, idleFor); err != nil {
		return err
	}
	after, err := b.sample(server, nil)
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	b.report.figure("idle_commands_per_s", (after.commands-before.commands)/seconds, "commands/s")
	b.report.figure("idle_redis_cpu_share", 100*(after.redis-before.redis)/seconds, "% of a core")
	b.report.figure("idle_replicas_cpu_share", 100*(after.own-before.own)/seconds, "% of a core, three replicas and a monitor")
	b.tell("idle", before, after)
	return stop()
}

// load has replicas check every account once in each interval.
func (b *cadenceBench) load(ctx context.Context) error {
	_, server, stopRedis, err := startRedis()
	if err != nil {
		return err
	}
	defer stopRedis()
	// Registering takes a while: the first accounts are not due before it ends.
	first := max(b.interval/2, time.Duration(b.accounts)*30*time.Microsecond)
	ring, err := b.fill(ctx, server, first, b.interval)
	if err != nil {
		return err
	}
	perSecond := float64(b.accounts) / b.interval.Seconds()
	registry := prometheus.NewRegistry()
	stop, err := start(ring, sleeper{}, b.pools, poller.Config{Concurrency: max(256, int(3*perSecond*checkTakes.Seconds())/b.pools)}, poller.NewMetrics(registry))
	if err != nil {
		return err
	}
	if err := pause(ctx, first+min(b.interval, settle)); err != nil {
		return err
	}
	before, err := b.sample(server, registry)
	if err != nil {
		return err
	}
	var rates []float64
	var windows []lateness
	for end := time.Now().Add(b.length); time.Now().Before(end); {
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		reports, err := reports(ctx, ring)
		if err != nil {
			return err
		}
		rate := 0.0
		for _, r := range reports {
			windows = append(windows, lateness{r.LatenessP50, r.LatenessP99})
			rate += r.ChecksPerSecond
		}
		rates = append(rates, rate)
	}
	after, err := b.sample(server, registry)
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	checks := after.claimed - before.claimed
	b.report.figure("checks_per_s", median(rates), "checks/s")
	b.report.lateness("", windows, "")
	b.report.figure("redis_cpu_share", 100*(after.redis-before.redis)/seconds, "% of a core")
	b.report.figure("replica_cpu_share", 100*(after.own-before.own)/seconds, "% of a core")
	b.report.figure("redis_commands_per_s", (after.commands-before.commands)/seconds, "commands/s, those of scripts among them")
	b.report.figure("redis_commands_per_check", (after.commands-before.commands)/checks, "commands, those of scripts among them")
	b.report.figure("redis_us_per_check", 1e6*(after.redis-before.redis)/checks, "µs")
	b.report.figure("accounts_per_claim", checks/(after.claims-before.claims), "accounts")
	b.report.figure("steps_per_100_checks", 100*(after.steps["evalsha"].calls-before.steps["evalsha"].calls)/checks, "scripts run")
	b.tell("load", before, after)
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

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
