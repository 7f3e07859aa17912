package email

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// Section is a file of a mail: one of its parts, or the whole mail.
type Section struct {
	File     poller.File
	Part     []int // as servers count parts (RFC 3501, section 6.4.5); nil: the whole mail
	Encoding string
}

// FilesOf returns the attachments of a mail, and the whole mail if not all of it was read, because it
// may have more of them.
func FilesOf(m *poller.Message) []poller.File {
	return message.FilesOf(sectionsOf(m), func(s *Section) poller.File { return s.File })
}

// SectionAt returns the file of a mail that a fetch asks for. The error says that there is no such file.
func SectionAt(r poller.FileRequest) (Section, *poller.CheckError) {
	return message.FileAt(sectionsOf(r.Message), r)
}

// sectionsOf returns the files of a mail.
func sectionsOf(m *poller.Message) (all []Section) {
	fields := message.Fields(m)
	var listed []json.RawMessage
	_ = json.Unmarshal(fields["attachments"], &listed) // what is no array has none
	for _, raw := range listed {
		var a Attachment
		if json.Unmarshal(raw, &a) != nil || len(all) == poller.MaxFiles-1 {
			continue
		}
		if part, ok := parsePart(a.Part); ok {
			all = append(all, Section{poller.CleanFile(poller.File{Name: a.Name, Type: a.Type, Size: int64(a.Size)}), part, a.Encoding})
		}
	}
	var size int64
	if json.Unmarshal(fields["size"], &size) == nil && (size > MaxRaw || size == 0) {
		all = append(all, Section{File: poller.File{Name: "mail.eml", Type: "message/rfc822", Size: size}})
	}
	return all
}

// parsePart reads a part's number, such as 2.1.
func parsePart(text string) (part []int, ok bool) {
	for number := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxParts+1 || len(part) > 2*maxDepth || strconv.Itoa(n) != number {
			return nil, false
		}
		part = append(part, n)
	}
	return part, true
}

// Decode takes the transfer encoding of the section's content away while it is read.
func (s Section) Decode(content io.Reader) io.Reader {
	switch s.Encoding {
	case encodingBase64:
		return &base64Reader{from: content}
	case encodingQuoted:
		return &quotedReader{from: bufio.NewReader(content)}
	}
	return content
}

// base64Reader is decodeBase64 for what comes piece by piece.
type base64Reader struct {
	from  io.Reader
	raw   [4 << 10]byte
	group []byte // base64 that is no whole group of 4 yet, or not decoded
	ready []byte // decoded
	err   error  // after ready
}

// Read implements io.Reader.
func (r *base64Reader) Read(p []byte) (int, error) {
	for len(p) > 0 && len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

func (r *base64Reader) fill() {
	n, err := r.from.Read(r.raw[:])
	r.ready, r.err = r.ready[:0], err
	for _, b := range r.raw[:n] {
		switch {
		case b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '+', b == '/':
			r.group = append(r.group, b)
		case b == '=':
			r.flush(len(r.group))
		}
	}
	if err != nil {
		r.flush(len(r.group))
	} else {
		r.flush(len(r.group) / 4 * 4)
	}
}

// flush decodes the first bytes of the group.
func (r *base64Reader) flush(n int) {
	whole := n
	if n%4 == 1 {
		whole-- // 6 bits are no byte
	}
	r.ready, _ = base64.RawStdEncoding.AppendDecode(r.ready, r.group[:whole]) // it has no other characters
	r.group = append(r.group[:0], r.group[n:]...)
}

// quotedReader is decodeQuoted for what comes piece by piece.
type quotedReader struct{ from *bufio.Reader }

// maxBlank is how many blanks may be between an equals sign and the end of its line.
const maxBlank = 1 << 10

// Read implements io.Reader. It returns some bytes when no more can be had without waiting.
func (r *quotedReader) Read(p []byte) (n int, err error) {
	for n < len(p) && (n == 0 || r.from.Buffered() > 0) {
		b, err := r.from.ReadByte()
		if err != nil {
			return n, err
		}
		if b == '=' {
			var kept bool
			if b, kept, err = r.escaped(); err != nil {
				return n, err
			}
			if !kept {
				continue
			}
		}
		p[n] = b
		n++
	}
	return n, nil
}

// escaped reads what follows an equals sign; kept is false if that is the end of a line. An error is
// kept for the next read, unless it comes before the end.
func (r *quotedReader) escaped() (b byte, kept bool, err error) {
	if next, _ := r.from.Peek(2); len(next) == 2 {
		if b, err := strconv.ParseUint(string(next), 16, 8); err == nil {
			_, _ = r.from.Discard(2)
			return byte(b), true, nil
		}
	}
	for blanks := 1; blanks <= maxBlank; blanks++ {
		next, err := r.from.Peek(blanks)
		if len(next) < blanks {
			if errors.Is(err, io.EOF) {
				_, _ = r.from.Discard(len(next))
				return 0, false, nil
			}
			return 0, false, err
		}
		switch next[blanks-1] {
		case ' ', '\t', '\r':
		case '\n':
			_, _ = r.from.Discard(blanks)
			return 0, false, nil
		default:
			return '=', true, nil
		}
	}
	return '=', true, nil
}
