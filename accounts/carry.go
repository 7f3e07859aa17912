package accounts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// maxCursor is the most bytes that the cursor of an imported account may have.
	maxCursor = 64 << 10
	// maxCarriedReason is the most bytes of the reason of a parked imported account.
	maxCarriedReason = 4 << 10

	stateField = "state"
)

// carried is the field state of an exported record: what an account has besides its
// record. A program that does not know the field refuses the record and names the field.
type carried struct {
	Cursor       string     `json:"cursor,omitempty"`        // a cursor that is UTF-8 without control characters
	CursorBase64 string     `json:"cursor_base64,omitempty"` // any other cursor
	CadenceState string     `json:"cadence_state,omitempty"` // as Memory encodes it
	Failures     int        `json:"failures,omitempty"`      // in a row
	Parked       string     `json:"parked,omitempty"`        // why it is parked; left out: it circulates
	Since        *time.Time `json:"parked_since,omitempty"`  // by the clock of the Redis that it was exported from
}

// appendCarried returns a record, which is one line, with the state as its last member.
func appendCarried(record []byte, b circulate.Begin) ([]byte, error) {
	c := carried{CadenceState: b.State, Failures: b.Failures, Parked: b.Park}
	if plainText(b.Cursor) {
		c.Cursor = string(b.Cursor)
	} else {
		c.CursorBase64 = base64.StdEncoding.EncodeToString(b.Cursor)
	}
	if b.Park != "" && !b.Since.IsZero() {
		since := b.Since.UTC()
		c.Since = &since
	}
	text, err := encodeJSON(c)
	if err != nil {
		return nil, err
	}
	line := append(bytes.TrimSuffix(bytes.Clone(record), []byte("}")), `,"`+stateField+`":`...)
	return append(append(line, text...), '}'), nil
}

// plainText reports whether a cursor can be stored as a JSON string.
func plainText(cursor []byte) bool {
	return utf8.Valid(cursor) && !bytes.ContainsFunc(cursor, func(r rune) bool { return r < ' ' })
}

// readCarried reads the state of an exported record strictly.
func readCarried(text json.RawMessage) (*circulate.Begin, Faults) {
	fields, ok := strict.Members(text)
	if !ok {
		return nil, Faults{{Field: stateField, Reason: "must be an object, as account export --with-state writes it"}}
	}
	var b circulate.Begin
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, field := fields[name], stateField+"."+name
		text, isText := strict.Text(value)
		switch name {
		case "cursor":
			if b.Cursor = []byte(text); !isText {
				faults.Add(field, "must be a string")
			}
		case "cursor_base64":
			cursor, err := base64.StdEncoding.DecodeString(text)
			if b.Cursor = cursor; !isText || err != nil {
				faults.Add(field, "must be base64")
			}
		case "cadence_state":
			_, err := ReadMemory(text)
			if b.State = text; !isText || err != nil || len(text) > MaxLabel {
				faults.Add(field, "must be the state of a cadence, such as \"i60000\"")
			}
		case "failures":
			if json.Unmarshal(value, &b.Failures) != nil || b.Failures < 0 {
				faults.Add(field, "must be a whole number")
			}
		case "parked":
			if b.Park = text; !isText || text == "" || len(text) > maxCarriedReason {
				faults.Add(field, "must be the reason why the account is parked")
			}
		case "parked_since":
			since, err := time.Parse(time.RFC3339, text)
			if b.Since = since; !isText || err != nil {
				faults.Add(field, "must be a time such as 2030-12-01T09:00:00Z")
			}
		default:
			faults.Add(field, "is not a field of an exported state; its fields are cursor or cursor_base64, cadence_state, failures, parked and parked_since")
		}
	}
	if len(b.Cursor) > maxCursor {
		faults.Add(stateField+".cursor", "must be at most 65536 bytes")
	}
	if b.Park == "" {
		b.Since = time.Time{}
	}
	return &b, faults
}

// readLine reads and judges a line of an import: a record, and its state if it has one.
func readLine(text []byte, kinds Kinds) (Account, *circulate.Begin, error) {
	a, state, err := decodeExported(text)
	a, err = judged("", a, err, kinds)
	if state == nil {
		return a, nil, err
	}
	begin, more := readCarried(state)
	var faults Faults
	if err != nil && !errors.As(err, &faults) {
		return a, nil, err
	}
	if faults = append(faults, more...); len(faults) > 0 {
		return a, nil, faults
	}
	return a, begin, nil
}
