package trail

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rounds-dev/rounds/accounts/access"
)

// Draft is the entry of an order that is being carried out. It is safe for concurrent use.
// A nil Draft ignores everything.
type Draft struct {
	mu      sync.Mutex
	entry   Entry
	looking bool
}

type draftKey struct{}

// Begin returns a context that carries a new draft.
func Begin(ctx context.Context, e Entry) (context.Context, *Draft) {
	d := &Draft{entry: e}
	return context.WithValue(ctx, draftKey{}, d), d
}

// Of returns the draft that a context carries, or nil.
func Of(ctx context.Context) *Draft {
	d, _ := ctx.Value(draftKey{}).(*Draft)
	return d
}

func (d *Draft) change(fn func(*Entry)) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fn(&d.entry)
}

// By sets the principal of the order, if that becomes known only while it is carried out.
func (d *Draft) By(p access.Principal) {
	d.change(func(e *Entry) { e.By, e.Via = p.Name, p.Via })
}

// Account sets the account that the order is about.
func (d *Draft) Account(id string) { d.change(func(e *Entry) { e.Account = id }) }

// Accounts sets the accounts that the order names.
func (d *Draft) Accounts(ids []string) { d.change(func(e *Entry) { e.Accounts = slices.Clone(ids) }) }

// Subject sets what the order is about if that is not an account: the kind of thing, and
// its name, which may be empty.
func (d *Draft) Subject(kind, name string) {
	d.change(func(e *Entry) { e.Subject = strings.TrimSpace(kind + " " + name) })
}

// Select sets which accounts the order selects, as a selector's fields and their values.
func (d *Draft) Select(fields map[string][]string) {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, value := range fields[name] {
			if value != "" {
				pairs = append(pairs, name+"="+value)
			}
		}
	}
	text := strings.Join(pairs, " ")
	if text == "" {
		text = "all"
	}
	d.change(func(e *Entry) { e.Selector = text })
}

// Fields sets the names of the fields that the order changed.
func (d *Draft) Fields(names []string) { d.change(func(e *Entry) { e.Fields = slices.Clone(names) }) }

// Replaced sets the account's record that the order replaced, and the patch from it to the new one.
func (d *Draft) Replaced(record, patch json.RawMessage) {
	d.change(func(e *Entry) { e.Record, e.Patch = record, patch })
}

// Count adds how many accounts or other things had an outcome. A count of 0 is left out.
func (d *Draft) Count(what string, n int) { d.Counts(map[string]int{what: n}) }

// Counts adds how many accounts or other things had each outcome. Counts of 0 are left out.
func (d *Draft) Counts(more map[string]int) {
	d.change(func(e *Entry) {
		counts := maps.Clone(e.Counts) // callers may have a copy of the entry
		for what, n := range more {
			if n == 0 {
				continue
			}
			if counts == nil {
				counts = make(map[string]int)
			}
			counts[what] += n
		}
		e.Counts = counts
	})
}

// End sets the outcome of the order, if the answer's status does not show it.
func (d *Draft) End(as Outcome) { d.change(func(e *Entry) { e.Outcome = as }) }

// LookOnly says that the order changes nothing. If it succeeds, no entry is stored.
func (d *Draft) LookOnly() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looking = true
}

// Close returns the draft's entry, with the given outcome unless End has set one. It returns false
// if the entry should not be stored.
func (d *Draft) Close(as Outcome, status int) (Entry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entry.Status = status
	if d.entry.Outcome == "" {
		d.entry.Outcome = as
	}
	return d.entry, !d.looking || d.entry.Outcome != Done
}
