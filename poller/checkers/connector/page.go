package connector

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

const (
	maxData   = 256 << 10 // bytes of a message's data
	maxCursor = 64 << 10  // bytes
	maxName   = 256       // bytes of an id or a type
	maxWait   = 366 * 24 * time.Hour

	// memory is how many bytes of memory each byte of an answer needs while the answer
	// is parsed, level by level.
	memory = 5
)

// limits are the limits of an answer. A message's data stays unparsed, so only its
// depth counts.
var limits = strict.Limits{Depth: 128, Values: 50_000, Within: 3}

// capError is the error for a field that is too long.
type capError struct {
	field string
	most  int // bytes
}

// Error names the field and its cap.
func (e *capError) Error() string { return fmt.Sprintf("%s: over %d bytes", e.field, e.most) }

// An object is a JSON object that is read field by field. Names must match exactly,
// null counts as missing, and unknown fields are ignored, so that newer connectors
// work.
type object map[string]json.RawMessage

func (o object) take(name string) json.RawMessage {
	if raw := o[name]; string(raw) != "null" {
		return raw
	}
	return nil
}

func (o object) flag(name string) (value bool, err error) {
	if raw := o.take(name); raw != nil && json.Unmarshal(raw, &value) != nil {
		return false, fmt.Errorf("%s: must be true or false", name)
	}
	return value, nil
}

func (o object) text(name string) (value string, err error) {
	if raw := o.take(name); raw != nil && json.Unmarshal(raw, &value) != nil {
		return "", fmt.Errorf("%s: must be a string", name)
	}
	return value, nil
}

// seconds reads a wait in seconds. It returns false if the field is missing.
func (o object) seconds(name string) (time.Duration, bool, error) {
	raw := o.take(name)
	if raw == nil {
		return 0, false, nil
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || seconds < 0 || seconds > maxWait.Seconds() {
		return 0, false, fmt.Errorf("%s: must be a number of seconds from 0 to %.0f", name, maxWait.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), true, nil
}

// decode reads an answer with a status of success. It returns a page, or a
// *reportedError if the answer has an error object. Any other error refuses the whole
// page; it names the field that breaks the rules and quotes nothing.
func decode(body []byte, limit int) (poller.Result, error) {
	if !utf8.Valid(body) {
		return poller.Result{}, errNotUTF8
	}
	if _, err := limits.Check(body); err != nil {
		return poller.Result{}, err
	}
	var o object
	if json.Unmarshal(body, &o) != nil || o == nil {
		return poller.Result{}, errNotObject
	}
	if raw := o.take("error"); raw != nil {
		return poller.Result{}, decodeError(raw, o)
	}
	return decodePage(o, limit)
}

func decodePage(o object, limit int) (result poller.Result, err error) {
	var wrong string
	if result.Messages, wrong, err = decodeMessages(o, limit); err != nil {
		return poller.Result{}, err
	}
	if cursor := o.take("next_cursor"); cursor != nil {
		if len(cursor) > maxCursor {
			return poller.Result{}, &capError{"next_cursor", maxCursor}
		}
		result.Cursor = cursor
	}
	if result.HasMore, err = o.flag("has_more"); err != nil {
		return poller.Result{}, err
	}
	if result.CursorReset, err = o.flag("cursor_reset"); err != nil {
		return poller.Result{}, err
	}
	if result.NextPollAfter, _, err = o.seconds("next_poll_after"); err != nil {
		return poller.Result{}, err
	}
	if result.Hold, _, err = o.seconds("hold"); err != nil {
		return poller.Result{}, err
	}
	result.Hold = min(result.Hold, maxHold)
	if wrong := cmp.Or(misspeltIn("", o, pageFields), wrong); wrong != "" {
		result.Warnings = []poller.Warning{{Code: "field_name", Message: wrong}}
	}
	return result, nil
}

// decodeMessages returns a page's messages. If a message has a misspelt field, it also returns what
// misspeltIn says about the first one.
func decodeMessages(o object, limit int) (messages []poller.Message, wrong string, err error) {
	raw, ok := o["messages"]
	if !ok {
		// Otherwise any JSON object would count as an empty page.
		return nil, "", errors.New("messages: missing")
	}
	var list []json.RawMessage // null is an empty list in many languages
	if json.Unmarshal(raw, &list) != nil {
		return nil, "", errors.New("messages: must be an array")
	}
	if limit > 0 && len(list) > limit {
		return nil, "", fmt.Errorf("messages: %d of them, over the limit of %d", len(list), limit)
	}
	messages = make([]poller.Message, 0, len(list))
	ids := make(map[string]struct{}, len(list))
	for i, raw := range list {
		m, fields, err := decodeMessage(raw)
		if err != nil {
			return nil, "", fmt.Errorf("messages[%d]%w", i, err)
		}
		if _, twice := ids[m.ID]; twice {
			return nil, "", fmt.Errorf("messages[%d].id: comes twice on this page", i)
		}
		ids[m.ID] = struct{}{}
		if wrong == "" {
			wrong = misspeltIn(fmt.Sprintf("messages[%d].", i), fields, messageFields)
		}
		messages = append(messages, m)
	}
	return messages, wrong, nil
}

// decodeMessage reads one message, and also returns its fields. An error begins with a dot and the
// field's name.
func decodeMessage(raw json.RawMessage) (m poller.Message, o object, err error) {
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return m, nil, errors.New(": must be an object")
	}
	if m.ID, err = o.name("id"); err != nil {
		return m, nil, fmt.Errorf(".%w", err)
	}
	if m.ID == "" {
		return m, nil, errors.New(".id: missing")
	}
	if m.Type, err = o.name("type"); err != nil {
		return m, nil, fmt.Errorf(".%w", err)
	}
	at, err := o.text("time")
	if err != nil {
		return m, nil, fmt.Errorf(".%w", err)
	}
	if at != "" {
		if m.Time, err = time.Parse(time.RFC3339, at); err != nil || m.Time.UTC().Year() < 1 || m.Time.UTC().Year() > 9999 {
			return m, nil, errors.New(".time: must be RFC 3339, as in 2026-01-31T12:00:00Z")
		}
		m.Time = m.Time.UTC()
	}
	data, ok := o["data"]
	if !ok {
		return m, nil, errors.New(".data: missing")
	}
	if len(data) > maxData {
		return m, nil, &capError{".data", maxData}
	}
	m.Data = data
	return m, o, nil
}

// name reads a short text of one line.
func (o object) name(field string) (string, error) {
	text, err := o.text(field)
	switch {
	case err != nil:
		return "", err
	case len(text) > maxName:
		return "", &capError{field, maxName}
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", fmt.Errorf("%s: must not hold control characters", field)
	}
	return text, nil
}
