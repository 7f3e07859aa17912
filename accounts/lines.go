package accounts

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineReader returns the lines of a text. Its memory is bounded: it skips the rest of a
// line that is too long.
type lineReader struct {
	in     *bufio.Reader
	line   []byte
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
	r.line = r.line[:0]
	long := false
	for {
		part, err := r.in.ReadSlice('\n')
		if !long {
			r.line = append(r.line, part...)
			long = len(r.line) > MaxRecord+1 // the line feed does not count
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.line) > 0:
		case err != nil:
			return nil, err
		}
		if line := bytes.TrimSuffix(r.line, []byte("\n")); !long && len(line) <= MaxRecord {
			return line, nil
		}
		return nil, errLong
	}
}

// mayBlock reports whether the next line may not have come yet.
func (r *lineReader) mayBlock() bool { return r.in.Buffered() == 0 }
