package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// messageType is the type of the payloads of messages.
const messageType = "message.found"

// payload is the body of a request; see the package's doc.
type payload struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

type found struct {
	Account string          `json:"account"`
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Time    *time.Time      `json:"time"`
	Data    json.RawMessage `json:"data"`
	Handle  string          `json:"handle,omitempty"`
	Files   []File          `json:"files,omitempty"`
}

// File is a file that a message carries.
type File struct {
	N     int       `json:"n"` // its place in the message, from 0
	Name  string    `json:"name,omitempty"`
	Type  string    `json:"type,omitempty"`
	Size  int64     `json:"size,omitempty"` // bytes; 0: unknown
	Link  string    `json:"link,omitempty"` // where it is read without a key
	Until time.Time `json:"link_until,omitzero"`
}

// encode returns the payload of a message or an event. It fails if the data is not JSON.
func encode(m delivery.Delivery, files []File) ([]byte, error) {
	p := payload{Type: m.Message.Type, Timestamp: m.Message.Time.UTC(), Data: m.Message.Data}
	if !m.Event {
		data := found{Account: m.Account, Kind: m.Kind, ID: m.Message.ID, Type: m.Message.Type, Data: m.Message.Data, Handle: m.Handle, Files: files}
		if m.Message.Time.IsZero() {
			p.Timestamp = foundAt(m.Position)
		} else {
			data.Time = &p.Timestamp
		}
		p.Type, p.Data = messageType, data
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(p); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

// foundAt returns when a message was written to its stream, by Redis' clock.
func foundAt(position string) time.Time {
	id, err := circulate.ParseStreamID(position)
	if err != nil {
		return time.Time{}
	}
	return id.Time().UTC()
}

// messageID returns the idempotency key of a message: 192 bits of the SHA-256 of namespace, account
// and message id, each preceded by its length. It has no full stop, which the specification warns
// of.
func messageID(namespace, account, id string) string {
	hash := sha256.New()
	hash.Write([]byte("rounds webhook-id"))
	for _, part := range []string{namespace, account, id} {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return "msg_" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:24])
}
