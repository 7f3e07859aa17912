// Package email reads and writes mails: it turns a mail's bytes into a message's data, finds its files,
// and makes a mail of a send. It knows nothing of how mails are fetched and sent, so all kinds of
// mailboxes report the same data and answer alike.
//
// # Mail that breaks the rules
//
// A mail is reported whatever is wrong with it. Data.Damage says what breaks the rules of MIME. If texts
// declare no charset, or one that does not exist, it is guessed, Chinese first. Where decoding changed a
// field of the header, the field has its raw bytes too. Of each mail the first MaxRaw bytes are read, and
// at most 64 of its parts, 8 deep.
package email

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// MaxRaw is how many of a mail's first bytes Parse reads.
const MaxRaw = 128 << 10

// A message's data stays under 256 KiB together with its surroundings.
const (
	maxData       = 252 << 10 // bytes of JSON
	maxBodyText   = 64 << 10  // bytes of the text, and of the HTML beside it
	maxLine       = 2 << 10   // of a subject, an id or one address
	maxAddresses  = 64        // of one field
	maxHeaders    = 32 << 10  // bytes of all headers
	maxReferences = 64        // ids
	maxReference  = 998       // bytes of one: the longest line of a header (RFC 5322, section 2.1.1)
	maxFlags      = 32
	maxFlag       = 64 // bytes
)

// Data is the data of a mail's message. Texts are UTF-8. Fields that the mail lacks
// are left out.
type Data struct {
	Mailbox   string `json:"mailbox,omitempty"`    // in which the mail was found
	MessageID string `json:"message_id,omitempty"` // without angle brackets
	InReplyTo string `json:"in_reply_to,omitempty"`
	// References are the ids of the thread's mails, the oldest first (RFC 5322, section
	// 3.6.4). If there are too many, the first and the last ones are here.
	References []string `json:"references,omitempty"`
	// Flags are the mail's flags when it was found, as JMAP writes them (RFC 8621, section
	// 4.1.1): $seen, $answered, $flagged, $draft, $deleted, and keywords in lower case.
	Flags    []string  `json:"flags,omitempty"`
	Date     string    `json:"date,omitempty"` // as the sender wrote it, in RFC 3339
	Subject  string    `json:"subject,omitempty"`
	From     []Address `json:"from,omitempty"`
	To       []Address `json:"to,omitempty"`
	Cc       []Address `json:"cc,omitempty"`
	ReplyTo  []Address `json:"reply_to,omitempty"`
	Headers  []Field   `json:"headers,omitempty"` // all, in their order
	Text     string    `json:"text,omitempty"`
	TextType string    `json:"text_type,omitempty"` // text/plain, or text/html where there is none
	HTML     string    `json:"html,omitempty"`      // the text/html beside a text/plain
	// Attachments are the parts other than the text, without their content: files,
	// pictures within the text, forwarded mails.
	Attachments []Attachment `json:"attachments,omitempty"`
	Size        int64        `json:"size"` // bytes of the whole mail; 0: unknown, and more than MaxRaw
	// Truncated says that headers or text were cut, or that the mail is so long that its
	// text or attachments may not have been reached.
	Truncated bool `json:"truncated,omitempty"`
	// Damaged says that the mail breaks the rules of MIME: a multipart without boundaries,
	// wrong base64, no header. The data has what could be read.
	Damaged bool `json:"damaged,omitempty"`

	// Damage is the first thing that is wrong, for people. It is empty if the mail is not damaged.
	Damage string `json:"-"`
}

