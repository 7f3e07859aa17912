package datadir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// damagedError reports that an image is truncated, was altered, or is no image.
type damagedError struct {
	Line   int // the first wrong line, from 1; 0: the fault is not in one line
	Reason string
}

// Error names the line.
func (e *damagedError) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// newerError reports that an image has a later format than this program reads. The image
// is not damaged.
type newerError struct{ Header Header }

// Error names the version that is needed.
func (e *newerError) Error() string {
	needs := "a later version"
	if e.Header.Program != "" {
		needs = "version " + e.Header.Program + " or later"
	}
	return fmt.Sprintf("its format is %d, and this program reads up to %d: it needs %s, which wrote it", e.Header.Format, format, needs)
}

// reader reads lines, and checks their order, their counts and the checksum.
type reader struct {
	in     *bufio.Reader
	number int
	header Header
	counts Counts
	kind   string // of the key before; empty: there is none
}

func (r *reader) damaged(format string, args ...any) error {
	return &damagedError{Line: r.number, Reason: fmt.Sprintf(format, args...)}
}

// verify reads an image to its end. Its error is a *damagedError or a *newerError, unless
// reading in failed.
func verify(in io.Reader) (Header, Counts, error) {
	r, err := openImage(in, func(*line) error { return nil })
	return r.header, r.counts, err
}

// openImage reads a packed image, and calls each for every line of a key. The header
// comes first: a later format may end differently.
func openImage(in io.Reader, each func(*line) error) (*reader, error) {
	r := &reader{}
	image, err := io.ReadAll(in)
	if err != nil {
		return r, err
	}
	lines, wrong, err := unpack(image)
	if err != nil {
		return r, &damagedError{Reason: err.Error()}
	}
	defer lines.Close()
	r.in = bufio.NewReaderSize(lines, 64<<10)
	err = r.head()
	if later := new(newerError); wrong != nil && !errors.As(err, &later) {
		return r, &damagedError{Reason: wrong.Error()}
	}
	if err == nil {
		err = r.read(each)
	}
	return r, err
}

// line reads the next line.
func (r *reader) line() (l line, err error) {
	r.number++
	given, err := r.next()
	if err != nil {
		return l, err
	}
	d := json.NewDecoder(bytes.NewReader(given))
	if r.number > 1 { // the header of a later format may have more fields
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&l); err != nil {
		return l, r.damaged("cannot be read: %v", err)
	}
	if err := l.unpack(); err != nil {
		return l, r.damaged("%v", err)
	}
	return l, nil
}

// read reads all lines after the header, and calls each for every line of a key.
func (r *reader) read(each func(*line) error) error {
	for {
		l, err := r.line()
		switch {
		case err != nil:
			return err
		case l.End != nil:
			return r.end(&l)
		}
		if err := r.check(&l); err != nil {
			return err
		}
		if err := each(&l); err != nil {
			return err
		}
	}
}

// next returns the next line with its end.
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
				return nil, r.damaged("is longer than %d bytes", maxLine)
			}
		case errors.Is(err, io.EOF):
			return nil, r.damaged("the lines end here: it was cut off")
		default:
			return nil, r.damaged("cannot be unpacked: %v", err)
		}
	}
}

// head reads the header.
func (r *reader) head() error {
	l, err := r.line()
	switch {
	case err != nil:
		return err
	case l.Header == nil || l.Header.Is != magic:
		return r.damaged("this is not data of rounds: it does not begin with a header")
	case l.Header.Format > format:
		return &newerError{*l.Header}
	case l.Header.Format < 1:
		return r.damaged("its header says format %d", l.Header.Format)
	}
	r.header = *l.Header
	return nil
}

// check checks and counts one line.
func (r *reader) check(l *line) error {
	values := l.More
	switch {
	case l.Header != nil || (l.Key != nil) == (l.More != nil):
		return r.damaged("must have exactly one of key, more and end")
	case l.Key != nil:
		r.kind, values = l.Key.Type, l.Key.Values
		r.counts.Keys++
		if contents(r.kind, "") == nil {
			return r.damaged("type: %q is not known", r.kind)
		}
		if r.kind != kindStream && (len(l.Key.Groups) > 0 || l.Key.Last+l.Key.First != "") {
			return r.damaged("a %s has no groups", r.kind)
		}
	case r.kind == "" || r.kind == kindString:
		return r.damaged("more: there is no key that it could belong to")
	}
	r.counts.Values += len(values)
	switch r.kind {
	case kindString:
		if len(values) != 1 {
			return r.damaged("a string has %d values", len(values))
		}
	case kindHash, kindZSet:
		if len(values)%2 != 0 {
			return r.damaged("a %s has an odd number of values", r.kind)
		}
	case kindStream:
		for rest := values; len(rest) > 0; {
			var err error
			if _, _, rest, err = entry(rest); err != nil {
				return r.damaged("%v", err)
			}
		}
	}
	return nil
}

func (r *reader) end(l *line) error {
	switch {
	case l.Header != nil || l.Key != nil || l.More != nil:
		return r.damaged("must have exactly one of key, more and end")
	case *l.End != r.counts:
		return r.damaged("the counts do not match the lines")
	}
	r.number++
	if b, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return r.damaged("cannot be unpacked: %v", err)
		}
		return r.damaged("%q follows the end", b)
	}
	return nil
}
