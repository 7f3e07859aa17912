package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	fetchSpace = "fetch"
	fetchSpare = 400              // files that a process needs besides its connections
	fetchLoad  = 0.8              // of the most checks a second, for lateness
	fetchWait  = 10 * time.Minute // the longest that any part of it may take
)

// fetchBench measures one replica that checks feeds and connectors over HTTP/1.1 and TLS, beside
// a plain loop that makes the same calls. Both have the same core, in turns.
type fetchBench struct {
	report   reporter
	length   time.Duration
	accounts int
	hosts    int
	rounds   int
	profile  string

	redis     *redistest.Server
	server    *connect.Single
	ring      *circulate.Ring
	authority string // the file of the fake's certificate authority

	fake, loop, replica *fetchChild
	next                int // the account at which the next pass begins
}

// fetchMain reads what bench fetch is called with, and runs it.
func fetchMain(ctx context.Context, flags *flag.FlagSet, args []string, accounts *int, asJSON *bool, out io.Writer) error {
	b := &fetchBench{}
	flags.DurationVar(&b.length, "for", 40*time.Second, "how long lateness is measured at most")
	flags.IntVar(&b.hosts, "hosts", 5000, "addresses that the accounts are fetched from")
	flags.IntVar(&b.rounds, "rounds", 3, "how often the replica and the plain loop are measured, in turns; medians are printed")
	flags.StringVar(&b.profile, "profile", "", "write a CPU profile of the replica to this file, and beside it one of its allocations, and both of the loop")
	other := flags.String("against", "", "another build of this program, to compare with: both run in turns, four times")
	flags.Lookup("accounts").DefValue = "100000"
	if err := flags.Set("accounts", "100000"); err != nil {
		return err
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.accounts = *accounts
	if b.hosts < 1 || b.accounts < 2*b.hosts || b.rounds < 1 || b.length < 8*time.Second {
		return errors.New("hosts and rounds must be at least 1, accounts twice the hosts, and the time eight seconds")
	}
	var err error
	if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
		return err
	}
	if *other != "" {
		one := []string{"fetch", "--json", "--for", b.length.String(), "--accounts", fmt.Sprint(b.accounts), "--hosts", fmt.Sprint(b.hosts), "--rounds", fmt.Sprint(b.rounds)}
		return (&against{report: b.report, other: *other, args: one, pairs: 4}).run(ctx)
	}
	return b.run(ctx)
}

func (b *fetchBench) run(ctx context.Context) error {
	var err error
	// The fake has the connections of the replica and of the loop, some hosts with several.
	if b.hosts, err = fitFiles(b.hosts, "hosts", func(files int) int { return (files - fetchSpare) / 3 }); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rounds-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var stop func()
	if b.redis, b.server, stop, err = startRedis(); err != nil {
		return err
	}
	defer stop()
	if b.ring, err = circulate.Open(ctx, b.server, circulate.Options{Namespace: fetchSpace}); err != nil {
		return err
	}
	b.authority = filepath.Join(dir, "authority.pem")
	defer func() {
		for _, c := range []*fetchChild{b.replica, b.loop, b.fake} {
			c.stop()
		}
	}()
	if err := b.start(ctx); err != nil {
		return err
	}
	b.report.figure("fetch_accounts", float64(b.accounts), "feeds and connectors")
	b.report.figure("fetch_hosts", float64(b.hosts), "hosts")
	if err := b.warm(ctx); err != nil {
		return err
	}
	most, err := b.compare(ctx)
	if err != nil {
		return err
	}
	if err := b.late(ctx, most); err != nil {
		return err
	}
	failures, err := b.failures(ctx)
	if err == nil && failures > 0 {
		err = fmt.Errorf("%d checks failed", failures)
	}
	return err
}

func (b *fetchBench) start(ctx context.Context) (err error) {
	if b.fake, err = startFetch(ctx, "fetchfake", elsewhere, b.redis.URL(), b.authority); err != nil {
		return err
	}
	var at fetchAddress
	if err := b.fake.ask("where", &at); err != nil {
		return err
	}
	hosts := fmt.Sprint(b.hosts)
	if b.loop, err = startFetch(ctx, "fetchloop", oneCore, b.redis.URL(), b.authority, "--port", fmt.Sprint(at.Port), "--hosts", hosts, "--accounts", fmt.Sprint(b.accounts), "--profile", b.loopProfile()); err != nil {
		return err
	}
	if b.replica, err = startFetch(ctx, "fetchserve", oneCore, b.redis.URL(), b.authority, "--profile", b.profile); err != nil {
		return err
	}
	return b.register(ctx, at.Port)
}

// loopProfile returns the file of the loop's profile; empty: there is none.
func (b *fetchBench) loopProfile() string {
	if b.profile == "" {
		return ""
	}
	return b.profile + ".loop"
}

