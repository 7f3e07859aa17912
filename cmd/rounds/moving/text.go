package moving

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/rounds-dev/rounds/accounts"
)

// Plain returns the text of a list without its byte order mark: UTF-16 with one, as Excel writes
// it, becomes UTF-8.
func Plain(in io.Reader) *bufio.Reader {
	out := bufio.NewReader(in)
	mark, _ := out.Peek(2) // a reader that fails does so again
	switch {
	case bytes.Equal(mark, []byte{0xfe, 0xff}), bytes.Equal(mark, []byte{0xff, 0xfe}):
		return bufio.NewReader(transform.NewReader(out, unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder()))
	case bytes.Equal(mark, []byte{0xef, 0xbb}):
		if mark, _ := out.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
			_, _ = out.Discard(3) // they are there
		}
	}
	return out
}

// labelText returns a text as the value of a label: on one line, and cut where a label ends.
func labelText(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if len(text) <= accounts.MaxLabel {
		return text
	}
	end := accounts.MaxLabel - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// lines counts lines as a document is read.
type lines struct {
	text []byte
	at   int // bytes that were counted
	line int
}

// to returns the line of an offset, which must not be before the last one.
func (l *lines) to(offset int64) int {
	end := min(max(int(offset), l.at), len(l.text))
	l.line += bytes.Count(l.text[l.at:end], []byte("\n"))
	l.at = end
	return l.line + 1
}
