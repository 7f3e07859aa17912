package accounts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// lineSource is where an import gets its lines.
type lineSource interface {
	// line returns the next line, which is valid until the next call, or io.EOF at the end.
	line() (Line, error)
	// mayBlock reports whether the next line may not have come yet.
	mayBlock() bool
	// failed returns the error that ends an import because line returned one.
	failed(err error) error
}

// lineReader returns the lines of a text. Its memory is bounded: it skips the rest of a
// line that is too long.
type lineReader struct {
	in     *bufio.Reader
	text   []byte
	number int
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10)}
}

// errLong reports a line that is longer than MaxRecord.
var errLong = errors.New("accounts: line too long")

// next returns the next line that is not blank, without its line feed. The line is valid
// until the next call. At the end next returns io.EOF. The last line may lack its line
// feed. A line in which reading failed is not returned: it may be incomplete.
func (r *lineReader) next() ([]byte, error) {
	for {
		line, err := r.read()
		if err == nil || errors.Is(err, errLong) {
			r.number++
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		return line, err
	}
}

func (r *lineReader) read() ([]byte, error) {
	r.text = r.text[:0]
	long := false
	for {
		part, err := r.in.ReadSlice('\n')
		if !long {
			r.text = append(r.text, part...)
			long = len(r.text) > MaxRecord+1 // the line feed does not count
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.text) > 0:
		case err != nil:
			return nil, err
		}
		if line := bytes.TrimSuffix(r.text, []byte("\n")); !long && len(line) <= MaxRecord {
			return line, nil
		}
		return nil, errLong
	}
}

// mayBlock reports whether the next line may not have come yet.
func (r *lineReader) mayBlock() bool { return r.in.Buffered() == 0 }

func (r *lineReader) line() (Line, error) {
	text, err := r.next()
	if errors.Is(err, errLong) {
		return Line{Number: r.number, Faults: tooLong()}, nil
	}
	return Line{Number: r.number, Record: text}, err
}

func (r *lineReader) failed(err error) error {
	return fmt.Errorf("%w: line %d: %w", ErrInput, r.number+1, err)
}

func tooLong() Faults {
	return Faults{{Field: RecordField, Reason: fmt.Sprintf("must be at most %d bytes", MaxRecord)}}
}

// lineQueue hands on lines that somebody else has read.
type lineQueue struct {
	next func() (Line, error, bool)
	stop func()
}

func newLineQueue(lines iter.Seq2[Line, error]) *lineQueue {
	next, stop := iter.Pull2(lines)
	return &lineQueue{next, stop}
}

func (q *lineQueue) line() (Line, error) {
	line, err, ok := q.next()
	if !ok {
		return Line{}, io.EOF
	}
	return line, err
}

func (*lineQueue) mayBlock() bool { return false }

// failed returns the error as it is: it knows its own place.
func (*lineQueue) failed(err error) error { return err }
