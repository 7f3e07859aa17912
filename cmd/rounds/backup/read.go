package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// FileError reports a file that cannot be restored: it is truncated, was altered, or is not a
// backup that this program reads.
type FileError struct {
	Line   int // the first wrong line, from 1
	Reason string
}

// Error names the line.
func (e *FileError) Error() string { return fmt.Sprintf("backup: line %d: %s", e.Line, e.Reason) }

// reader reads the lines of a backup, and checks their order, their counts and the checksum.
type reader struct {
	in     *bufio.Reader
	line   int
	counts Counts
	header Header
	parts  []part
	stage  int    // of the parts, in their order
	sum    string // as the trailer has it
}

func (r *reader) wrong(format string, args ...any) error {
	return &FileError{Line: r.line, Reason: fmt.Sprintf(format, args...)}
}

// read calls each with every line between the header and the trailer.
func (r *reader) read(each func(*line) error) error {
	sum := sha256.New()
	for {
		r.line++
		given, err := r.next()
		if err != nil {
			return err
		}
		if given == nil {
			return r.wrong("the file ends here, and has no trailer: it was cut off")
		}
		var l line
		d := json.NewDecoder(bytes.NewReader(given))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			if r.line == 1 {
				return r.wrong("this is not a backup of rounds: it does not begin with a header")
			}
			return r.wrong("cannot be read: %s", reason(err))
		}
		if r.line == 1 {
			if err := r.begin(&l); err != nil {
				return err
			}
		} else if l.End != nil {
			return r.end(l.End, hex.EncodeToString(sum.Sum(nil)))
		} else if err := r.take(&l, each); err != nil {
			return err
		}
		_, _ = sum.Write(given) // a hash takes everything
	}
}

// next returns the next line with its end, or nil at the end of the file.
func (r *reader) next() ([]byte, error) {
	var whole []byte
	for {
		part, err := r.in.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(whole) > maxLine {
				return nil, r.wrong("is longer than %d bytes", maxLine)
			}
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if len(whole) > 0 || !errors.Is(err, io.EOF) {
				return nil, r.wrong("the file ends within the line: it was cut off")
			}
			return nil, nil
		default:
			return nil, fmt.Errorf("backup: line %d: %w", r.line, err)
		}
	}
}

func (r *reader) begin(l *line) error {
	switch {
	case l.Header == nil || l.Header.Is != magic:
		return r.wrong("this is not a backup of rounds: it does not begin with a header")
	case l.Header.Format > format:
		return r.wrong("its format is %d, and this program reads up to %d: it was written by version %s or later, which restores it", l.Header.Format, format, l.Header.Program)
	case l.Header.Format < 1 || l.Header.Shards < 1:
		return r.wrong("its header says format %d and %d shards", l.Header.Format, l.Header.Shards)
	}
	r.header, r.parts = *l.Header, parts(l.Header.Format)
	return nil
}

// take checks one line, counts it and passes it on.
func (r *reader) take(l *line, each func(*line) error) error {
	stage, set := 0, 0
	for i := range r.parts {
		if r.parts[i].there(l) {
			stage = i
			set++
		}
	}
	switch {
	case set != 1 || l.Header != nil:
		return r.wrong("must be exactly one of group, account, message, dead, key, webhook, secret, credential, file, term and end")
	case stage < r.stage:
		return r.wrong("is out of order: a %s cannot follow a %s", r.parts[stage].name, r.parts[r.stage].name)
	}
	r.stage = stage
	*r.parts[stage].count(&r.counts)++
	if err := r.parts[stage].check(l); err != nil {
		return r.wrong("%s", err)
	}
	return each(l)
}

// end checks the trailer.
func (r *reader) end(t *trailer, sum string) error {
	switch {
	case t.SHA256 != sum:
		return r.wrong("the checksum does not match: the file was altered")
	case t.Counts != r.counts:
		return r.wrong("the counts do not match the lines: the file was altered")
	}
	r.sum = sum
	r.line++
	if rest, err := r.next(); err != nil || rest != nil {
		return r.wrong("something follows the trailer")
	}
	return nil
}

// reason returns what is wrong with a line, without the decoder's name.
func reason(err error) string {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "is no JSON"
	}
	return err.Error()
}

// Contents are what a backup has.
type Contents struct {
	Header Header
	Counts
	SHA256 string // as the trailer has it
	// SealedFor has the ids of the public keys for which the backup's secrets and credentials are
	// sealed, and how many are sealed for each.
	SealedFor map[string]int
}

// Verify reads a backup to its end. Its error is a *FileError unless reading failed. progress is
// called now and then, unless it is nil.
func Verify(in io.Reader, progress func(Counts)) (Contents, error) {
	r := newReader(in)
	c := Contents{SealedFor: make(map[string]int)}
	err := r.read(func(l *line) error {
		if r.line%reportEvery == 0 && progress != nil {
			progress(r.counts)
		}
		key := ""
		switch {
		case l.Secret != nil:
			key = l.Secret.Record.Key
		case l.Credential != nil:
			key = l.Credential.Key
		default:
			return nil
		}
		if _, known := c.SealedFor[key]; known || len(c.SealedFor) < mostKeys {
			c.SealedFor[key]++
		}
		return nil
	})
	c.Header, c.Counts, c.SHA256 = r.header, r.counts, r.sum
	return c, err
}

const (
	// reportEvery is the number of lines between two reports of progress.
	reportEvery = 4096
	// mostKeys is the most keys in Contents.
	mostKeys = 16
)

func newReader(in io.Reader) *reader {
	return &reader{in: bufio.NewReaderSize(in, 64<<10)}
}

// Meter counts what is in a backup that is written to it, to show progress. It checks
// nothing, and its Write never fails.
type Meter struct {
	Counts Counts // accounts and messages
	Bytes  int64
	About  Counts // how much there was when the backup was begun; zero before the header

	begin []byte // the beginning of the line
	line  int
}

const (
	accountBegins, messageBegins = `{"account":`, `{"message":`
	mostHeader                   = 64 << 10
)

// Write counts lines by how they begin.
func (m *Meter) Write(text []byte) (int, error) {
	m.Bytes += int64(len(text))
	for rest := text; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		most := len(accountBegins)
		if m.line == 0 {
			most = mostHeader
		}
		if room := most - len(m.begin); room > 0 {
			m.begin = append(m.begin, part[:min(room, len(part))]...)
		}
		if end < 0 {
			break
		}
		m.count()
		rest = rest[end+1:]
	}
	return len(text), nil
}

func (m *Meter) count() {
	switch string(m.begin[:min(len(m.begin), len(accountBegins))]) {
	case accountBegins:
		m.Counts.Accounts++
	case messageBegins:
		m.Counts.Messages++
	default:
		var l line
		if m.line == 0 && json.Unmarshal(m.begin, &l) == nil && l.Header != nil {
			m.About = l.Header.About
		}
	}
	m.line++
	m.begin = m.begin[:0]
}
