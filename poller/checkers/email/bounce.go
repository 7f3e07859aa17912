package email

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const (
	maxReports    = 16  // recipients of one bounce
	maxDiagnostic = 300 // bytes
)

// Bounce is a mail's report that an earlier mail could not be delivered (RFC 3464).
type Bounce struct {
	MessageID  string // of the earlier mail, without angle brackets; empty: the report does not have it
	EnvelopeID string // that its sender gave it (RFC 3461, section 4.4); empty: none
	Status     string // such as 5.1.1 (RFC 3463)
	Text       string // what the server said, one line; it may be anything
}

var statusPattern = regexp.MustCompile(`^[245]\.[0-9]{1,3}\.[0-9]{1,3}$`)

// ReadBounce reads a mail as a bounce, from its first bytes. A report of a delay, or of a delivery, is
// none. Anybody can write a bounce who knows one of the two ids.
func ReadBounce(raw []byte) (b Bounce, ok bool) {
	header, body := split(raw)
	kind, params := mediaType(header.get("Content-Type"), nil)
	if kind != "multipart/report" || !strings.EqualFold(params["report-type"], "delivery-status") {
		return Bounce{}, false
	}
	for _, part := range splitParts(body, params["boundary"], maxParts) {
		about, content := split(part.raw)
		content, _ = transferred(about, content)
		switch kind, _ := mediaType(about.get("Content-Type"), nil); kind {
		case "message/delivery-status", "message/global-delivery-status":
			if !ok {
				ok = b.report(content)
			}
		case "message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers":
			if earlier, _ := split(bytes.TrimLeft(content, "\r\n")); b.MessageID == "" {
				b.MessageID = new(Data).id(earlier.get("Message-Id"))
			}
		}
	}
	return b, ok && b.MessageID+b.EnvelopeID != ""
}

// report reads the groups of fields of a report: one of the mail, and one of each recipient. It reports
// whether the delivery to a recipient has failed.
func (b *Bounce) report(content []byte) bool {
	for range maxReports + 1 {
		fields, rest := split(bytes.TrimLeft(content, "\r\n"))
		if fields == nil {
			return false
		}
		if b.EnvelopeID == "" {
			b.EnvelopeID = fields.get("Original-Envelope-Id")
		}
		if strings.EqualFold(strings.TrimSpace(fields.get("Action")), "failed") {
			status, _, _ := strings.Cut(fields.get("Status"), " ")
			if b.Status = "5.0.0"; statusPattern.MatchString(status) {
				b.Status = status
			}
			said := fields.get("Diagnostic-Code")
			if _, text, ok := strings.Cut(said, ";"); ok {
				said = text
			}
			b.Text = message.Cut(strings.Join(strings.FieldsFunc(valid(said), func(r rune) bool { return r <= ' ' || r == 0x7f }), " "), maxDiagnostic)
			return true
		}
		content = rest
	}
	return false
}
