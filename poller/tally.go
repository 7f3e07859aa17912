package poller

import (
	"math"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// tally counts what a replica did since its last report.
type tally struct {
	mu       sync.Mutex
	since    time.Time
	checks   int
	failures int
	messages int
	lateness [latenessBuckets]int
}

// Lateness is counted in buckets. Their bounds begin at a millisecond and grow by the root of
// two, so a reported quantile exceeds the true one by at most that factor.
const latenessBuckets = 60

func newTally(now time.Time) *tally { return &tally{since: now} }

func (t *tally) late(d time.Duration) {
	bucket := 0
	if ms := float64(d) / float64(time.Millisecond); ms > 1 {
		bucket = min(latenessBuckets-1, int(math.Ceil(2*math.Log2(ms))))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lateness[bucket]++
}

func (t *tally) checked(ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checks++
	if !ok {
		t.failures++
	}
}

func (t *tally) found(messages int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages += messages
}

// report returns the rates since the last report and begins anew.
func (t *tally) report(now time.Time) accounts.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := max(now.Sub(t.since).Seconds(), 1e-3)
	r := accounts.Report{
		ChecksPerSecond:   float64(t.checks) / seconds,
		FailuresPerSecond: float64(t.failures) / seconds,
		MessagesPerSecond: float64(t.messages) / seconds,
		LatenessP50:       t.quantile(0.5),
		LatenessP99:       t.quantile(0.99),
	}
	t.since, t.checks, t.failures, t.messages = now, 0, 0, 0
	clear(t.lateness[:])
	return r
}

// quantile returns the upper bound, in seconds, of the bucket that has the quantile.
func (t *tally) quantile(q float64) float64 {
	all := 0
	for _, n := range t.lateness {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(all)))
	for bucket, n := range t.lateness {
		if rank -= n; rank <= 0 {
			return math.Exp2(float64(bucket)/2) / 1000
		}
	}
	return 0
}
