package imap

import (
	"bytes"
	"encoding/json"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"
)

// A message's data stays under 256 KiB together with what is around it.
const (
	maxData      = 252 << 10 // bytes of JSON
	maxBodyText  = 64 << 10  // bytes
	maxLine      = 2 << 10   // of a subject, an id, one address
	maxAddresses = 64        // of one field
	maxHeaders   = 32 << 10  // bytes of all
)

// data is the data of a mail's message. Texts are UTF-8. Fields that the mail lacks
// are left out.
type data struct {
	MessageID string    `json:"message_id,omitempty"` // without angle brackets
	InReplyTo string    `json:"in_reply_to,omitempty"`
	Date      string    `json:"date,omitempty"` // as the sender has it, RFC 3339
	Subject   string    `json:"subject,omitempty"`
	From      []address `json:"from,omitempty"`
	To        []address `json:"to,omitempty"`
	Cc        []address `json:"cc,omitempty"`
	ReplyTo   []address `json:"reply_to,omitempty"`
	Headers   []field   `json:"headers,omitempty"` // all, in their order, decoded
	Text      string    `json:"text,omitempty"`
	TextType  string    `json:"text_type,omitempty"` // text/plain, or text/html where there is none
	Size      int64     `json:"size"`                // bytes of the whole mail
	// Truncated says that headers or text were cut, or that the text begins too late in
	// the mail to be found.
	Truncated bool `json:"truncated,omitempty"`
}

// address is one address of a list. An unreadable one has its text as the name.
type address struct {
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
}

// dataOf returns a mail's data, cut to the limits, from the mail's first bytes and its
// size.
func dataOf(raw []byte, size int64) json.RawMessage {
	header, body := split(raw)
	cutOff := size > int64(len(raw)) || len(raw) == maxRaw
	d := &data{Size: size, Truncated: len(header) == maxFields}
	d.MessageID, d.InReplyTo = d.id(header.get("Message-Id")), d.id(header.get("In-Reply-To"))
	d.Subject = d.cut(decodeWords(header.get("Subject")), maxLine)
	if at, err := mail.ParseDate(header.get("Date")); err == nil && !usable(at).IsZero() {
		d.Date = at.Format(time.RFC3339)
	}
	d.From, d.To = d.addresses(header.get("From")), d.addresses(header.get("To"))
	d.Cc, d.ReplyTo = d.addresses(header.get("Cc")), d.addresses(header.get("Reply-To"))
	room := maxHeaders
	for _, f := range header {
		f.Value = d.cut(decodeWords(f.Value), 2*maxLine)
		if room -= len(f.Name) + len(f.Value); room < 0 {
			d.Truncated = true
			break
		}
		d.Headers = append(d.Headers, f)
	}
	text, kind, whole := findText(header, body, cutOff)
	d.Text, d.TextType = d.cut(text, maxBodyText), kind
	d.Truncated = d.Truncated || !whole
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
			d.Text = cut(d.Text, len(d.Text)/2)
		case d.Headers != nil:
			d.Headers = nil
		default:
			d.From, d.To, d.Cc, d.ReplyTo = nil, nil, nil, nil // what remains has 72 KiB at most
		}
		raw = d.encode()
	}
	return raw
}

// encode returns the JSON. HTML is not escaped: it would be three times as long.
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
	return d.cut(text, maxLine)
}

func (d *data) addresses(text string) (list []address) {
	if text == "" {
		return nil
	}
	parser := mail.AddressParser{WordDecoder: decoder()}
	parsed, err := parser.ParseList(text)
	if err != nil {
		return []address{{Name: d.cut(decodeWords(text), maxLine)}}
	}
	for _, a := range parsed {
		if len(list) == maxAddresses {
			d.Truncated = true
			break
		}
		list = append(list, address{d.cut(valid(a.Name), maxLine), d.cut(valid(a.Address), maxLine)})
	}
	return list
}

// cut shortens a text and notes that it was cut.
func (d *data) cut(text string, most int) string {
	d.Truncated = d.Truncated || len(text) > most
	return cut(text, most)
}

// cut shortens a text to at most the given number of bytes, at the start of a rune.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
