package circulate

import (
	"encoding/json"
	"time"
)

// Message is one thing that a check found, as it is written to its shard's
// stream.
type Message struct {
	ID   string          `json:"id"`             // the third party's own, unique in its account
	Type string          `json:"type,omitempty"` // the third party's own
	Time time.Time       `json:"time"`           // when it came to be, by the third party's clock; zero = unknown
	Data json.RawMessage `json:"data,omitempty"` // any JSON value
}

// appendFields adds the message as scripts take it: id, type, time in RFC 3339
// (empty = unknown), data.
func (m *Message) appendFields(args []any) []any {
	when := ""
	if !m.Time.IsZero() {
		when = m.Time.UTC().Format(time.RFC3339Nano)
	}
	return append(args, m.ID, m.Type, when, []byte(m.Data))
}
