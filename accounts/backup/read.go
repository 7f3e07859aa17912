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

// FileError reports a file that cannot be restored: it is truncated, was altered, or is no
// backup that this program reads.
type FileError struct {
	Line   int // the first line that is wrong, from 1
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
	stage  int // of the parts, in their order
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
				return r.wrong("this is no backup of rounds: it does not begin with a header")
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
		case errors.Is(err, io.EOF):
			if len(whole) > 0 {
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
		return r.wrong("this is no backup of rounds: it does not begin with a header")
	case l.Header.Format > Format:
		return r.wrong("its format is %d, and this program reads up to %d: it was written by version %s or later, which restores it", l.Header.Format, Format, l.Header.Program)
	case l.Header.Format < 1 || l.Header.Shards < 1:
		return r.wrong("its header says format %d and %d shards", l.Header.Format, l.Header.Shards)
	}
	r.header = *l.Header
	return nil
}

// take checks one line, counts it and passes it on.
func (r *reader) take(l *line, each func(*line) error) error {
	stage, set := 0, 0
	for i, part := range []struct {
		there bool
		count *int
	}{{l.Group != nil, &r.counts.Groups}, {l.Account != nil, &r.counts.Accounts}, {l.Message != nil, &r.counts.Messages}, {l.Dead != nil, &r.counts.Dead}} {
		if part.there {
			*part.count++
			stage = i
			set++
		}
	}
	switch {
	case set != 1 || l.Header != nil:
		return r.wrong("must have exactly one of group, account, message, dead and end")
	case stage < r.stage:
		return r.wrong("is out of order")
	}
	r.stage = stage
	if err := each(l); err != nil {
		var wrong *FileError
		if errors.As(err, &wrong) {
			wrong.Line = r.line
		}
		return err
	}
	return nil
}

// end checks the trailer.
func (r *reader) end(t *Trailer, sum string) error {
	switch {
	case t.SHA256 != sum:
		return r.wrong("the checksum is not that of the lines before: the file was altered")
	case t.Counts != r.counts:
		return r.wrong("the counts are not those of the lines before: the file was altered")
	}
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

// Verify reads a backup to its end, and returns its header and counts. Its error is a
// *FileError unless reading failed.
func Verify(in io.Reader) (Header, Counts, error) {
	r := &reader{in: bufio.NewReaderSize(in, 64<<10)}
	err := r.read(check)
	return r.header, r.counts, err
}

// check returns what is wrong with a line that can be read.
func check(l *line) error {
	var err error
	switch {
	case l.Account != nil:
		_, err = l.Account.archived()
	case l.Message != nil:
		_, _, err = l.Message.found()
	case l.Group != nil:
		_, err = l.Group.position()
	}
	if err != nil {
		return &FileError{Reason: err.Error()}
	}
	return nil
}
