package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// Masked stands in a Replaced record for a value that must not be shown.
const Masked = "***"

// Replaced is the record that a change has replaced, for people who want it back. Records name
// secrets and have no values of them, but one may have had such a value before somebody made a
// secret of it: such values are Masked.
type Replaced struct {
	Record json.RawMessage // without its revision; nil: the change replaced none
	Patch  json.RawMessage // the merge patch (RFC 7396) from it to the record after the change
}

// replacedBy returns what a change from one record to another replaced.
func replacedBy(before, after []byte) Replaced {
	old, err := strict.Stored(before)
	now, wrong := strict.Stored(after)
	if err != nil || wrong != nil || strict.Depth(before) > strict.MaxDepth || strict.Depth(after) > strict.MaxDepth {
		return Replaced{}
	}
	patch, err := patchBetween(old, now)
	if err != nil {
		return Replaced{}
	}
	record, err := encodeJSON(old)
	if err != nil {
		return Replaced{}
	}
	return Replaced{record, patch}
}

// patchBetween returns the merge patch from one object to another. It replaces members of the first
// that are secret references in the second, and were none, by Masked. Objects inside it are encoded
// anew if that was done in them.
func patchBetween(old, now map[string]json.RawMessage) (json.RawMessage, error) {
	patch := make(map[string]json.RawMessage)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, there := old[name]
		is := now[name]
		if there && bytes.Equal(was, is) {
			continue
		}
		inWas, object := strict.Members(was)
		inIs, both := strict.Members(is)
		switch {
		case !there:
			patch[name] = is
		case isReference(is) && !isReference(was):
			old[name], patch[name] = json.RawMessage(`"`+Masked+`"`), is
		case object && both:
			inner, err := patchBetween(inWas, inIs)
			if err != nil {
				return nil, err
			}
			if old[name], err = encodeJSON(inWas); err != nil {
				return nil, err
			}
			patch[name] = inner
		default:
			patch[name] = is
		}
	}
	for name := range old {
		if _, stays := now[name]; !stays {
			patch[name] = json.RawMessage("null")
		}
	}
	return encodeJSON(patch)
}

// isReference reports whether a value in a config names a secret.
func isReference(value json.RawMessage) bool {
	members, _ := strict.Members(value)
	_, named := strict.TextIn(members, "secret")
	return named && len(members) == 1
}

// FieldChange is how a field of a record differs between two of its versions.
type FieldChange struct {
	Field  string          // such as "cadence", or "config.url" for a member of config or labels
	Before json.RawMessage // nil: it was not there
	After  json.RawMessage // nil: it is not there
}

// Changes returns the fields that a change changed. They are nil for a record that cannot be read.
func (p Replaced) Changes() []FieldChange {
	old, err := strict.Stored(p.Record)
	patch, wrong := strict.Stored(p.Patch)
	if err != nil || wrong != nil {
		return nil
	}
	after, err := merge(old, patch)
	if err != nil {
		return nil
	}
	return changesBetween(p.Record, after)
}

// changesBetween returns the fields in which two records differ, in order. An unreadable record has no
// fields.
func changesBetween(before, after []byte) []FieldChange {
	old, _ := strict.Stored(before) // nil if unreadable, without fields
	now, _ := strict.Stored(after)
	var all []FieldChange
	differing(old, now, func(name string) {
		was, is := old[name], now[name]
		if name == "config" || name == "labels" {
			inWas, _ := strict.Members(was)
			inIs, _ := strict.Members(is)
			before := len(all)
			differing(inWas, inIs, func(inner string) { all = append(all, FieldChange{name + "." + inner, inWas[inner], inIs[inner]}) })
			if len(all) > before {
				return
			}
		} // else one value is not an object, or empty
		all = append(all, FieldChange{name, was, is})
	})
	return all
}

// changedFields returns the names of the fields in which two records differ.
func changedFields(before, after []byte) []string {
	var names []string
	for _, c := range changesBetween(before, after) {
		names = append(names, c.Field)
	}
	return names
}

// Shown reports whether the bound principal may see a record, by its labels.
func (r *Registry) Shown(record []byte) bool { return r.sees(record) }

// Restore gives an account an earlier record back. It is a change like any other: the record is judged
// as a whole, and Restore returns the errors of Patch. What is Masked in it stays as it is now.
func (r *Registry) Restore(ctx context.Context, id string, earlier []byte, m Match) (View, circulate.Registered, error) {
	return r.save(ctx, id, Save{Match: m}, func(before *circulate.View) (Account, []byte, error) {
		if before == nil {
			return Account{}, nil, fmt.Errorf("%w: %q", ErrNotFound, id)
		}
		plain, _ := SplitRevision(before.Record)
		return r.restored(ctx, id, plain, earlier)
	})
}

// WouldRestore returns what Restore would change, and the errors that it would return. The view is the
// account as it is.
func (r *Registry) WouldRestore(ctx context.Context, id string, earlier []byte) (View, []FieldChange, error) {
	before, err := r.ring.Account(id).Look(ctx)
	if err != nil {
		return View{}, nil, translate(err, id)
	}
	if !r.sees(before.Record) {
		return View{}, nil, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	plain, _ := SplitRevision(before.Record)
	_, record, err := r.restored(ctx, id, plain, earlier)
	return viewOf(&before), changesBetween(plain, record), err
}

// restored returns an account with an earlier record, and that record.
func (r *Registry) restored(ctx context.Context, id string, plain, earlier []byte) (Account, []byte, error) {
	then, err := strict.Stored(earlier)
	if err != nil {
		return Account{}, nil, err
	}
	now, _ := strict.Stored(plain) // nil if unreadable: what is masked is then missing
	record, err := unmasked(then, now)
	if err != nil {
		return Account{}, nil, err
	}
	a, err := r.Read(ctx, id, record)
	if err != nil {
		return Account{}, nil, err
	}
	if record, err = a.Encode(); err != nil {
		return Account{}, nil, err
	}
	return a, record, nil
}

// unmasked returns an object in which what is Masked has its value of another, or is missing as there.
func unmasked(then, now map[string]json.RawMessage) (json.RawMessage, error) {
	made := make(map[string]json.RawMessage, len(then))
	for name, value := range then {
		if text, ok := strict.Text(value); ok && text == Masked {
			if is, there := now[name]; there {
				made[name] = is
			}
			continue
		}
		if inner, ok := strict.Members(value); ok {
			inNow, _ := strict.Members(now[name])
			whole, err := unmasked(inner, inNow)
			if err != nil {
				return nil, err
			}
			value = whole
		}
		made[name] = value
	}
	return encodeJSON(made)
}