// Parse returns a mail's data, from the mail's first bytes, at most MaxRaw, and its size. A size
// of 0 is unknown: there are more bytes if raw has MaxRaw.
func Parse(raw []byte, size int64) *Data {
	header, body := split(raw)
	cutOff := size > int64(len(raw)) || len(raw) == MaxRaw
	hint := header.hint()
	d := &Data{Size: size, Truncated: len(header) == maxFields}
	d.MessageID, d.InReplyTo = d.id(header.get("Message-Id")), d.id(header.get("In-Reply-To"))
	d.Subject = d.cut(decodeWords(header.get("Subject"), hint), maxLine)
	d.References = d.ids(header.get("References"))
	if at, ok := parseDate(header.get("Date")); ok {
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
	var whole bool
	d.Text, d.TextType, d.HTML, whole = found.text()
	d.Text, d.HTML, d.Attachments = d.cut(d.Text, maxBodyText), d.cut(d.HTML, maxBodyText), found.attachments
	d.Truncated = d.Truncated || !whole || found.more
	if d.Damage = found.damage; header == nil {
		d.Damage = "it has no header"
	}
	d.Damaged = d.Damage != ""
	return d
}

// Encode encodes the data, cut to the limit. Escaping may turn one byte into six, so data that becomes
// too long is cut again.
func (d *Data) Encode() json.RawMessage {
	raw := d.marshal()
	for len(raw) > maxData {
		d.Truncated = true
		switch {
		case len(d.HTML) > len(d.Text):
			d.HTML = message.Cut(d.HTML, len(d.HTML)/2)
		case d.Text != "":
			d.Text = message.Cut(d.Text, len(d.Text)/2)
		case d.Headers != nil:
			d.Headers = nil
		default:
			d.From, d.To, d.Cc, d.ReplyTo, d.References = nil, nil, nil, nil, nil // what remains has 200 KiB at most
		}
		raw = d.marshal()
	}
	return raw
}

// marshal returns the JSON. It does not escape HTML, which would then be three times as long.
func (d *Data) marshal() json.RawMessage {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(d) != nil {
		return json.RawMessage(`{}`) // strings and numbers cannot fail
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// id returns the id in a field, without angle brackets. There may be words beside it, as in "Your
// message of Monday <a@example.com>" (RFC 822, section 4.6.2), and blanks within it, where a program
// folded the line. Without brackets, the id is the field.
func (d *Data) id(text string) string {
	text = strings.TrimSpace(text)
	if _, inner, ok := strings.Cut(text, "<"); ok {
		inner, _, _ = strings.Cut(inner, ">")
		text = strings.Join(strings.Fields(inner), "")
	}
	return d.cut(valid(text), maxLine)
}

// ids returns the ids in a field, each once, as id does. If none has brackets, each word with an @ is
// one.
func (d *Data) ids(text string) (all []string) {
	add := func(id string) {
		switch id = valid(strings.Join(strings.Fields(id), "")); {
		case id == "" || slices.Contains(all, id):
		case len(id) > maxReference:
			d.Truncated = true // a part of an id would be another id
		default:
			if all = append(all, id); len(all) > maxReferences {
				d.Truncated = true
				all = slices.Delete(all, 1, 2)
			}
		}
	}
	for rest, ok := text, true; ok; {
		var id string
		if _, rest, ok = strings.Cut(rest, "<"); ok {
			id, rest, _ = strings.Cut(rest, ">")
			add(id)
		}
	}
	if all == nil {
		for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return c <= ' ' || c == ',' || c == ';' }) {
			if strings.Contains(word, "@") {
				add(word)
			}
		}
	}
	return all
}

// AddFlag adds a flag, by its name in IMAP or JMAP. \Recent is left out: it tells which session saw the mail first.
func (d *Data) AddFlag(name string) {
	text := strings.ToLower(valid(name))
	if system, ok := strings.CutPrefix(text, `\`); ok {
		text = "$" + system
	}
	switch {
	case text == "$recent" || text == "" || slices.Contains(d.Flags, text):
	case len(d.Flags) == maxFlags || len(text) > maxFlag:
		d.Truncated = true
	default:
		d.Flags = append(d.Flags, text)
	}
}

// cut shortens a text and notes that it was cut.
func (d *Data) cut(text string, most int) string {
	d.Truncated = d.Truncated || len(text) > most
	return message.Cut(text, most)
}

// Damages are the mails of a page that are damaged.
type Damages struct {
	all, damaged int
	first        string
}

// Add adds a mail, damaged or not. damage is its Data.Damage.
func (d *Damages) Add(id, damage string) {
	if d.all++; damage == "" {
		return
	}
	if d.damaged++; d.damaged == 1 {
		d.first = id + ", " + damage
	}
}

// Warnings returns one warning for all of them, or none.
func (d *Damages) Warnings() []poller.Warning {
	if d.damaged == 0 {
		return nil
	}
	return []poller.Warning{{Code: "malformed", Message: fmt.Sprintf("%d of %d mails break the rules of MIME, and have what could be read; of %s", d.damaged, d.all, d.first)}}
}