// warm has every account checked once and every connection made, and measures what those cost
// that are kept.
func (b *fetchBench) warm(ctx context.Context) error {
	if err := b.settled(ctx, b.accounts); err != nil {
		return err
	}
	// All hosts have a connection now, some several: what one takes is measured with one each.
	if err := b.replica.ask("close", nil); err != nil {
		return err
	}
	var empty, full fetchMemory
	if err := b.replica.ask("memory", &empty); err != nil {
		return err
	}
	if err := b.pass(ctx, b.hosts, b.hosts, 4*time.Second); err != nil {
		return err
	}
	if err := b.replica.ask("memory", &full); err != nil {
		return err
	}
	var stats fetchStats
	if err := b.fake.ask("stats", &stats); err != nil {
		return err
	}
	b.report.figure("fetch_kept_connections", float64(stats.Open), "connections that stay open")
	b.report.figure("fetch_kib_per_host", (full.Bytes-empty.Bytes)/1024/float64(b.hosts), "KiB of the idle replica")
	return b.loop.ask(fmt.Sprint("call ", b.hosts), &fetchUsed{})
}

// compare measures the replica and the loop in turns, and returns the most checks a second.
func (b *fetchBench) compare(ctx context.Context) (most float64, err error) {
	n := b.accounts / 2
	if b.profile != "" {
		if err := errors.Join(b.loop.ask("profile", nil), b.replica.ask("profile", nil)); err != nil {
			return 0, err
		}
	}
	var checks, calls, ratios, rates, checkAllocs, callAllocs, redisCPU []float64
	for round := range b.rounds {
		var loop, replica fetchUsed
		both := []func() error{
			func() error { return b.loop.ask(fmt.Sprint("call ", n), &loop) },
			func() (err error) { replica, err = b.check(ctx, n, &redisCPU); return err },
		}
		if round%2 == 1 {
			slices.Reverse(both)
		}
		for _, one := range both {
			if err := one(); err != nil {
				return 0, err
			}
		}
		checks, calls = append(checks, float64(n)/replica.CPU), append(calls, float64(n)/loop.CPU)
		ratios, rates = append(ratios, loop.CPU/replica.CPU), append(rates, float64(n)/replica.Seconds)
		checkAllocs, callAllocs = append(checkAllocs, replica.Mallocs/float64(n)), append(callAllocs, loop.Mallocs/float64(n))
	}
	b.report.figure("fetch_checks_per_core_s", median(checks), "checks for each second of the replica's processor")
	b.report.figure("fetch_plain_loop_per_core_s", median(calls), "calls for each second of the loop's")
	b.report.figure("fetch_vs_plain_loop", median(ratios), "×")
	b.report.figure("fetch_allocations_per_check", median(checkAllocs), "allocations of the replica")
	b.report.figure("fetch_plain_loop_allocations_per_call", median(callAllocs), "allocations of the loop")
	b.report.figure("fetch_redis_us_per_check", median(redisCPU)*1e6, "µs of Redis")
	b.report.figure("fetch_checks_per_s", median(rates), "checks/s at most, on one core")
	return median(rates), nil
}

// check has so many accounts checked as fast as the replica can.
func (b *fetchBench) check(ctx context.Context, n int, redisCPU *[]float64) (used fetchUsed, err error) {
	var before, after fetchUsed
	redisBefore, err := usedCPU(b.server)
	if err != nil {
		return used, err
	}
	if err := b.replica.ask("used", &before); err != nil {
		return used, err
	}
	began := time.Now()
	if err := b.pass(ctx, n, b.accounts, 0); err != nil {
		return used, err
	}
	used.Seconds = time.Since(began).Seconds()
	if err := b.replica.ask("used", &after); err != nil {
		return used, err
	}
	redisAfter, err := usedCPU(b.server)
	*redisCPU = append(*redisCPU, (redisAfter-redisBefore)/float64(n))
	used.CPU, used.Mallocs = after.CPU-before.CPU, after.Mallocs-before.Mallocs
	return used, err
}

// late measures how late checks start when there is some room.
func (b *fetchBench) late(ctx context.Context, most float64) error {
	rate := fetchLoad * most
	n := min(b.accounts, int(rate*b.length.Seconds()))
	ended := make(chan error, 1)
	go func() { ended <- b.pass(ctx, n, b.accounts, time.Duration(float64(n)/rate*float64(time.Second))) }()
	var windows []lateness
	for {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			if len(windows) == 0 {
				return errors.New("it did not last long enough to see lateness")
			}
			if n := len(windows); n > 2 {
				windows = windows[1 : n-1] // the others are not whole
			}
			b.report.lateness("fetch_", windows, ", at four fifths of the most")
			return nil
		case <-time.After(2 * time.Second):
		}
		all, err := reports(ctx, b.ring)
		if err != nil {
			return err
		}
		for _, r := range all {
			windows = append(windows, lateness{r.LatenessP50, r.LatenessP99})
		}
	}
}
