// Package latest has the latest checks of accounts that somebody looks at.
//
// A poller remembers its latest checks, of all accounts together. A look asks pollers for those of one
// account: they report them within about a heartbeat, and further ones for ten minutes. At most 100
// accounts are looked at at once, and 20 checks of each are stored, until ten minutes after the last
// report. A report that Redis does not take leaves a gap. Pollers of earlier versions report nothing.
package latest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Most is how many checks of an account are stored.
const Most = document.MostChecks

// Check is how one check of an account went. It is stored as JSON. Fields may be added, and a check of
// an older version lacks some.
type Check struct {
	At       time.Time     `json:"at"` // when it ended, by Redis' clock
	Took     time.Duration `json:"took"`
	Outcome  string        `json:"outcome"`            // a mark; see accounts.MarkOK
	Error    string        `json:"error,omitempty"`    // what went wrong, cut to circulate.MaxError bytes
	Status   int           `json:"status,omitempty"`   // of the last answer over HTTP; 0: there was none, or it is another protocol
	Bytes    int64         `json:"bytes,omitempty"`    // of the bodies of all answers over HTTP, or all that was read by another protocol
	Messages int           `json:"messages,omitempty"` // that it found
}

// Checks has the latest checks of a namespace.
type Checks struct{ shared document.Checks }

// Of returns the latest checks of a ring's namespace.
func Of(ring *circulate.Ring) Checks { return Checks{document.Of(ring).Checks()} }

// Look returns the latest checks of an account since a time, as far as pollers reported them, the latest
// first, and asks pollers to report them. First says that nobody had asked before: the reports come
// within about a heartbeat.
func (c Checks) Look(ctx context.Context, account string, since time.Time) (all []Check, first bool, err error) {
	texts, first, err := c.shared.Look(ctx, account)
	for _, text := range texts {
		var one Check
		if json.Unmarshal(text, &one) == nil && !one.At.Before(since) {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b Check) int { return b.At.Compare(a.At) })
	return slices.Compact(all), first, err // a report may have been repeated
}

// Watched returns the accounts whose checks pollers report. It costs one command of Redis.
func (c Checks) Watched(ctx context.Context) ([]string, error) { return c.shared.Watched(ctx) }

// Report adds checks, by account, the latest one last.
func (c Checks) Report(ctx context.Context, all map[string][]Check) error {
	texts := make(map[string][][]byte, len(all))
	for id, checks := range all {
		for i := range checks {
			text, err := json.Marshal(&checks[i])
			if err != nil {
				return fmt.Errorf("report checks: %w", err)
			}
			texts[id] = append(texts[id], text)
		}
	}
	return c.shared.Report(ctx, texts)
}
