package email

import (
	"io"
	"net/mail"
	"strings"
	"time"

	mailwriter "github.com/emersion/go-message/mail"
)

// Outgoing is a mail to be sent.
type Outgoing struct {
	Draft

	ID   string        // its Message-ID without angle brackets
	From *mail.Address // with a bare address
	To   string        // a bare address
	At   time.Time
}

// Extended reports whether an address has other characters than ASCII, which demands SMTPUTF8 (RFC
// 6531).
func (o *Outgoing) Extended() bool { return !plain(o.From.Address) || !plain(o.To) }

// Write writes the mail, with CRLF at the end of each line.
func (o *Outgoing) Write(w io.Writer) error {
	var h mailwriter.Header
	h.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	h.Set("Content-Transfer-Encoding", encodingFor(o.Text))
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
	body, err := mailwriter.CreateSingleInlineWriter(w, h)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(body, lines(o.Text)); err != nil {
		return err
	}
	return body.Close()
}

// lines returns a text with the line ends of mail, of which the last line has one too.
func lines(text string) string {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n", "\r\n")
}

// encodingFor returns the transfer encoding that makes a text shorter.
func encodingFor(text string) string {
	beyond := 0
	for i := range len(text) {
		if text[i] >= 0x80 || text[i] == '=' {
			beyond++
		}
	}
	if beyond > len(text)/6 {
		return encodingBase64
	}
	return encodingQuoted
}
