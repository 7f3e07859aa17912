package accounts

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// MaxRecord is the most bytes that a record may have as text.
const MaxRecord = 256 << 10

// RecordField is the field of a Fault of the text as a whole: the text is not JSON, or
// not an object.
const RecordField = strict.RecordField

var recordDecoder = strict.NewDecoder[Account]("a record", priorityFault, retryBudgetFault, onUnknownFault)

// decode reads a record strictly. It returns every fault at once, as Faults, together
// with the fields that it could read, so that the caller can judge those too.
func decode(record []byte) (Account, error) {
	a, faults := recordDecoder.Decode(record)
	return a, faults.Err()
}

// decodeExported reads a line of an export, as decode reads a record. It also returns the line's
// state, nil if it has none.
func decodeExported(line []byte) (a Account, state json.RawMessage, err error) {
	fields, err := strict.Object(line)
	if fields == nil {
		return Account{}, nil, err
	}
	state = fields[stateField]
	delete(fields, stateField)
	// A version that does not know revisions exports the stored record with its revision.
	if bytes.HasPrefix(fields[revisionField], []byte("[")) {
		delete(fields, revisionField)
	}
	var faults Faults
	errors.As(err, &faults)
	faults = append(faults, recordDecoder.Read(fields, &a)...)
	return a, state, faults.Err()
}

// ReadStored reads a record as the ring stores it. It also returns the names, sorted, of
// the fields that a later version has written and this one does not know.
func ReadStored(record []byte) (a Account, unknown []string, err error) {
	if err := json.Unmarshal(record, &a); err != nil {
		return Account{}, nil, err
	}
	fields, _ := strict.Members(record) // just seen to be an object
	delete(fields, revisionField)
	for _, fault := range recordDecoder.Unknown(fields) {
		unknown = append(unknown, fault.Field)
	}
	return a, unknown, nil
}

// readAs decodes and judges the record of the account with an id: the record may leave its id
// out, and must not name another one. With an empty id it may name any. It returns the faults
// of both at once, as Faults.
func readAs(id string, record []byte, kinds Kinds) (Account, error) {
	a, err := decode(record)
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
	if err := faults.And(a.Validate(kinds)); err != nil {
		return a, err
	}
	return a.paced(kinds), nil
}
