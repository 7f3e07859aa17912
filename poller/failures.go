package poller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	failuresEach  = time.Minute // between two reports
	failuresApart = 1000        // sorts of failure that are counted separately meanwhile
	failuresTold  = 20          // sorts that get a line
	labelLength   = 128         // bytes
)

// failureSort is what the failures of one sort have in common.
type failureSort struct{ kind, code, host string }

// failureCount is the number of failures of one sort, with an example.
type failureCount struct {
	failureSort
	checks        int
	account, text string
}

// failures counts failed checks, so that the log reports thousands of them in a few lines a minute.
// It is bounded, because third parties decide how many codes there are.
type failures struct {
	mu     sync.Mutex
	counts map[failureSort]*failureCount
	others int // failures of further sorts
}

func newFailures() *failures { return &failures{counts: make(map[failureSort]*failureCount)} }

func (f *failures) add(sort failureSort, account, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts[sort]
	switch {
	case c != nil:
		c.checks++
	case len(f.counts) == failuresApart:
		f.others++
	default:
		f.counts[sort] = &failureCount{sort, 1, account, text}
	}
}

// take returns the counts since its last call, the most frequent first, and the number of other
// failed checks.
func (f *failures) take() (counts []*failureCount, others int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.counts {
		counts = append(counts, c)
	}
	slices.SortFunc(counts, func(a, b *failureCount) int {
		return cmp.Or(cmp.Compare(b.checks, a.checks), strings.Compare(a.kind, b.kind), strings.Compare(a.code, b.code), strings.Compare(a.host, b.host))
	})
	others = f.others
	clear(f.counts)
	f.others = 0
	if len(counts) > failuresTold {
		for _, c := range counts[failuresTold:] {
			others += c.checks
		}
		counts = counts[:failuresTold]
	}
	return counts, others
}

// tell logs and shows the counts once a minute.
func (f *failures) tell(ctx context.Context, log *slog.Logger, shown *prometheus.GaugeVec) {
	defer shown.Reset()
	for sleep(ctx, failuresEach) {
		counts, others := f.take()
		shown.Reset()
		for _, c := range counts {
			shown.WithLabelValues(labelOf(c.kind), labelOf(c.code), labelOf(c.host)).Add(float64(c.checks))
			log.Warn("checks fail", "kind", c.kind, "code", c.code, "host", c.host, "checks", c.checks, "for_example", c.account, "error", c.text)
		}
		if others > 0 {
			log.Warn("more checks fail, with other codes and hosts", "checks", others)
		}
	}
}

// labelOf cuts a third party's text to the length of a metric's label.
func labelOf(text string) string { return strings.ToValidUTF8(text[:min(len(text), labelLength)], "") }

// classOf returns the class of a failure. Third parties invent any number of codes, but there are
// few classes.
func classOf(err *CheckError) string {
	switch err.Code {
	case "dns", "connect", "tls", "timeout", "proxy", codeHung, codePanic:
		return err.Code
	}
	switch {
	case err.Kind == AuthFailed || err.Kind == Gone || err.Kind == ConfigInvalid || err.Kind == CursorInvalid || err.Kind == RateLimited:
		return string(err.Kind)
	case strings.HasPrefix(err.Code, "http_4"):
		return "http_4xx"
	case strings.HasPrefix(err.Code, "http_5"):
		return "http_5xx"
	case err.Kind == Protocol:
		return "parse"
	}
	return "other"
}
