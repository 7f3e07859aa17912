package email

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxBoundary is the longest line that can be a boundary. RFC 2046, section 5.1.1 allows 74 bytes.
const maxBoundary = 4 << 10

// The errors of a mail that does not have a section.
var (
	ErrNoMail = errors.New("email: it has no header")
	ErrNoPart = errors.New("email: it has no such part")
)

// In returns the section's content, without the transfer encoding, from a mail that comes piece by
// piece. It counts parts as Parse does, and stores little more than a header. The error is that of mail,
// io.ErrUnexpectedEOF if mail ends before the part, ErrNoMail or ErrNoPart.
func (s Section) In(mail io.Reader) (io.Reader, error) {
	if s.Part == nil {
		return mail, nil
	}
	content, err := walk(bufio.NewReaderSize(mail, maxBoundary), s.Part)
	if err != nil {
		return nil, err
	}
	return s.Decode(content), nil
}

// walk returns the content of the part of a number.
func walk(mail *bufio.Reader, number []int) (io.Reader, error) {
	var hint *hint
	message := true // at a mail, whose parts are counted without one for itself
	for depth := 0; depth <= 2*maxDepth; depth++ {
		h, body, err := readHeader(mail)
		if err != nil {
			return nil, err
		}
		if depth == 0 {
			if h == nil {
				return nil, ErrNoMail
			}
			hint = h.hint()
		}
		kind, params := mediaType(h.get("Content-Type"), hint)
		if strings.HasPrefix(kind, "multipart/") {
			if len(number) == 0 {
				return nil, ErrNoPart
			}
			if mail, err = partOf(body, params["boundary"], number[0]); err != nil {
				return nil, err
			}
			number, message = number[1:], false
			continue
		}
		if message {
			if len(number) == 0 || number[0] != 1 {
				return nil, ErrNoPart
			}
			number = number[1:]
		}
		if len(number) == 0 {
			return body, nil
		}
		if kind != "message/rfc822" && kind != "message/global" {
			return nil, ErrNoPart
		}
		within := Section{Encoding: encodingOf(h)}.Decode(body)
		mail, message = bufio.NewReaderSize(within, maxBoundary), true
	}
	return nil, ErrNoPart
}

// readHeader reads the header of a mail or a part, and returns the body as split does.
func readHeader(from *bufio.Reader) (header, *bufio.Reader, error) {
	var raw []byte
	for {
		line, err := from.ReadSlice('\n')
		begun := len(raw) > 0 && raw[len(raw)-1] != '\n' // the line continues what is there
		raw = append(raw, line...)
		switch {
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, err
		case !errors.Is(err, io.EOF) && len(raw) < MaxRaw && (begun || len(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))) > 0):
			continue
		}
		h, rest := split(raw)
		if len(rest) > 0 {
			from = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), from), maxBoundary)
		}
		return h, from, nil
	}
}

// partOf returns the n-th part between boundaries, counted from 1.
func partOf(body *bufio.Reader, boundary string, n int) (*bufio.Reader, error) {
	if boundary == "" || len(boundary)+4 > maxBoundary {
		return nil, ErrNoPart
	}
	p := &partReader{from: body, boundary: boundary, start: true}
	for ; n > 0; n-- {
		_, err := io.Copy(io.Discard, p)
		switch {
		case err != nil:
			return nil, err
		case !p.ended:
			return nil, io.ErrUnexpectedEOF
		case p.last:
			return nil, ErrNoPart
		}
		p.ended = false
	}
	return bufio.NewReaderSize(p, maxBoundary), nil
}

// partReader reads up to a boundary, as splitParts does.
type partReader struct {
	from     *bufio.Reader
	boundary string
	start    bool   // from is at the start of a line
	line     []byte // with what was held before it
	ready    []byte // of line
	held     []byte // a line break, which may belong to a boundary
	ended    bool   // a boundary was reached,
	last     bool   // the last one
	err      error  // after ready
}

// Read implements io.Reader.
func (p *partReader) Read(to []byte) (int, error) {
	for len(p.ready) == 0 && len(to) > 0 {
		switch {
		case p.ended:
			return 0, io.EOF
		case p.err != nil:
			return 0, p.err
		}
		p.fill()
	}
	n := copy(to, p.ready)
	p.ready = p.ready[n:]
	return n, nil
}

// fill reads a line, or a piece of a long one.
func (p *partReader) fill() {
	line, err := p.from.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		p.err = err
	}
	if p.start {
		if p.ended, p.last = isBoundary(bytes.TrimSuffix(line, []byte("\n")), p.boundary); p.ended {
			p.held = p.held[:0]
			return
		}
	}
	p.start = bytes.HasSuffix(line, []byte("\n"))
	p.line = append(append(p.line[:0], p.held...), line...)
	if p.ready = p.line; p.err == nil {
		p.ready = bytes.TrimSuffix(bytes.TrimSuffix(p.line, []byte("\n")), []byte("\r"))
		p.held = append(p.held[:0], p.line[len(p.ready):]...)
	}
}
