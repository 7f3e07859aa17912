package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const warmAtMost = 90 * time.Second

// pollerSubject is whole replicas, as the service runs them.
type pollerSubject struct {
	spec    spec
	ring    *circulate.Ring
	checker *counted
	metrics *prometheus.Registry
	before  *dto.Histogram // lateness when the measurement began
	end     context.CancelFunc
	running sync.WaitGroup
	failed  chan error
}

// counted is a checker that counts its checks.
type counted struct {
	poller.Checker
	checks atomic.Int64
}

// Check counts one that was answered.
func (c *counted) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	result, err := c.Checker.Check(ctx, r)
	if err == nil {
		c.checks.Add(1)
	}
	return result, err
}

// noop is a checker that does nothing and finds nothing.
type noop struct{}

func (noop) Kind() string                   { return "noop" }
func (noop) Validate(json.RawMessage) error { return nil }
func (noop) RateKey(json.RawMessage) string { return "" }
func (noop) Check(context.Context, poller.Request) (poller.Result, error) {
	return poller.Result{}, nil
}

// fill registers the accounts. A cadence with an interval finds its own phase; the first
// checks are spread over that interval.
func (p *pollerSubject) fill(ctx context.Context) error {
	server, err := connect.Open(p.spec.Redis, connect.Options{})
	if err != nil {
		return err
	}
	if p.ring, err = circulate.Open(ctx, server, circulate.Options{Namespace: p.spec.Namespace, Shards: p.spec.Shards}); err != nil {
		return err
	}
	p.checker = &counted{Checker: noop{}}
	if p.spec.URL != "" {
		p.checker.Checker = connector.New(fetch.New(fetch.Options{AllowPrivate: true}), secrets.Source{})
	}
	now, err := p.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	first, spread := time.Duration(0), time.Duration(0)
	if p.spec.Cadence == idleCadence {
		first, spread = time.Hour, time.Hour
	}
	text := func(n int) []byte { return record(n, p.spec.Bytes, p.checker.Kind(), p.spec.Cadence, p.spec.URL) }
	return register(ctx, p.ring, p.spec.Accounts, text, func(n int) time.Time {
		return now.Add(first + spread*time.Duration(n)/time.Duration(p.spec.Accounts))
	})
}

// start runs the replicas. If it should be warm, it waits until each account was checked
// once: its record is then known, as in a replica that has run for long.
func (p *pollerSubject) start(ctx context.Context, s settings) error {
	checkers, err := poller.NewCheckers(p.checker)
	if err != nil {
		return err
	}
	p.metrics = prometheus.NewRegistry()
	metrics := poller.NewMetrics(p.metrics)
	var running []func(context.Context) error
	if s.Monitor {
		m, err := monitor.New(p.ring, monitor.Config{}, monitor.Options{})
		if err != nil {
			return err
		}
		running = append(running, m.Run)
	}
	for range s.Servers {
		pool, err := poller.New(p.ring, checkers, poller.Config{Concurrency: s.Concurrency, RecordsKept: 2_000_000}, poller.Options{Metrics: metrics})
		if err != nil {
			return err
		}
		running = append(running, pool.Run)
	}
	working, end := context.WithCancel(ctx)
	p.end, p.failed = end, make(chan error, len(running))
	before := p.checker.checks.Load()
	for _, run := range running {
		p.running.Go(func() { p.failed <- run(working) })
	}
	if !s.Warm {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, warmAtMost)
	defer cancel()
	err = await(bounded, "each account was checked", func() (bool, error) {
		return p.checker.checks.Load()-before >= int64(p.spec.Accounts), nil
	})
	return errors.Join(err, pause(ctx, s.Settle))
}

func (p *pollerSubject) stop(context.Context) error {
	p.end()
	p.running.Wait()
	close(p.failed)
	for err := range p.failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// measure counts answered checks.
func (p *pollerSubject) measure(ctx context.Context, d time.Duration) (int64, error) {
	var err error
	if p.before, err = p.lateness(); err != nil {
		return 0, err
	}
	checks := p.checker.checks.Load()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	return p.checker.checks.Load() - checks, nil
}

// observe reports how late these checks were, and how much memory the process uses.
func (p *pollerSubject) observe() (map[string]float64, error) {
	after, err := p.lateness()
	if err != nil {
		return nil, err
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return map[string]float64{
		"heap_bytes":      float64(m.HeapAlloc),
		"lateness_p50_ms": 1000 * quantile(0.5, p.before, after),
		"lateness_p99_ms": 1000 * quantile(0.99, p.before, after),
	}, nil
}

// lateness is the pool's own histogram.
func (p *pollerSubject) lateness() (*dto.Histogram, error) {
	families, err := p.metrics.Gather()
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		if f.GetName() == "rounds_lateness_seconds" {
			return f.GetMetric()[0].GetHistogram(), nil
		}
	}
	return nil, fmt.Errorf("the poller has no rounds_lateness_seconds")
}

// quantile estimates a quantile of what was observed between two states of a histogram.
// Within a bucket it interpolates linearly, as Prometheus' histogram_quantile does.
func quantile(q float64, before, after *dto.Histogram) float64 {
	count := func(i int) float64 {
		n := float64(after.GetBucket()[i].GetCumulativeCount())
		if i < len(before.GetBucket()) {
			n -= float64(before.GetBucket()[i].GetCumulativeCount())
		}
		return n
	}
	rank := q * float64(after.GetSampleCount()-before.GetSampleCount())
	if rank == 0 {
		return 0
	}
	lower, below := 0.0, 0.0
	for i, b := range after.GetBucket() {
		n := count(i)
		if n >= rank {
			return lower + (b.GetUpperBound()-lower)*(rank-below)/max(1, n-below)
		}
		lower, below = b.GetUpperBound(), n
	}
	return math.Inf(1)
}
