package imap

import (
	"errors"
	"io"
	"strings"

	"github.com/emersion/go-imap/v2"
)

const (
	maxGreeting = 8 << 10 // bytes of a line before TLS
	maxUntagged = 16      // lines before the answer to STARTTLS
	startTag    = "S1"
)

var errPlain = errors.New("imap: not usable before TLS")

// upgrade asks a newly connected server to begin TLS (RFC 3501, section 6.2.1). It
// reads byte by byte, and no byte after the answer, so that plain bytes are never taken
// for encrypted ones. The library's own STARTTLS is not used, because its reads cannot
// be checked.
func upgrade(conn io.ReadWriter) error {
	greeting, err := readLine(conn)
	if err != nil {
		return err
	}
	tag, status := statusOf(greeting)
	if tag == "*" && status.Type == imap.StatusResponseTypeBye {
		return &status
	}
	if tag != "*" || status.Type != imap.StatusResponseTypeOK {
		return errPlain // also PREAUTH, which would come from somebody in the middle
	}
	if _, err := io.WriteString(conn, startTag+" STARTTLS\r\n"); err != nil {
		return err
	}
	for range maxUntagged {
		line, err := readLine(conn)
		if err != nil {
			return err
		}
		switch tag, status := statusOf(line); {
		case tag == "*" && status.Type == imap.StatusResponseTypeBye:
			return &status
		case tag == "*":
		case tag != startTag:
			return errPlain
		case status.Type == imap.StatusResponseTypeOK:
			return nil
		case status.Type == imap.StatusResponseTypeNo, status.Type == imap.StatusResponseTypeBad:
			// Servers without STARTTLS may answer BAD. That is a refusal.
			return &imap.Error{Type: imap.StatusResponseTypeNo, Code: status.Code, Text: status.Text}
		default:
			return errPlain
		}
	}
	return errPlain
}

func readLine(r io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxGreeting; line = append(line, one[0]) {
		if _, err := io.ReadFull(r, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
	}
	return "", errPlain
}

// statusOf reads a status line: TAG TYPE [CODE …] TEXT.
func statusOf(line string) (tag string, status imap.Error) {
	tag, rest, _ := strings.Cut(line, " ")
	kind, text, _ := strings.Cut(rest, " ")
	status.Type = imap.StatusResponseType(strings.ToUpper(kind))
	if code, ok := strings.CutPrefix(text, "["); ok {
		code, text, _ = strings.Cut(code, "]")
		code, _, _ = strings.Cut(code, " ")
		status.Code = imap.ResponseCode(code)
	}
	status.Text = strings.TrimSpace(text)
	return tag, status
}
