package weixin

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// limits bound an answer before it is parsed. Its messages stay unparsed. Their content is judged
// one by one, so that one bad message does not cost the others.
var limits = strict.Limits{Depth: 9000, Values: 20_000, Within: 2}

// page is a parsed answer.
type page struct {
	code  int64 // errcode, or ret; 0: success
	msgs  []json.RawMessage
	buf   string // empty: unchanged
	hold  time.Duration
	warns []poller.Warning
}

// parse reads an answer. Fields of an unexpected type count as missing, because the server does not
// give the fields beside them again. Bytes that are not UTF-8 are replaced.
func parse(body []byte) (*page, error) {
	if _, err := limits.Check(body); err != nil {
		return nil, err
	}
	p := new(page)
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
		p.warn("utf8", "bytes that are not UTF-8 were replaced")
	}
	if !json.Valid(body) {
		return nil, errors.New("is not JSON")
	}
	fields, ok := strict.Members(body)
	if !ok {
		return nil, errors.New("is not an object")
	}
	ret, known := number(fields["ret"])
	errcode, knownToo := number(fields["errcode"])
	if p.code = errcode; p.code == 0 {
		p.code = ret
	}
	raw, has := fields["msgs"]
	if !known && !knownToo && !has {
		return nil, errors.New("has neither ret nor errcode nor msgs")
	}
	if has && !strict.IsNull(raw) && json.Unmarshal(raw, &p.msgs) != nil {
		p.warn("malformed", "msgs is not an array, and is kept as one message")
		p.msgs = []json.RawMessage{raw}
	}
	if buf, ok := textOf(fields["get_updates_buf"]); ok {
		p.buf = buf
	}
	if ms, ok := number(fields["longpolling_timeout_ms"]); ok && ms > 0 {
		p.hold = min(time.Duration(min(ms, maxHold.Milliseconds()))*time.Millisecond, maxHold)
	}
	return p, nil
}

func (p *page) warn(code, text string) {
	p.warns = append(p.warns, poller.Warning{Code: code, Message: text})
}

// result returns the page for the pool. The pool refuses nothing in it.
func (p *page) result(before string) poller.Result {
	r := poller.Result{Messages: make([]poller.Message, 0, len(p.msgs)), Hold: p.hold}
	known := make(map[string]string, len(p.msgs)) // by id, the data
	for _, raw := range p.msgs {
		m, fault := readMessage(raw)
		if fault != "" {
			p.warn("malformed", fault)
		}
		if data, twice := known[m.ID]; twice {
			if data == string(raw) {
				continue // one of two identical messages is enough
			}
			m.ID, m.NoID = message.ID(raw), true // another message with the same id must not be taken for this one
		}
		known[m.ID] = string(raw)
		r.Messages = append(r.Messages, m)
	}
	switch {
	case len(p.buf) > maxBuf:
		p.warn("cursor", "the server's cursor has more than 60 KiB, and the one before is kept")
	case p.buf != "" && p.buf != before:
		r.Cursor = encodeCursor(p.buf)
	}
	r.Warnings = p.warns
	return r
}

// number reads a whole number, which may be written as a string.
func number(raw json.RawMessage) (int64, bool) {
	text := string(raw)
	if quoted, ok := textOf(raw); ok {
		text = quoted
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// textOf reads a string.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	return strict.Text(raw)
}
