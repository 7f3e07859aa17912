package circulate

import (
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Message is one thing that a check found, as it is written to its shard's
// stream.
type Message struct {
	ID   string          `json:"id"`             // the third party's own, unique in its account
	Type string          `json:"type,omitempty"` // the third party's own
	Time time.Time       `json:"time"`           // when it came to be, by the third party's clock; zero = unknown
	Data json.RawMessage `json:"data,omitempty"` // any JSON value
}

// appendFields adds the message as scripts take it.
func (m *Message) appendFields(args []any) []any {
	return wire.AppendMessage(args, m.ID, m.Type, m.Time, []byte(m.Data))
}
