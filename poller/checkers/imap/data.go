package imap

import (
	"bytes"
	"encoding/json"
	"net/mail"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// A message's data stays under 256 KiB together with its surroundings.
const (
	maxData      = 252 << 10 // bytes of JSON
	maxBodyText  = 64 << 10  // bytes
	maxLine      = 2 << 10   // of a subject, an id or one address
	maxAddresses = 64        // of one field
	maxHeaders   = 32 << 10  // bytes of all headers
)

// data is the data of a mail's message. Texts are UTF-8. Fields that the mail lacks
// are left out.
type data struct {
	MessageID string    `json:"message_id,omitempty"` // without angle brackets
	InReplyTo string    `json:"in_reply_to,omitempty"`
	Date      string    `json:"date,omitempty"` // as the sender wrote it, in RFC 3339
	Subject   string    `json:"subject,omitempty"`
	From      []address `json:"from,omitempty"`
	To        []address `json:"to,omitempty"`
	Cc        []address `json:"cc,omitempty"`
	ReplyTo   []address `json:"reply_to,omitempty"`
	Headers   []field   `json:"headers,omitempty"` // all, in their order
	Text      string    `json:"text,omitempty"`
	TextType  string    `json:"text_type,omitempty"` // text/plain, or text/html where there is none
	// Attachments are the parts other than the text, without their content: files,
	// pictures within the text, forwarded mails.
	Attachments []attachment `json:"attachments,omitempty"`
	Size        int64        `json:"size"` // bytes of the whole mail
	// Truncated says that headers or text were cut, or that the mail is so long that its
	// text or attachments may not have been reached.
	Truncated bool `json:"truncated,omitempty"`
	// Damaged says that the mail breaks the rules of MIME: a multipart without boundaries,
	// wrong base64, no header. The data has what could be read.
	Damaged bool `json:"damaged,omitempty"`
}

// dataOf returns a mail's data, cut to the limits, from the mail's first bytes and its
// size.
func dataOf(raw []byte, size int64) json.RawMessage {
	header, body := split(raw)
	cutOff := size > int64(len(raw)) || len(raw) == maxRaw
	hint := header.hint()
	d := &data{Size: size, Truncated: len(header) == maxFields}
	d.MessageID, d.InReplyTo = d.id(header.get("Message-Id")), d.id(header.get("In-Reply-To"))
	d.Subject = d.cut(decodeWords(header.get("Subject"), hint), maxLine)
	if at, err := mail.ParseDate(header.get("Date")); err == nil && !usable(at).IsZero() {
		d.Date = at.Format(time.RFC3339)
	}
	d.From, d.To = d.addresses(header.get("From"), hint), d.addresses(header.get("To"), hint)
	d.Cc, d.ReplyTo = d.addresses(header.get("Cc"), hint), d.addresses(header.get("Reply-To"), hint)
	room := maxHeaders
	for _, f := range header {
		f = f.decoded(d, hint)
		if room -= len(f.Name) + len(f.Value) + len(f.Raw); room < 0 {
			d.Truncated = true
			break
		}
		d.Headers = append(d.Headers, f)
	}
	found := find(header, body, hint, cutOff)
	text, kind, whole := found.text()
	d.Text, d.TextType, d.Attachments = d.cut(text, maxBodyText), kind, found.attachments
	d.Truncated = d.Truncated || !whole || found.more
	d.Damaged = found.damaged || header == nil
	return d.fit()
}

// fit encodes the data. Escaping may turn one byte into six, so data that becomes too
// long is cut again.
func (d *data) fit() json.RawMessage {
	raw := d.encode()
	for len(raw) > maxData {
		d.Truncated = true
		switch {
		case d.Text != "":
			d.Text = message.Cut(d.Text, len(d.Text)/2)
		case d.Headers != nil:
			d.Headers = nil
		default:
			d.From, d.To, d.Cc, d.ReplyTo = nil, nil, nil, nil // what remains has 192 KiB at most
		}
		raw = d.encode()
	}
	return raw
}

// encode returns the JSON. It does not escape HTML, which would then be three times as long.
func (d *data) encode() json.RawMessage {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(d) != nil {
		return json.RawMessage(`{}`) // strings and numbers cannot fail
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

func (d *data) id(text string) string {
	text = strings.TrimSpace(text)
	if id, ok := strings.CutPrefix(text, "<"); ok {
		text, _, _ = strings.Cut(id, ">")
	}
	return d.cut(valid(text), maxLine)
}

// cut shortens a text and notes that it was cut.
func (d *data) cut(text string, most int) string {
	d.Truncated = d.Truncated || len(text) > most
	return message.Cut(text, most)
}
