// Package maintenance has the maintenance windows: times in which the failures of some accounts
// count against none, because somebody works on what they are checked at. Windows are shared by all
// replicas and end by themselves.
//
// In a window checks go on. A check that fails costs no retry, parks nothing, and is not among the
// failing accounts; see accounts.MarkMaintenance. What the failures did before the window stays, and
// the first failure after it counts. Replicas of versions without windows count them as ever.
package maintenance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// Most is how many windows a namespace may have.
	Most = document.MostTerms
	// Longest is the longest window.
	Longest = 30 * 24 * time.Hour
	// Ahead is how long before its begin a window can be stored.
	Ahead = 90 * 24 * time.Hour
	// MaxReason is the most bytes of a reason.
	MaxReason = 512

	maxName, maxHost = 64, 255
)

var (
	// ErrFull reports that there are as many windows as there may be.
	ErrFull = errors.New("maintenance: there are as many windows as there may be")

	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// Window is a maintenance window. Its times are by Redis' clock. It is stored as JSON. Fields may be
// added, and a window of an older version lacks some.
type Window struct {
	Name   string            `json:"-"`
	Host   string            `json:"host,omitempty"`   // as accounts.WhereOf has it; a port may be left out; empty: any
	Labels map[string]string `json:"labels,omitempty"` // the account has all of these
	From   time.Time         `json:"from"`
	Until  time.Time         `json:"until"`
	Reason string            `json:"reason"`
	By     string            `json:"by,omitempty"` // who stored it
}

// Validate returns all faults of a window that somebody stores now.
func (w *Window) Validate(now time.Time) error {
	var faults accounts.Faults
	if len(w.Name) > maxName || !namePattern.MatchString(w.Name) {
		faults.Add("name", fmt.Sprintf("must be 1 to %d letters, digits, dots, dashes or underscores", maxName))
	}
	if w.Host == "" && len(w.Labels) == 0 {
		faults.Add("host", "missing: give a host, or labels, so that it is known whose failures do not count")
	}
	if len(w.Host) > maxHost || strings.ContainsAny(w.Host, "/@ ") {
		faults.Add("host", "must be a host or a corporation, as rounds problems shows it, such as news.example.org")
	}
	if len(w.Labels) > accounts.MaxLabels {
		faults.Add("labels", fmt.Sprintf("must be at most %d, are %d", accounts.MaxLabels, len(w.Labels)))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Labels)) {
		if name == "" || len(name) > accounts.MaxLabel || len(w.Labels[name]) > accounts.MaxLabel {
			faults.Add("labels", fmt.Sprintf("must have names of 1 to %d bytes and values of at most as many", accounts.MaxLabel))
			break
		}
	}
	if reason := strings.TrimSpace(w.Reason); reason == "" || len(reason) > MaxReason {
		faults.Add("reason", fmt.Sprintf("must have 1 to %d bytes: say why, for those who see it", MaxReason))
	}
	switch {
	case w.From.After(now.Add(Ahead)):
		faults.Add("from", "must be within 90 days")
	case !w.Until.After(w.From) || !w.Until.After(now):
		faults.Add("until", "must be after the begin, and in the future")
	case w.Until.Sub(w.From) > Longest:
		faults.Add("until", "must be at most 30 days after the begin")
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Open reports whether the window is under way.
func (w *Window) Open(now time.Time) bool { return !now.Before(w.From) && now.Before(w.Until) }

// Covers reports whether an account is among those that the window is about. where is what
// accounts.WhereOf returns for it, and shared what it shares with others by its rate key.
func (w *Window) Covers(a *accounts.Account, where, shared string) bool {
	if w.Host == "" && len(w.Labels) == 0 {
		return false // of a later version: what it is about is unknown
	}
	for name, value := range w.Labels {
		if has, ok := a.Labels[name]; !ok || has != value {
			return false
		}
	}
	return w.Host == "" || w.Host == where || w.Host == accounts.WithoutPort(where) || shared != "" && w.Host == strings.ToLower(shared)
}

// Windows has the windows of a namespace.
type Windows struct{ terms document.Terms }

// Of returns the windows of a ring's namespace.
func Of(ring *circulate.Ring) Windows { return Windows{document.Of(ring).Maintenance()} }

// Put stores a window in place of an earlier one of its name. A zero From is now. The error may be
// accounts.Faults or ErrFull. It is safe to repeat.
func (s Windows) Put(ctx context.Context, w Window) (Window, error) {
	now, err := s.terms.Now(ctx)
	if err != nil {
		return w, err
	}
	if w.From.IsZero() {
		w.From = now
	}
	w.Host, w.Reason = strings.ToLower(w.Host), strings.TrimSpace(w.Reason)
	if name, err := strict.Hostname(w.Host); err == nil {
		w.Host = name
	}
	w.From, w.Until = w.From.UTC().Truncate(time.Millisecond), w.Until.UTC().Truncate(time.Millisecond)
	if err := w.Validate(now); err != nil {
		return w, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return w, err
	}
	if len(text) > document.MaxTerm {
		return w, accounts.Faults{{Field: "labels", Reason: "are too long together"}}
	}
	err = s.terms.Put(ctx, document.Term{Name: w.Name, Until: w.Until, Text: text})
	if errors.Is(err, document.ErrFull) {
		err = ErrFull
	}
	return w, err
}

// Remove ends a window, and reports whether there was one.
func (s Windows) Remove(ctx context.Context, name string) (bool, error) {
	return s.terms.Remove(ctx, name)
}

// All returns the windows that have not ended, the first to begin first, and the time now. It leaves
// out unreadable ones.
func (s Windows) All(ctx context.Context) ([]Window, time.Time, error) {
	terms, now, err := s.terms.All(ctx)
	return read(terms), now, err
}

// Stored is All with windows that have ended. It costs one command.
func (s Windows) Stored(ctx context.Context) ([]Window, error) {
	terms, err := s.terms.Stored(ctx)
	return read(terms), err
}

func read(terms []document.Term) []Window {
	all := make([]Window, 0, len(terms))
	for _, t := range terms {
		w := Window{Name: t.Name}
		if json.Unmarshal(t.Text, &w) == nil {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Window) int { return cmp.Or(a.From.Compare(b.From), strings.Compare(a.Name, b.Name)) })
	return all
}
