package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// patchable are the fields of a record that a patch may name; id it may only repeat.
func patchable() []string {
	return []string{"cadence", "config", "id", "kind", "labels", "priority", retryBudgetField}
}

// decodePatch takes a merge patch apart and returns all that is wrong with it before
// anything is merged, as Faults: a name that no field has would otherwise be taken
// for one that is to be removed.
func decodePatch(id string, patch []byte) (map[string]json.RawMessage, error) {
	fields, err := strict.Object(patch)
	if fields == nil {
		return nil, err
	}
	var faults Faults
	errors.As(err, &faults)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(patchable(), name) {
			faults.Add(name, notARecordField)
		}
	}
	if value, named := fields["id"]; named {
		if same, ok := strict.Text(value); !ok || same != id {
			faults.Add("id", "must be the id in the address, or be left out: an id cannot change")
		}
	}
	if value, named := fields["kind"]; named && strict.IsNull(value) {
		faults.Add("kind", "cannot be removed")
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return fields, nil
}

// mergeRecord is a record with a patch merged into it.
func mergeRecord(record []byte, patch map[string]json.RawMessage) ([]byte, error) {
	fields, err := strict.Stored(record)
	if err != nil {
		return nil, Faults{{Field: "id", Reason: "has a record that cannot be read, and so not be changed in part; PUT replaces it"}}
	}
	return merge(fields, patch)
}

// merge does what RFC 7396 says with two objects, and keeps values that it does not
// change as they are written.
func merge(target, patch map[string]json.RawMessage) ([]byte, error) {
	merged := maps.Clone(target)
	if merged == nil {
		merged = make(map[string]json.RawMessage)
	}
	for name, value := range patch {
		inner, isObject := strict.Members(value)
		switch {
		case strict.IsNull(value):
			delete(merged, name)
		case isObject:
			into, _ := strict.Members(merged[name]) // nil where it is no object: it is replaced
			text, err := merge(into, inner)
			if err != nil {
				return nil, err
			}
			merged[name] = text
		default:
			merged[name] = value
		}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(merged); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
