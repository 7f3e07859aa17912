package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// MaxRecord is the most bytes that a record may have as text.
const MaxRecord = 256 << 10

// RecordField is the field of a Fault of the text as a whole: it is not JSON, or not an
// object.
const RecordField = strict.RecordField

const (
	retryBudgetField = "retry_budget"
	notARecordField  = "is not a field of a record; its fields are id, kind, config, cadence, priority, labels and retry_budget"
)

// Decode reads a record strictly. It returns every fault at once, as Faults, together
// with the fields that it could read, so that the caller can judge those too.
func Decode(record []byte) (Account, error) {
	a, _, err := decode(record, false)
	return a, err
}

// decode is Decode. It also returns the state of an exported record, if withState allows one.
func decode(record []byte, withState bool) (a Account, state json.RawMessage, err error) {
	fields, err := strict.Object(record)
	if fields == nil {
		return Account{}, nil, err
	}
	var faults Faults
	errors.As(err, &faults)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "id":
			faults.Text(name, value, &a.ID)
		case "kind":
			faults.Text(name, value, &a.Kind)
		case "cadence":
			faults.Text(name, value, &a.Cadence)
		case "config":
			if !strict.IsNull(value) {
				a.Config = bytes.Clone(value) // the text may be the caller's
			}
		case "labels":
			a.Labels, faults = readLabels(faults, value)
		case "priority":
			// Once read, "" and a missing field would be the same.
			if !strict.IsNull(value) && (json.Unmarshal(value, &a.Priority) != nil || a.Priority == "") {
				faults = append(faults, priorityFault)
			}
		case retryBudgetField:
			// Once read, 0 and a missing field would be the same.
			if !strict.IsNull(value) && (json.Unmarshal(value, &a.RetryBudget) != nil || a.RetryBudget == 0) {
				faults = append(faults, retryBudgetFault)
			}
		case stateField:
			if withState {
				state = value
				continue
			}
			faults.Add(name, notARecordField)
		case revisionField:
			// Versions that do not know revisions export them as a part of the record.
			if !withState || len(value) == 0 || value[0] != '[' {
				faults.Add(name, notARecordField)
			}
		default:
			faults.Add(name, notARecordField)
		}
	}
	if len(faults) > 0 {
		return a, state, faults
	}
	return a, state, nil
}

func readLabels(faults Faults, value json.RawMessage) (map[string]string, Faults) {
	values, ok := strict.Members(value)
	if !ok && !strict.IsNull(value) {
		return nil, append(faults, Fault{Field: "labels", Reason: "must be an object of strings"})
	}
	if len(values) == 0 {
		return nil, faults
	}
	labels := make(map[string]string, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text, ok := strict.Text(values[name])
		if !ok {
			faults.Add("labels."+name, "must be a string")
			continue
		}
		labels[name] = text
	}
	return labels, faults
}

// keptFields are the fields of a record as the ring keeps it, that this version knows.
var keptFields = []string{"id", "kind", "config", "cadence", "priority", "labels", retryBudgetField, revisionField}

// ReadKept reads a record as the ring keeps it. It also returns the names of the fields that
// this version does not know and a later one has written, sorted.
func ReadKept(record []byte) (a Account, unknown []string, err error) {
	if err := json.Unmarshal(record, &a); err != nil {
		return Account{}, nil, err
	}
	fields, _ := strict.Members(record) // an object, as was just seen
	for name := range fields {
		if !slices.Contains(keptFields, name) {
			unknown = append(unknown, strict.Printable(name))
		}
	}
	slices.Sort(unknown)
	return a, unknown, nil
}

// Read decodes and judges a record. It returns the faults of both at once, as Faults.
func Read(record []byte, kinds Kinds) (Account, error) {
	return readAs("", record, kinds)
}

// readAs is Read for the account with an id: the record may leave its id out, and must not
// name another one. With an empty id it is Read.
func readAs(id string, record []byte, kinds Kinds) (Account, error) {
	a, err := Decode(record)
	return judged(id, a, err, kinds)
}

// judged judges an account that decoding returned, and adds to the faults of decoding.
func judged(id string, a Account, err error, kinds Kinds) (Account, error) {
	var faults Faults
	if err != nil && !errors.As(err, &faults) {
		return Account{}, err
	}
	if len(faults) > 0 && faults[0].Field == RecordField {
		return Account{}, faults
	}
	switch {
	case id != "" && a.ID == "":
		a.ID = id
	case id != "" && a.ID != id:
		faults.Add("id", "must be the id in the address, or be left out")
	}
	var more Faults
	if err := a.Validate(kinds); err != nil && !errors.As(err, &more) {
		return Account{}, err
	}
	// A field that could not be read gets no second fault.
	seen := len(faults)
	for _, f := range more {
		if !slices.ContainsFunc(faults[:seen], func(g Fault) bool { return g.Field == f.Field }) {
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		return a, faults
	}
	return a.paced(kinds), nil
}
