package feed

import (
	"context"
	"io"
)

const (
	// A start tag longer than longTag is watched while it is read, because all its
	// attributes are in memory before the first is seen. A picture in an attribute
	// makes a tag long too, but without many marks.
	longTag      = 32 << 10
	longTagMarks = 8 << 10 // bytes that are = or white space, beyond longTag

	stopEvery = 4 << 10 // bytes after which the context is checked again
)

// source feeds a text to a parser until ctx is done. Nothing else stops a parser.
type source struct {
	ctx  context.Context
	text []byte
	at   int

	token int // where the current token begins; see ReadByte
	marks int // in its part beyond longTag
}

// Read is for the parser, which reads a few KiB at a time.
func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.at == len(s.text) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), stopEvery)], s.text[s.at:])
	s.at += n
	return n, nil
}

// ReadByte is for guard. Its decoder reads no byte after the token that it returns.
func (s *source) ReadByte() (byte, error) {
	if s.at%stopEvery == 0 {
		if err := s.ctx.Err(); err != nil {
			return 0, err
		}
	}
	if s.at == len(s.text) {
		return 0, io.EOF
	}
	char := s.text[s.at]
	s.at++
	if s.at-s.token > longTag && (char == '=' || char == ' ' || char == '\t' || char == '\n' || char == '\r') && s.inTag() {
		if s.marks++; s.marks > longTagMarks {
			return 0, errAttributes
		}
	}
	return char, nil
}

// next notes that another token begins at an offset.
func (s *source) next(at int64) { s.token, s.marks = int(at), 0 }

// inTag reports whether the current token is a start tag.
func (s *source) inTag() bool {
	if s.text[s.token] != '<' || s.token+1 == len(s.text) {
		return false
	}
	second := s.text[s.token+1]
	return second != '!' && second != '?' && second != '/'
}
