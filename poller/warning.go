package poller

import (
	"strings"

	"github.com/rounds-dev/rounds/accounts"
)

// Warning is what was wrong with a third party's answer that brought its messages all the
// same. It counts against no account: it shows where one asks why an account is checked
// as it is, and in a metric.
type Warning struct {
	Code    string // short, stable, and one of few: "malformed"
	Message string // for people; never a secret, never a query string
}

// String is the code and the message, as they are kept.
func (w Warning) String() string { return w.Code + ": " + w.Message }

// warn counts what a check warns of, and returns it as it is kept; empty where there is
// nothing. Of each code there is one.
func (f *flight) warn(warnings []Warning) string {
	texts := make([]string, 0, len(warnings))
	told := make(map[string]bool, len(warnings))
	for _, w := range warnings {
		if told[w.Code] {
			continue
		}
		told[w.Code] = true
		f.flights.metrics.warnings.WithLabelValues(f.record.account.Kind, w.Code).Inc()
		texts = append(texts, w.String())
	}
	return strings.Join(texts, "; ")
}

// withWarnings is what is kept of an account, and what its check warns of.
func (f *flight) withWarnings(state string, warnings []Warning) string {
	if len(warnings) == 0 {
		return state
	}
	return accounts.WithWarning(state, f.warn(warnings))
}
