package poller

import (
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// Warning says what was wrong with a third party's answer whose messages could still be read.
// It does not count against the account. It shows in "rounds account why" and in a metric.
type Warning struct {
	Code    string // short, stable, and one of few: "malformed"
	Message string // for people; never a secret, never a query string
}

// String returns the code and the message, as they are kept.
func (w Warning) String() string { return w.Code + ": " + w.Message }

// warn counts the warnings of a check, and returns them as they are kept, one for each code.
func (f *flight) warn(warnings []Warning) string {
	texts := make([]string, 0, len(warnings))
	told := make(map[string]bool, len(warnings))
	for _, w := range warnings {
		if told[w.Code] {
			continue
		}
		told[w.Code] = true
		f.flights.metrics.warnings.WithLabelValues(f.record.account.Kind, w.Code).Inc()
		f.flights.warned.add(recentSort{f.record.account.Kind, w.Code}, time.Now())
		texts = append(texts, w.String())
	}
	return strings.Join(texts, "; ")
}

// withWarnings returns the account's state with the warnings of its check.
func (f *flight) withWarnings(state string, warnings []Warning) string {
	if len(warnings) == 0 {
		return state
	}
	return accounts.WithWarning(state, f.warn(warnings))
}
