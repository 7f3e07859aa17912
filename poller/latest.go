package poller

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/latest"
	"github.com/rounds-dev/rounds/circulate"
)

// mostLatest is how many checks of all accounts a replica remembers.
const mostLatest = 4096

// latestChecks are the latest checks of the replica. Those of accounts that somebody looks at are reported
// as often as there is a heartbeat; see package latest. What Redis does not take is lost, and checks go on.
type latestChecks struct {
	shared latest.Checks
	log    *slog.Logger
	errors prometheus.Counter

	mu      sync.Mutex
	all     []ranCheck // of all accounts; once it is full, next is the oldest
	next    int
	watched map[string][]ranCheck // the accounts that somebody looks at, with what is not reported yet
}

// ranCheck is a check of an account.
type ranCheck struct {
	account string
	mark    circulate.Mark // in place of the outcome
	latest.Check
}

// reported returns the check as it is reported.
func (c *ranCheck) reported() latest.Check {
	c.Outcome = accounts.MarkWord(c.mark)
	return c.Check
}

func newLatest(ring *circulate.Ring, log *slog.Logger, m *Metrics) *latestChecks {
	return &latestChecks{shared: latest.Of(ring), log: log, errors: m.redisErrors.WithLabelValues("checks")}
}

// add notes a check.
func (l *latestChecks) add(c ranCheck) {
	if len(c.Error) > circulate.MaxError {
		c.Error = strings.Clone(strings.ToValidUTF8(c.Error[:circulate.MaxError], "")) // the whole may be long
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) < mostLatest {
		l.all = append(l.all, c)
	} else {
		l.all[l.next] = c
		l.next = (l.next + 1) % mostLatest
	}
	if waiting, ok := l.watched[c.account]; ok {
		l.watched[c.account] = lastOf(append(waiting, c))
	}
}

// lastOf returns the last checks, as many as are reported.
func lastOf[C any](all []C) []C { return all[max(0, len(all)-latest.Most):] }

// run reports after each interval, until ctx is done.
func (l *latestChecks) run(ctx context.Context, interval time.Duration) {
	for sleep(ctx, interval) {
		l.report(ctx)
	}
}

// report asks which accounts somebody looks at, and reports their checks: of an account that is looked
// at since a moment all that the replica remembers, of others what is new.
func (l *latestChecks) report(ctx context.Context) {
	ids, err := l.shared.Watched(ctx)
	if err == nil {
		if all := l.take(ids); len(all) > 0 {
			err = l.shared.Report(ctx, all)
		}
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	l.errors.Inc()
	l.log.Debug("checks of accounts that somebody looks at were not reported", "error", err)
	l.mu.Lock()
	l.watched = nil // the next report has all again
	l.mu.Unlock()
}

// take returns the checks to report, by account, when these are the accounts that somebody looks at.
func (l *latestChecks) take(ids []string) map[string][]latest.Check {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(ids) == 0 {
		l.watched = nil
		return nil
	}
	all, before := make(map[string][]latest.Check), l.watched
	l.watched = make(map[string][]ranCheck, len(ids))
	fresh := make(map[string]bool)
	for _, id := range ids {
		l.watched[id] = nil
		waiting, known := before[id]
		fresh[id] = !known
		for i := range waiting {
			all[id] = append(all[id], waiting[i].reported())
		}
	}
	for i := range l.all {
		if one := &l.all[(l.next+i)%len(l.all)]; fresh[one.account] {
			all[one.account] = lastOf(append(all[one.account], one.reported()))
		}
	}
	return all
}

// answers are what third parties answered to the calls of a check.
type answers struct{ status, bytes atomic.Int64 }

type answersKey struct{}

// Answered says that a third party has answered a call of a check with a status of HTTP and a body of
// so many bytes, for people who look at the account. In a protocol other than HTTP the status is 0, and the
// bytes are what was read since the last time. ctx is the context of Checker.Check, or derived from it.
// Package fetch says so itself, except of connections that Client.Dial has made.
func Answered(ctx context.Context, status, bytes int) {
	if a, ok := ctx.Value(answersKey{}).(*answers); ok {
		if status != 0 {
			a.status.Store(int64(status))
		}
		a.bytes.Add(int64(bytes))
	}
}

// ran notes how the check went, with the messages that it found. mark is one of package accounts.
func (f *flight) ran(mark circulate.Mark, failure string, messages int) {
	c := ranCheck{account: f.claim.ID, mark: mark, Check: latest.Check{
		At: f.now(), Error: failure, Messages: messages, Status: int(f.answers.status.Swap(0)), Bytes: f.answers.bytes.Swap(0),
	}}
	if !f.called.IsZero() {
		c.Took, f.called = time.Since(f.called), time.Time{}
	}
	f.flights.latest.add(c)
}
