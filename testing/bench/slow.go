package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

const (
	slowAnswer  = 5 * time.Second // of the slow host
	wellAnswer  = 50 * time.Millisecond
	wellHosts   = 500
	slowLimit   = "rate=2/s burst=2 concurrency=2" // as the kind feed has it by default
	slowEvery   = "1m"
	wellEvery   = "10s"
	slowTimeout = 30 * time.Second // of a check, by default
)

// slowBench measures how late the accounts of well hosts are beside a crowd at one slow host.
type slowBench struct {
	report reporter
	crowd  int // accounts at the slow host
	well   int // accounts at the others
	length time.Duration
	settle time.Duration
	only   string
}

// flags adds the bench's own settings.
func (b *slowBench) flags(set *flag.FlagSet) {
	set.DurationVar(&b.length, "for", time.Minute, "how long lateness is measured in each run")
	set.DurationVar(&b.settle, "settle", time.Minute, "how long each run settles before")
	set.IntVar(&b.well, "well", 5000, "accounts at well hosts, each checked every "+wellEvery)
	set.StringVar(&b.only, "only", "", "these runs alone, such as control,slow: control, slow, hangs, slow_unlimited, hangs_unlimited")
}

// slowRun is one run: what the one host does, and whether it has a limit.
type slowRun struct {
	name    string
	answers time.Duration // of the slow host; zero: no account is there
	limit   string
}

func (b *slowBench) run(ctx context.Context) error {
	all := []slowRun{
		{"control", 0, slowLimit},
		{"slow", slowAnswer, slowLimit},
		{"hangs", time.Hour, slowLimit},
		{"slow_unlimited", slowAnswer, ""},
		{"hangs_unlimited", time.Hour, ""},
	}
	for _, one := range all {
		if b.only != "" && !slices.Contains(strings.Split(b.only, ","), one.name) {
			continue
		}
		if err := b.measure(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// measure does one run, on a Redis of its own.
func (b *slowBench) measure(ctx context.Context, one slowRun) error {
	_, server, stopRedis, err := startRedis()
	if err != nil {
		return err
	}
	defer stopRedis()
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return err
	}
	if err := b.fill(ctx, ring, one); err != nil {
		return err
	}
	var limits poller.Limits
	if one.limit != "" {
		if limits, err = poller.ParseLimits("sleep/slow "+one.limit, nil); err != nil {
			return err
		}
	}
	hosts := &slowHosts{answers: one.answers, last: make(map[string]time.Time, b.well)}
	if hosts.every, err = cadence.Parse("every " + wellEvery); err != nil {
		return err
	}
	stop, err := start(ring, hosts, 1, poller.Config{CheckTimeout: slowTimeout, Limits: limits}, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, b.settle); err != nil {
		return err
	}
	hosts.turn()
	if err := pause(ctx, b.length); err != nil {
		return err
	}
	late, calls, never := hosts.turn()
	for range b.well - len(hosts.last) + never {
		late = append(late, b.length.Seconds()) // not once in the whole time
	}
	b.report.figure(one.name+"_checks_per_s", float64(len(late))/b.length.Seconds(), "checks/s at well hosts")
	b.report.figure(one.name+"_slow_calls_per_s", float64(calls)/b.length.Seconds(), "calls/s of the slow host")
	b.report.quantile(one.name+"_p%.0f_lateness_ms", scaled(late, 1000), 0.5, "ms, at well hosts")
	b.report.quantile(one.name+"_p%.0f_lateness_ms", scaled(late, 1000), 0.99, "ms")
	b.report.figure(one.name+"_worst_lateness_ms", 1000*slices.Max(late), "ms")
	return stop()
}

func scaled(all []float64, by float64) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = by * v
	}
	return out
}

// fill registers the accounts, each due at some time within its interval.
func (b *slowBench) fill(ctx context.Context, ring *circulate.Ring, one slowRun) error {
	now, err := ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	shards := make([][]circulate.Registration, ring.Shards())
	add := func(count int, host func(int) string, every string) {
		for i := range count {
			id := fmt.Sprintf("%s/%06d", host(i), i)
			shard := ring.ShardOf(id)
			interval, _ := time.ParseDuration(every) // a constant
			shards[shard] = append(shards[shard], circulate.Registration{
				ID:     id,
				Record: fmt.Appendf(nil, `{"id":%q,"kind":"sleep","config":{"host":%q},"cadence":"every %s"}`, id, host(i), every),
				Due:    now.Add(5*time.Second + interval*time.Duration(i)/time.Duration(count)),
			})
		}
	}
	add(b.well, func(i int) string { return fmt.Sprintf("well%03d", i%wellHosts) }, wellEvery)
	if one.answers > 0 {
		add(b.crowd, func(int) string { return "slow" }, slowEvery)
	}
	return eachShard(ring, func(shard int) error {
		for items := range slices.Chunk(shards[shard], 500) {
			if _, err := ring.Register(ctx, shard, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// slowHosts is a checker with many well hosts and a slow one. It notes how late the checks at the
// well ones start.
type slowHosts struct {
	sleeper
	answers time.Duration
	every   cadence.Cadence

	mu    sync.Mutex
	last  map[string]time.Time // when each account was last checked at a well host
	late  []float64            // seconds
	calls int                  // of the slow host
	began time.Time
}

func (*slowHosts) RateKey(config json.RawMessage) string {
	var of struct{ Host string }
	_ = json.Unmarshal(config, &of) // the bench wrote it
	return of.Host
}

func (h *slowHosts) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	takes := wellAnswer
	if h.RateKey(r.Config) == "slow" {
		takes = h.answers
	}
	h.note(r.Account, takes != wellAnswer)
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Network: true, Code: "timeout", Message: "no answer came in time"}
	case <-timer.C:
		return poller.Result{}, nil
	}
}

func (h *slowHosts) note(id string, slow bool) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if slow {
		h.calls++
		return
	}
	if last, ok := h.last[id]; ok {
		due, _ := h.every.After(id, last, cadence.State{})
		h.late = append(h.late, max(0, now.Sub(due).Seconds()))
	}
	h.last[id] = now
}

// turn returns what was noted since the last turn, and how many accounts were last checked before it.
func (h *slowHosts) turn() (late []float64, calls, never int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, last := range h.last {
		if last.Before(h.began) {
			never++
		}
	}
	late, h.late, calls, h.calls, h.began = h.late, nil, h.calls, 0, time.Now()
	return late, calls, never
}
