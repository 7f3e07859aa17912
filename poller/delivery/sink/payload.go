package sink

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/span"
)

// messageType is the type of the payloads of messages.
const messageType = "message.found"

// Format is the form of a payload.
type Format string

// The formats; see the package's doc.
const (
	Plain       Format = ""
	CloudEvents Format = "cloudevents"
	// CloudEventsBinary is for webhooks alone: the attributes of the event are headers.
	CloudEventsBinary Format = "cloudevents-binary"
)

// ContentType is the payload's media type.
func (f Format) ContentType() string {
	if f == CloudEvents {
		return "application/cloudevents+json"
	}
	return "application/json"
}

// payload is a message as it leaves; see the package's doc.
type payload struct {
	ID        string    `json:"id,omitempty"`
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

type cloudEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject,omitempty"`
	Time        time.Time `json:"time"`
	ContentType string    `json:"datacontenttype"`
	Traceparent string    `json:"traceparent,omitempty"` // https://github.com/cloudevents/spec/blob/main/cloudevents/extensions/distributed-tracing.md
	Data        any       `json:"data"`
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

// Encoding says how messages are encoded.
type Encoding struct {
	Namespace string // of the ring; the keys depend on it
	Format    Format
	Keyless   bool // a plain payload has no id, because it travels beside it
}

// Encode returns the payload of a message or an event, on one line without its end. It fails if the
// data is not JSON.
func (e Encoding) Encode(d delivery.Delivery, files []File) ([]byte, error) {
	p := payloadOf(d, files)
	var value any = p
	switch key := Key(e.Namespace, d); {
	case e.Format == CloudEvents:
		value = e.event(key, d, p)
	case e.Format == CloudEventsBinary:
		value = p.Data
	case !e.Keyless:
		p.ID = key
		value = p
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

// Traceparent returns the traceparent (https://www.w3.org/TR/trace-context/) that goes with a message
// whose trace is recorded, or "".
func Traceparent(d delivery.Delivery) string {
	if !span.Valid(d.Trace) {
		return ""
	}
	return d.Trace
}

// payloadOf returns the payload of a message or an event, without an id.
func payloadOf(d delivery.Delivery, files []File) payload {
	p := payload{Type: d.Message.Type, Timestamp: d.Message.Time.UTC(), Data: d.Message.Data}
	if !d.Event {
		data := found{Account: d.Account, Kind: d.Kind, ID: d.Message.ID, Type: d.Message.Type, Data: d.Message.Data, Handle: d.Handle, Files: files}
		if d.Message.Time.IsZero() {
			p.Timestamp = foundAt(d.Position)
		} else {
			data.Time = &p.Timestamp
		}
		p.Type, p.Data = messageType, data
	}
	return p
}

// event returns a payload as a CloudEvent.
func (e Encoding) event(key string, d delivery.Delivery, p payload) cloudEvent {
	return cloudEvent{
		SpecVersion: "1.0", ID: key, Source: "/rounds/" + e.Namespace, Type: "dev.rounds." + p.Type,
		Subject: d.Account, Time: p.Timestamp, ContentType: "application/json", Traceparent: Traceparent(d), Data: p.Data,
	}
}

// Header returns the headers of a payload in the format cloudevents-binary, by the HTTP protocol binding
// of CloudEvents (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md,
// 3.1): the event's attributes, percent-encoded where a header could not have them. Other formats have
// none.
func (e Encoding) Header(d delivery.Delivery) map[string]string {
	if e.Format != CloudEventsBinary {
		return nil
	}
	event := e.event(Key(e.Namespace, d), d, payloadOf(d, nil))
	header := map[string]string{
		"ce-specversion": event.SpecVersion, "ce-id": event.ID, "ce-source": encoded(event.Source), "ce-type": encoded(event.Type),
		"ce-time": event.Time.Format(time.RFC3339Nano),
	}
	if event.Subject != "" {
		header["ce-subject"] = encoded(event.Subject)
	}
	if event.Traceparent != "" {
		header["ce-traceparent"] = event.Traceparent
	}
	return header
}

// encoded percent-encodes what the binding says: everything but printable ASCII, and also space, the
// double quote and the percent sign.
func encoded(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if b <= ' ' || b >= 0x7f || b == '"' || b == '%' {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}

// foundAt returns when a message was written to its stream, by Redis' clock.
func foundAt(position string) time.Time {
	id, err := circulate.ParseStreamID(position)
	if err != nil {
		return time.Time{}
	}
	return id.Time().UTC()
}

// Key returns the idempotency key of a message: 192 bits of the SHA-256 of namespace, account and
// message id, each preceded by its length. All deliveries of a message to all endpoints have the
// same key, also if a failover of Redis lost the message and it was found again. It has no full
// stop, which the specification of Standard Webhooks warns of.
func Key(namespace string, d delivery.Delivery) string {
	hash := sha256.New()
	hash.Write([]byte("rounds webhook-id"))
	for _, part := range []string{namespace, d.Account, d.Message.ID} {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return "msg_" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:24])
}
