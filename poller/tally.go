package poller

import (
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/history"
)

// tally counts what a replica did, in total and since its last report.
type tally struct {
	mu    sync.Mutex
	since time.Time
	now   history.Totals // since then
	ever  history.Totals // since the replica started, without those of now
	spent cadence.Spent  // since the replica started
}

func newTally(now time.Time) *tally { return &tally{since: now} }

func (t *tally) late(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Lateness.Add(d)
}

func (t *tally) checked(ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Checks++
	if !ok {
		t.now.Failures++
	}
}

// spend notes what a check spent of the budget of adaptive accounts.
func (t *tally) spend(s cadence.Spent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent = t.spent.Plus(s)
}

// spending returns what was spent since the replica started.
func (t *tally) spending() *cadence.Spent {
	t.mu.Lock()
	defer t.mu.Unlock()
	spent := t.spent
	return &spent
}

func (t *tally) found(messages int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Messages += uint64(max(0, messages))
}

// report returns the rates since the last report, and starts the next period. The totals go on.
func (t *tally) report(now time.Time) accounts.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := max(now.Sub(t.since).Seconds(), 1e-3)
	t.ever = t.ever.Plus(t.now)
	ever := t.ever
	r := accounts.Report{
		ChecksPerSecond:   float64(t.now.Checks) / seconds,
		FailuresPerSecond: float64(t.now.Failures) / seconds,
		MessagesPerSecond: float64(t.now.Messages) / seconds,
		LatenessP50:       t.now.Lateness.Quantile(0.5),
		LatenessP99:       t.now.Lateness.Quantile(0.99),
		Totals:            &ever,
	}
	t.since, t.now = now, history.Totals{}
	return r
}
