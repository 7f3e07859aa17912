// Package trial describes trials: checks of accounts by hand, whose results are not
// stored. A person tries an account before registering it, and sees what a poller would
// find.
package trial

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// ErrBusy reports that the most trials allowed are already under way.
var ErrBusy = errors.New("trial: too many at once")

// Request says what to try.
type Request struct {
	Account string            // the id that the checker gets
	Kind    string            // a kind that the process knows
	Config  json.RawMessage   // a valid config
	Cursor  []byte            // where to continue; nil: at the beginning
	Labels  map[string]string // the account's, which may decide by which way its calls go
	Hint    json.RawMessage   // as from a nudge; nil: none
	Pages   int               // the most pages to follow while there is more, at least 1
	Limit   int               // messages wanted in one page, at least 1
}

// Report is the result of a trial.
type Report struct {
	Kind    string          `json:"kind"`
	Account string          `json:"account" doc:"The id that the checker got."`
	Config  json.RawMessage `json:"config,omitempty" doc:"The config that was tried, without possible secrets."`
	RateKey string          `json:"rate_key" doc:"What the account shares its limits by: a host or a corporation. Empty: it shares none."`
	Limit   int             `json:"limit" doc:"Messages wanted in one page."`
	Timeout string          `json:"timeout" doc:"How long a page may take."`
	Hold    float64         `json:"hold,omitempty" doc:"How many seconds the third party may hold a poller's call until something comes. A trial does not wait."`
	Pages   []FoundPage     `json:"pages" nullable:"false"`
	Error   *Failure        `json:"error" doc:"What went wrong; null: nothing."`
}

// FoundPage is the result of one call to the third party.
type FoundPage struct {
	Cursor        string         `json:"cursor" doc:"The cursor that it continued from; empty: none."`
	Messages      []FoundMessage `json:"messages" nullable:"false"`
	LeftOut       int            `json:"left_out,omitempty" doc:"Messages that were found but are not shown, because they are too many or too long together."`
	NextCursor    string         `json:"next_cursor" doc:"The cursor that the next check would continue from. It begins with base64: if it is not plain text."`
	HasMore       bool           `json:"has_more" doc:"There is another page."`
	CursorReset   bool           `json:"cursor_reset" doc:"The third party no longer knew the cursor: messages may be missing or repeated."`
	NextPollAfter float64        `json:"next_poll_after" doc:"Seconds until the next check, at least; 0: as the cadence says."`
	Warnings      []string       `json:"warnings,omitempty" doc:"Problems of a page that could still be read, each as a code and a sentence."`
	Milliseconds  int64          `json:"milliseconds" doc:"How long it took."`
}

// FoundMessage is one message that was found.
type FoundMessage struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Time      *time.Time      `json:"time"`
	Data      json.RawMessage `json:"data"`
	DataBytes int             `json:"data_bytes,omitempty" doc:"The length of the data, if it is too long to show; then data is null."`
}

// Failure is a check's error, and a poller's response to it.
type Failure struct {
	Kind         string  `json:"kind" enum:"transient,rate_limited,auth,gone,config,cursor_invalid,protocol" doc:"The kind of failure. It decides what a poller does."`
	Scope        string  `json:"scope" enum:"account,rate_key,egress,way,checker" doc:"What is to blame; way: the way of ROUNDS_EGRESS that the account goes by."`
	Code         string  `json:"code" example:"http_503"`
	Message      string  `json:"message"`
	RetryAfter   float64 `json:"retry_after" doc:"Seconds that the third party asks to wait; 0: it does not say."`
	Final        bool    `json:"final" doc:"With the kind auth: trying again may do harm."`
	Then         Then    `json:"then" enum:"retry,retry_then_park,refusals_then_park,drop_cursor,park" doc:"What a poller does, as a word."`
	Budget       int     `json:"budget,omitempty" doc:"After how many failures or refusals in a row it parks the account."`
	Pool         string  `json:"pool" doc:"What a poller does, in a sentence."`
	Milliseconds int64   `json:"milliseconds" doc:"How long it took."`
}

// Then is a poller's response to a failure.
type Then string

// A poller's responses.
const (
	Retry            Then = "retry"              // checks again; nothing counts against the account
	RetryThenPark    Then = "retry_then_park"    // checks again, and parks the account after Budget failures in a row
	RefusalsThenPark Then = "refusals_then_park" // the same, after Budget refusals of the credential
	DropCursor       Then = "drop_cursor"        // begins without a cursor, and parks the account after Budget failures in a row
	Park             Then = "park"               // parks the account at once
)

// Bound shortens a report to at most that many messages in a page, data bytes of a
// message, and bytes of data in all. It counts every message that it leaves out.
func (r *Report) Bound(messages, data, total int) {
	for i := range r.Pages {
		p := &r.Pages[i]
		for n := range p.Messages {
			m := &p.Messages[n]
			if len(m.Data) > data {
				m.Data, m.DataBytes = nil, len(m.Data)
			}
			size := len(m.ID) + len(m.Type) + len(m.Data)
			if n == messages || size > total {
				p.LeftOut, p.Messages = len(p.Messages)-n, p.Messages[:n]
				break
			}
			total -= size
		}
	}
}

// maxDepth is the deepest nesting at which data is shown as it is, and not as a text.
const maxDepth = 1000

// Shown returns data in the form of a report: as it is, or as a text if it is not JSON,
// or nested too deep for readers.
func Shown(data json.RawMessage) json.RawMessage {
	if data != nil && (!json.Valid(data) || strict.Depth(data) > maxDepth) {
		data, _ = json.Marshal(string(data)) // a string always can
	}
	return data
}

const binaryCursor = "base64:"

// CursorText returns a cursor in the form that ReadCursor reads: as it is, or after
// base64: if it is not one line of plain text.
func CursorText(cursor []byte) string {
	text := string(cursor)
	strange := func(char rune) bool { return !unicode.IsPrint(char) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, strange) || strings.HasPrefix(text, binaryCursor) {
		return binaryCursor + base64.StdEncoding.EncodeToString(cursor)
	}
	return text
}

// errCursor reports a text that is no cursor.
var errCursor = errors.New("the text after base64: is not base64")

// ReadCursor reads what CursorText wrote. The empty text is no cursor. The error is
// errCursor.
func ReadCursor(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if encoded, ok := strings.CutPrefix(text, binaryCursor); ok {
		cursor, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, errCursor
		}
		return cursor, nil
	}
	return []byte(text), nil
}
