package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

var errReply = errors.New("a reply of the embedded server cannot be read")

// replies reads what the server replied, in the order of the commands. After an error it
// returns nothing but zero values.
type replies struct {
	rest []byte
	err  error
}

// head returns the first byte of the next reply and the number in its line.
func (r *replies) head() (kind byte, n int) {
	if r.err != nil {
		return 0, 0
	}
	end := bytes.IndexByte(r.rest, '\n')
	if end < 2 {
		r.err = errReply
		return 0, 0
	}
	line := r.rest[:end-1]
	r.rest = r.rest[end+1:]
	kind = line[0]
	if kind == '-' || kind == '+' {
		if kind == '-' {
			r.err = fmt.Errorf("the embedded server says: %s", line[1:])
		}
		return kind, len(line) - 1
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		r.err = errReply
	}
	return kind, n
}

// number returns a number.
func (r *replies) number() int {
	kind, n := r.head()
	if kind != ':' && r.err == nil {
		r.err = errReply
	}
	return n
}

// length returns how many replies follow, those of one array.
func (r *replies) length() int {
	kind, n := r.head()
	if kind != '*' && r.err == nil {
		r.err = errReply
	}
	return max(n, 0)
}

// bulk returns a string, as a part of the reply.
func (r *replies) bulk() []byte {
	kind, n := r.head()
	if r.err != nil || kind != '$' || n < 0 || len(r.rest) < n+2 {
		if r.err == nil {
			r.err = errReply
		}
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n+2:]
	return text
}

// text returns a copy of a string.
func (r *replies) text() string { return string(r.bulk()) }

// status returns what a simple string says.
func (r *replies) status() string {
	before := r.rest
	kind, n := r.head()
	if r.err == nil && kind != '+' {
		r.err = errReply
	}
	if r.err != nil {
		return ""
	}
	return string(before[1 : 1+n])
}

// skip passes over one reply, whatever it is.
func (r *replies) skip() {
	kind, n := r.head()
	switch {
	case r.err != nil:
	case kind == '$' && n >= 0:
		if len(r.rest) < n+2 {
			r.err = errReply
			return
		}
		r.rest = r.rest[n+2:]
	case kind == '*':
		for range max(n, 0) {
			r.skip()
		}
	}
}

// fields returns an array of names and values.
func (r *replies) fields(each func(name string)) {
	for range r.length() / 2 {
		if r.err != nil {
			return
		}
		each(r.text())
	}
}
