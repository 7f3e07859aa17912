package email

import (
	"encoding/json"
	"errors"
	"net/mail"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// Fields of a draft besides its text.
const (
	fieldSubject    = "subject"
	fieldInReplyTo  = "in_reply_to" // the id of the mail that it answers, without angle brackets
	fieldReferences = "references"  // the ids of the mails before it in its thread, the first one first
)

const (
	maxSubject = 900 // bytes; a header's line has at most 998
	mostNamed  = 20  // the mails of a thread that an answer names: the first one, and the latest ones
)

// Draft is what a mail to be sent says.
type Draft struct {
	Text       string
	Subject    string   // empty: the mail has none
	InReplyTo  string   // the id of the mail that it answers, without angle brackets; empty: none
	References []string // the ids of the mails before it in its thread, the first one first
}

// ReadDraft reads the data of a send of a text: {"text": "…"}, perhaps with subject, in_reply_to and
// references. Its error names each wrong field.
func ReadDraft(data json.RawMessage) (Draft, error) {
	fields, ok := strict.Members(data)
	if !ok {
		_, err := message.Text(data)
		return Draft{}, err
	}
	return readDraft(fields, message.Text)
}

// maxCaption is how many characters the text beside a file may have.
const maxCaption = 4096

// FileRule is what a send of a file may have. Each mail server has its own limit, and tells it.
func FileRule() message.FileRule { return message.FileRule{Who: "mail", Caption: maxCaption} }

// ReadFileDraft is ReadDraft for a send that is a file: {"file": "ID"}, perhaps with a caption, which
// is the mail's text. It judges the file by rule if it is known.
func ReadFileDraft(data json.RawMessage, f *poller.File, rule message.FileRule) (Draft, error) {
	read := func(data json.RawMessage) (string, error) { return rule.Read(data, f) }
	fields, ok := strict.Members(data)
	if !ok {
		_, err := read(data)
		return Draft{}, err
	}
	return readDraft(fields, read)
}

// readDraft reads what any mail may have, and then the text.
func readDraft(fields map[string]json.RawMessage, text func(json.RawMessage) (string, error)) (Draft, error) {
	d, faults := threadOf(fields)
	rest, err := json.Marshal(fields)
	if err != nil {
		return Draft{}, errors.New("data: cannot be encoded")
	}
	d.Text, err = text(rest)
	return d, errors.Join(append(faults, err)...)
}

// threadOf takes what any mail may have out of the fields of a send's data.
func threadOf(fields map[string]json.RawMessage) (d Draft, faults []error) {
	take := func(field string) (json.RawMessage, bool) {
		raw, ok := fields[field]
		delete(fields, field)
		return raw, ok
	}
	if raw, ok := take(fieldSubject); ok {
		subject, is := strict.Text(raw)
		if !is || len(subject) > maxSubject || !utf8.ValidString(subject) || strings.ContainsFunc(subject, unicode.IsControl) {
			faults = append(faults, errors.New("data.subject: must be one line of at most 900 bytes"))
		}
		d.Subject = subject
	}
	if raw, ok := take(fieldInReplyTo); ok {
		if d.InReplyTo, _ = strict.Text(raw); !isID(d.InReplyTo) {
			faults = append(faults, errors.New("data.in_reply_to: must be a mail's message_id, without angle brackets"))
		}
	}
	if raw, ok := take(fieldReferences); ok {
		if json.Unmarshal(raw, &d.References) != nil || len(d.References) > mostNamed {
			faults = append(faults, errors.New("data.references: must be a list of at most 20 ids of mails"))
		}
		for _, id := range d.References {
			if !isID(id) {
				faults = append(faults, errors.New("data.references: must have ids of mails without angle brackets"))
				break
			}
		}
	}
	return d, faults
}

var idPattern = regexp.MustCompile(`^[!-;=?-~]{1,250}$`)

// isID reports whether a text can be a Message-ID without its angle brackets.
func isID(id string) bool { return idPattern.MatchString(id) }

// Answer completes a send with what it takes from the mail that it answers: whom it is for, the subject,
// and the thread. Mail that a program has sent is answered only if the send names whom it is for, so
// that two programs never answer each other for ever.
func Answer(s *poller.Outgoing, answered *poller.Message) error {
	var found Data
	_ = json.Unmarshal(answered.Data, &found) // what cannot be read is missing
	if s.Peer == "" {
		if automatic(found.Headers) {
			return errors.New("reply_to: a program has sent this mail, and must not be answered by another: name whom the answer is for in to")
		}
		if s.Peer = found.answerer(); s.Peer == "" {
			return errors.New("reply_to: is no mail with an address that can be answered")
		}
	}
	fields, ok := strict.Members(s.Data)
	if !ok {
		return nil // which is a fault of data
	}
	set := func(field string, value any, is bool) {
		if _, given := fields[field]; given || !is {
			return
		}
		if raw, err := json.Marshal(value); err == nil {
			fields[field] = raw
		}
	}
	set(fieldSubject, answerSubject(found.Subject), true)
	if isID(found.MessageID) {
		before := found.References
		if len(before) == 0 {
			before = []string{found.InReplyTo} // RFC 5322, section 3.6.4
		}
		set(fieldInReplyTo, found.MessageID, true)
		set(fieldReferences, bounded(append(before, found.MessageID)), true)
	}
	if data, err := json.Marshal(fields); err == nil {
		s.Data = data
	}
	return nil
}

// answerer returns whom the answer to a mail is for; empty: nobody.
func (d *Data) answerer() string {
	for _, list := range [][]Address{d.ReplyTo, d.From} {
		for _, a := range list {
			if _, err := BareAddress(a.Address); err == nil {
				return a.Address
			}
		}
	}
	return ""
}

// automatic reports whether a program has sent a mail, which programs must not answer (RFC 3834,
// section 2).
func automatic(headers header) bool {
	auto := headers.get("Auto-Submitted")
	return auto != "" && !strings.HasPrefix(strings.ToLower(auto), "no") || headers.get("Return-Path") == "<>"
}

// bounded returns the first id and the latest ones, without what is no id or comes twice.
func bounded(ids []string) (some []string) {
	known := make(map[string]bool)
	for _, id := range ids {
		if isID(id) && !known[id] {
			known[id], some = true, append(some, id)
		}
	}
	if len(some) > mostNamed {
		some = append(some[:1], some[len(some)-mostNamed+1:]...)
	}
	return some
}

var answeredPattern = regexp.MustCompile(`(?i)^\s*(re|aw|sv|antw|回复|答复|回覆)\s*[:：]`)

// answerSubject returns the subject of the answer to a mail.
func answerSubject(subject string) string {
	subject = strings.Join(strings.FieldsFunc(subject, unicode.IsControl), " ")
	if !answeredPattern.MatchString(subject) {
		subject = "Re: " + subject
	}
	return strings.TrimSpace(message.Cut(subject, maxSubject))
}

var errAddress = errors.New("must be one address, such as anna@example.com")

// BareAddress reads an address without a name. It returns it with its domain in the form in which it
// is looked up.
func BareAddress(text string) (string, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text || len(text) > poller.MaxPeer {
		return "", errAddress
	}
	at := strings.LastIndexByte(text, '@')
	domain, err := strict.Hostname(text[at+1:])
	if err != nil || strings.ContainsAny(domain, "[]:") {
		return "", errAddress
	}
	return text[:at+1] + domain, nil
}

// ReadFrom reads the address that an account sends from, with or without a name.
func ReadFrom(text string) (from mail.Address, ok bool) {
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return from, false
	}
	from.Name = parsed.Name
	from.Address, err = BareAddress(parsed.Address)
	return from, err == nil
}
