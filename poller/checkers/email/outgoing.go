package email

import (
	"io"
	"mime"
	"net/mail"
	"strings"
	"time"

	mailwriter "github.com/emersion/go-message/mail"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// Outgoing is a mail to be sent.
type Outgoing struct {
	Draft

	ID   string        // its Message-ID without angle brackets
	From *mail.Address // with a bare address
	To   string        // a bare address
	At   time.Time
	File *poller.File // attached; nil: none
}

// Extended reports whether an address has other characters than ASCII, which demands SMTPUTF8 (RFC
// 6531).
func (o *Outgoing) Extended() bool { return !plain(o.From.Address) || !plain(o.To) }

// Write writes the mail, with CRLF at the end of each line. file has the bytes of the File, and is read
// while the mail is written.
func (o *Outgoing) Write(w io.Writer, file io.Reader) error {
	h := o.header()
	if o.File == nil {
		kind, encoding := textPart(o.Text)
		h.Set("Content-Type", kind)
		h.Set("Content-Transfer-Encoding", encoding)
		body, err := mailwriter.CreateSingleInlineWriter(w, h)
		if err != nil {
			return err
		}
		if err := fill(body, strings.NewReader(lines(o.Text))); err != nil || encoding != encodingBase64 {
			return err
		}
		_, err = io.WriteString(w, "\r\n")
		return err
	}
	parts, err := mailwriter.CreateWriter(w, h)
	if err != nil {
		return err
	}
	if strings.TrimSpace(o.Text) != "" {
		var part mailwriter.InlineHeader
		kind, encoding := textPart(o.Text)
		part.Set("Content-Type", kind)
		part.Set("Content-Transfer-Encoding", encoding)
		body, err := parts.CreateSingleInline(part)
		if err != nil {
			return err
		}
		if err := fill(body, strings.NewReader(lines(o.Text))); err != nil {
			return err
		}
	}
	var part mailwriter.AttachmentHeader
	part.Set("Content-Type", attachedType(o.File.Type))
	part.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": message.FileName(o.File)})) // RFC 2231
	body, err := parts.CreateAttachment(part)
	if err != nil {
		return err
	}
	if err := fill(body, file); err != nil {
		return err
	}
	return parts.Close()
}

// Size returns how many bytes Write writes.
func (o *Outgoing) Size() (int64, error) {
	var n counter
	if err := o.Write(&n, strings.NewReader("")); err != nil || o.File == nil {
		return int64(n), err
	}
	encoded := (o.File.Size + 2) / 3 * 4
	if encoded > 0 {
		encoded += (encoded - 1) / base64Line * int64(len("\r\n"))
	}
	return int64(n) + encoded, nil
}

// base64Line is how long a line of base64 is (RFC 2045, section 6.8).
const base64Line = 76

// counter counts what is written.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// header returns what any mail has.
func (o *Outgoing) header() (h mailwriter.Header) {
	h.SetMsgIDList("References", o.References)
	if o.InReplyTo != "" {
		h.SetMsgIDList("In-Reply-To", []string{o.InReplyTo})
	}
	h.SetMessageID(o.ID)
	if o.Subject != "" {
		h.SetSubject(o.Subject)
	}
	h.SetAddressList("To", []*mail.Address{{Address: o.To}})
	h.SetAddressList("From", []*mail.Address{o.From})
	h.SetDate(o.At)
	return h
}

// fill writes a part to its end.
func fill(part io.WriteCloser, from io.Reader) error {
	if _, err := io.Copy(part, from); err != nil {
		return err
	}
	return part.Close()
}

// textPart returns the type of a text, and the transfer encoding that makes it shorter.
func textPart(text string) (kind, encoding string) {
	const utf8 = "text/plain; charset=utf-8"
	beyond := 0
	for i := range len(text) {
		if text[i] >= 0x80 || text[i] == '=' {
			beyond++
		}
	}
	if beyond > len(text)/6 {
		return utf8, encodingBase64
	}
	return utf8, encodingQuoted
}

// attachedType returns the type of an attachment. Mails and parts of mails must not be encoded, so
// they are sent as any other file (RFC 2046, section 5.2.1).
func attachedType(kind string) string {
	kind, _, err := mime.ParseMediaType(kind)
	if err != nil || !strings.Contains(kind, "/") || strings.HasPrefix(kind, "message/") || strings.HasPrefix(kind, "multipart/") {
		return "application/octet-stream"
	}
	return kind
}

// lines returns a text with the line ends of mail, of which the last line has one too.
func lines(text string) string {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n", "\r\n")
}
