package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// outageBench measures what the accounts of one host do while it is down, and how soon all are
// checked when it is back.
type outageBench struct {
	report   reporter
	accounts int
	interval time.Duration // between two checks of an account
	length   time.Duration // of the outage
	limit    string        // of the host
	pools    int
}

// flags adds the bench's own settings.
func (b *outageBench) flags(set *flag.FlagSet) {
	set.DurationVar(&b.length, "for", time.Minute, "how long the host is down")
	set.DurationVar(&b.interval, "every", 10*time.Second, "how often each account is checked")
	set.StringVar(&b.limit, "limit", "rate=2000/s", "the host's limit")
	set.IntVar(&b.pools, "replicas", 2, "how many replicas share the accounts")
}

// frail is a checker whose one host can be down. It counts calls, and notes which accounts were
// checked since the host is back.
type frail struct {
	sleeper
	mu    sync.Mutex
	down  bool
	calls int
	back  time.Time           // the first success since the host is back
	seen  map[string]struct{} // accounts checked since then
	all   int
	done  chan struct{} // closed when all are
}

func (*frail) RateKey(json.RawMessage) string { return "host" }

func (f *frail) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.down {
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "connect", Message: "connection refused"}
	}
	if f.seen == nil {
		return poller.Result{}, nil
	}
	if f.back.IsZero() {
		f.back = time.Now()
	}
	if f.seen[r.Account] = struct{}{}; len(f.seen) == f.all && f.all > 0 {
		f.all = 0
		close(f.done)
	}
	return poller.Result{}, nil
}

// turn takes the host down or brings it back, and returns the calls since the last turn.
func (f *frail) turn(down bool, all int) (calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls, f.calls = f.calls, 0
	if f.down = down; !down {
		f.seen, f.all, f.done = make(map[string]struct{}, all), all, make(chan struct{})
	}
	return calls
}

func (b *outageBench) run(ctx context.Context) error {
	_, server, stopRedis, err := startRedis()
	if err != nil {
		return err
	}
	defer stopRedis()
	fleet := &cadenceBench{accounts: b.accounts, interval: b.interval}
	ring, err := fleet.fill(ctx, server, 2*time.Second, b.interval)
	if err != nil {
		return err
	}
	limits, err := poller.ParseLimits("sleep/* "+b.limit, nil)
	if err != nil {
		return err
	}
	host := &frail{}
	stop, err := start(ring, host, b.pools, poller.Config{Concurrency: 256, Limits: limits}, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second+2*b.interval); err != nil {
		return err
	}
	host.turn(true, 0)
	if err := pause(ctx, b.length); err != nil {
		return err
	}
	ended := time.Now()
	b.report.figure("outage_calls", float64(host.turn(false, b.accounts)), "calls while the host was down")
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.interval + 10*time.Minute):
		return errors.New("outage: not all accounts were checked in ten minutes")
	case <-host.done:
	}
	all := time.Now()
	b.report.figure("outage_first_success_s", host.back.Sub(ended).Seconds(), "s after the end")
	b.report.figure("outage_all_checked_s", all.Sub(ended).Seconds(), "s after the end")
	b.report.figure("outage_all_after_first_s", all.Sub(host.back).Seconds(), "s after the first success")
	return stop()
}
