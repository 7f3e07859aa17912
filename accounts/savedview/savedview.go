// Package savedview has the views that a team saves: names for queries, such as the accounts of one
// customer that fail. All replicas share them, and a view stays until somebody removes it.
package savedview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// Most is how many views a namespace may have.
	Most = document.MostTerms
	// MaxName is the most characters of a name.
	MaxName = 64

	maxValues, maxValue = 100, 1024 // of one parameter
)

// The lists that a view can be of.
const (
	OfAccounts = "accounts"
	OfMessages = "messages"
)

// Lists returns the lists that a view can be of.
func Lists() []string { return []string{OfAccounts, OfMessages} }

// Parameters returns the names of the parameters that a view of a list may have.
func Parameters(of string) []string {
	switch of {
	case OfAccounts:
		return append(accounts.SelectorFields(), "sort", "col")
	case OfMessages:
		return []string{"text", "sender", "account", "kind", "type", "from", "to"}
	}
	return nil
}

// ErrFull reports that there are as many views as there may be.
var ErrFull = errors.New("savedview: there are as many views as there may be")

// View is a name for a query. It is stored as JSON. Fields may be added, and a view of an older version
// lacks some.
type View struct {
	Name  string              `json:"-"`
	Of    string              `json:"of"`    // a list
	Query map[string][]string `json:"query"` // some of its Parameters
	At    time.Time           `json:"at"`    // when it was saved, by Redis' clock
	By    string              `json:"by,omitempty"`
}

// Validate returns all faults of a view.
func (v *View) Validate() error {
	var faults accounts.Faults
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if n := utf8.RuneCountInString(v.Name); n < 1 || n > MaxName || strings.TrimSpace(v.Name) != v.Name || strings.ContainsFunc(v.Name, unprintable) {
		faults.Add("name", fmt.Sprintf("must have 1 to %d printable characters, and no space at its ends", MaxName))
	}
	if !slices.Contains(Lists(), v.Of) {
		faults.Add("of", fmt.Sprintf("must be one of %s, is %q", strings.Join(Lists(), ", "), v.Of))
		return faults
	}
	if len(v.Query) == 0 {
		faults.Add("query", "must have a parameter: without any it is the whole list")
	}
	known := Parameters(v.Of)
	for _, name := range slices.Sorted(maps.Keys(v.Query)) {
		values := v.Query[name]
		switch {
		case !slices.Contains(known, name):
			faults.Add("query", fmt.Sprintf("must have parameters of %s, has %q", strings.Join(known, ", "), name))
		case len(values) == 0 || len(values) > maxValues:
			faults.Add("query."+name, fmt.Sprintf("must have 1 to %d values, has %d", maxValues, len(values)))
		case slices.ContainsFunc(values, func(value string) bool { return value == "" || len(value) > maxValue || !utf8.ValidString(value) }):
			faults.Add("query."+name, fmt.Sprintf("must have values of 1 to %d bytes of UTF-8", maxValue))
		}
	}
	if v.Of == OfAccounts && len(faults) == 0 {
		var invalid accounts.Faults
		_, err := accounts.ParseSelector(v.Query)
		errors.As(err, &invalid) // it returns only Faults
		for _, f := range invalid {
			faults.Add("query."+f.Field, f.Reason)
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Views has the views of a namespace.
type Views struct{ terms document.Terms }

// Of returns the views of a ring's namespace.
func Of(ring *circulate.Ring) Views { return Views{document.Of(ring).Views()} }

// Put saves a view in place of an earlier one of its name. The error may be accounts.Faults or ErrFull.
// It is safe to repeat.
func (s Views) Put(ctx context.Context, v View) (View, error) {
	if err := v.Validate(); err != nil {
		return v, err
	}
	now, err := s.terms.Now(ctx)
	if err != nil {
		return v, err
	}
	v.At = now.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	if len(text) > document.MaxTerm {
		return v, accounts.Faults{{Field: "query", Reason: "is too long"}}
	}
	err = s.terms.Put(ctx, document.Term{Name: v.Name, Until: document.Forever(), Text: text})
	if errors.Is(err, document.ErrFull) {
		err = ErrFull
	}
	return v, err
}

// Remove removes a view, and reports whether there was one.
func (s Views) Remove(ctx context.Context, name string) (bool, error) {
	return s.terms.Remove(ctx, name)
}

// All returns the views by their names. It leaves out unreadable ones, and those of later versions.
func (s Views) All(ctx context.Context) ([]View, error) {
	terms, err := s.terms.Stored(ctx)
	all := make([]View, 0, len(terms))
	for _, t := range terms {
		v := View{Name: t.Name}
		if json.Unmarshal(t.Text, &v) == nil && v.Validate() == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b View) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}
