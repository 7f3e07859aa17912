package backup

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// format is the latest version of the format that this program reads. It writes it if endpoints
	// were added while the service ran, or messages keep their traces, formatTerms if there are
	// maintenance windows or saved views, or people have said something about concerns, formatFiles if
	// there is a list of files, formatMemory if any account remembers messages, and otherwise
	// formatForgetful: the earliest versions of the program that read them know no more.
	format          = 6
	formatTerms     = 5
	formatFiles     = 4
	formatMemory    = 3
	formatForgetful = 2
	// magic says in the header what the file is.
	magic = "rounds backup"
	// maxLine is the most bytes of a line: an account with all sends that wait.
	maxLine = 64 << 20
)

// Header is the first line of a backup.
type Header struct {
	Is        string    `json:"is"`
	Format    int       `json:"format"`
	Program   string    `json:"program,omitempty"` // the version of the program that wrote it
	Namespace string    `json:"namespace"`
	Shards    int       `json:"shards"`
	Time      time.Time `json:"time"` // when the backup was begun, by Redis' clock
	// About is roughly how much there was when the backup was begun, to show progress.
	About Counts `json:"about,omitzero"`
}

// Counts are how many things of each sort a backup has.
type Counts struct {
	Groups      int `json:"groups,omitempty"` // a group counts once for each shard that has it
	Accounts    int `json:"accounts,omitempty"`
	Messages    int `json:"messages,omitempty"`
	Dead        int `json:"dead,omitempty"`
	Keys        int `json:"keys,omitempty"`
	Webhooks    int `json:"webhooks,omitempty"` // disabled endpoints
	Secrets     int `json:"secrets,omitempty"`
	Credentials int `json:"credentials,omitempty"`
	Files       int `json:"files,omitempty"`     // rows of the list of files, without their bytes
	Terms       int `json:"terms,omitempty"`     // maintenance windows, saved views, and what people have said about concerns
	Endpoints   int `json:"endpoints,omitempty"` // that were added while the service ran
}

// trailer is the last line of a backup.
type trailer struct {
	Counts
	SHA256 string `json:"sha256"` // of all lines before the trailer, in hexadecimal
}

// line is one line of a backup. Exactly one field is set.
type line struct {
	Header     *Header         `json:"header,omitempty"`
	Group      *groupLine      `json:"group,omitempty"`
	Account    *accountLine    `json:"account,omitempty"`
	Message    *messageLine    `json:"message,omitempty"`
	Dead       *deadLine       `json:"dead,omitempty"`
	Key        *keyLine        `json:"key,omitempty"`
	Webhook    *webhookLine    `json:"webhook,omitempty"`
	Secret     *secretLine     `json:"secret,omitempty"`
	Credential *credentialLine `json:"credential,omitempty"`
	File       *fileLine       `json:"file,omitempty"`
	Term       *termLine       `json:"term,omitempty"`
	Endpoint   *endpointLine   `json:"endpoint,omitempty"`
	End        *trailer        `json:"end,omitempty"`
}

// part is one sort of line between the header and the trailer.
type part struct {
	name  string
	there func(*line) bool
	count func(*Counts) *int
	check func(*line) error // what is wrong with it
}

// parts are in the order in which a backup of a format has them. Format 1 has dead letters after
// the messages, and so misses letters that are replayed in between.
func parts(format int) []part {
	all := []part{
		{"group", func(l *line) bool { return l.Group != nil }, func(c *Counts) *int { return &c.Groups }, func(l *line) error {
			_, err := l.Group.position()
			return err
		}},
		{"account", func(l *line) bool { return l.Account != nil }, func(c *Counts) *int { return &c.Accounts }, func(l *line) error {
			_, err := l.Account.archived()
			return err
		}},
		{"dead", func(l *line) bool { return l.Dead != nil }, func(c *Counts) *int { return &c.Dead }, func(l *line) error { return l.Dead.check() }},
		{"message", func(l *line) bool { return l.Message != nil }, func(c *Counts) *int { return &c.Messages }, func(l *line) error {
			_, _, err := l.Message.found()
			return err
		}},
		{"key", func(l *line) bool { return l.Key != nil }, func(c *Counts) *int { return &c.Keys }, func(l *line) error { return l.Key.check() }},
		{"webhook", func(l *line) bool { return l.Webhook != nil }, func(c *Counts) *int { return &c.Webhooks }, func(l *line) error { return l.Webhook.check() }},
		{"secret", func(l *line) bool { return l.Secret != nil }, func(c *Counts) *int { return &c.Secrets }, func(l *line) error { return l.Secret.check() }},
		{"credential", func(l *line) bool { return l.Credential != nil }, func(c *Counts) *int { return &c.Credentials }, func(l *line) error { return l.Credential.check() }},
		{"file", func(l *line) bool { return l.File != nil }, func(c *Counts) *int { return &c.Files }, func(l *line) error { return l.File.check() }},
		{"term", func(l *line) bool { return l.Term != nil }, func(c *Counts) *int { return &c.Terms }, func(l *line) error { return l.Term.check() }},
		{"endpoint", func(l *line) bool { return l.Endpoint != nil }, func(c *Counts) *int { return &c.Endpoints }, func(l *line) error { return l.Endpoint.check() }},
	}
	if dead := 2; format == 1 {
		all[dead], all[dead+1] = all[dead+1], all[dead]
	}
	return all
}

type accountLine struct {
	ID       string          `json:"id"`
	Place    string          `json:"place"`
	At       int64           `json:"at,omitempty"` // unix ms
	Line     text            `json:"line"`
	Record   json.RawMessage `json:"record,omitempty"`
	Raw      text            `json:"raw,omitempty"` // a record that is not JSON, or whose bytes would change as JSON
	Cursor   text            `json:"cursor,omitempty"`
	Failures text            `json:"failures,omitempty"`
	Strikes  text            `json:"strikes,omitempty"`
	State    text            `json:"state,omitempty"`
	Error    text            `json:"error,omitempty"`
	Reason   text            `json:"reason,omitempty"`
	Sends    []byte          `json:"sends,omitempty"` // what circulate.Archive packs

	// What it remembers of its messages, as circulate.Archived has it. Format 3 added it.
	KnownFor       text `json:"known_for,omitempty"`
	Known          text `json:"known,omitempty"`
	KnownBeforeFor text `json:"known_before_for,omitempty"`
	KnownBefore    text `json:"known_before,omitempty"`
}

type messageLine struct {
	At      string          `json:"at"` // its position in its shard
	Account string          `json:"account"`
	Kind    string          `json:"kind,omitempty"`
	ID      string          `json:"id"`
	Type    string          `json:"type,omitempty"`
	Time    time.Time       `json:"time,omitzero"`
	Data    json.RawMessage `json:"data,omitempty"`
	Raw     text            `json:"raw,omitempty"`   // data whose bytes would change as JSON
	Only    string          `json:"only,omitempty"`  // the group that it is for
	First   string          `json:"first,omitempty"` // the position that it had before it was replayed
	Event   bool            `json:"event,omitempty"`
	Trace   string          `json:"trace,omitempty"` // a traceparent; format 6 added it
}

type deadLine struct {
	Fields []text `json:"fields"`
}

func (l *deadLine) check() error {
	if len(l.Fields) == 0 || len(l.Fields)%2 != 0 {
		return fmt.Errorf("dead: has %d fields, must have names and values in turns", len(l.Fields))
	}
	return nil
}

// text is any bytes as JSON: a string, or {"base64": …} if the bytes are not UTF-8.
type text string

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if simple(string(t)) {
		quoted := make([]byte, 0, len(t)+2)
		return append(append(append(quoted, '"'), t...), '"'), nil
	}
	if utf8.ValidString(string(t)) {
		return plain(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// simple reports whether a text is the same between quotes. Most texts are, and need no encoder.
func simple[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(given []byte) error {
	if n := len(given); n >= 2 && given[0] == '"' && simple(given[1:n-1]) {
		*t = text(given[1 : n-1])
		return nil
	}
	var s string
	if json.Unmarshal(given, &s) == nil {
		*t = text(s)
		return nil
	}
	var packed struct {
		Base64 *string `json:"base64"`
	}
	d := json.NewDecoder(bytes.NewReader(given))
	d.DisallowUnknownFields()
	if err := d.Decode(&packed); err != nil || packed.Base64 == nil {
		return fmt.Errorf("must be a string or {\"base64\": …}")
	}
	decoded, err := base64.StdEncoding.DecodeString(*packed.Base64)
	*t = text(decoded)
	return err
}

// plain returns JSON without the escapes that only HTML needs.
func plain(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// stays reports whether JSON keeps its bytes when it is written and read as a part of a line.
// Compact JSON does.
func stays(value []byte) bool {
	if len(value) == 0 || !utf8.Valid(value) {
		return false
	}
	var compact bytes.Buffer
	compact.Grow(len(value))
	return json.Compact(&compact, value) == nil && bytes.Equal(compact.Bytes(), value)
}

// milli returns a time in unix ms, or 0 for the zero time.
func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func ofMilli(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func accountOf(a *circulate.Archived) *accountLine {
	l := &accountLine{
		ID: a.ID, Place: string(a.Standing), Line: text(a.Line), Cursor: text(a.Cursor), Failures: text(a.Failures),
		Strikes: text(a.Strikes), State: text(a.State), Error: text(a.Error), Reason: text(a.Reason), At: milli(a.At), Sends: []byte(a.Sends),
		KnownFor: text(a.KnownFor), Known: text(a.Known), KnownBeforeFor: text(a.KnownBeforeFor), KnownBefore: text(a.KnownBefore),
	}
	if stays([]byte(a.Record)) {
		l.Record = json.RawMessage(a.Record)
	} else {
		l.Raw = text(a.Record)
	}
	return l
}

func (l *accountLine) archived() (circulate.Archived, error) {
	a := circulate.Archived{
		ID: l.ID, Line: string(l.Line), Record: string(l.Record) + string(l.Raw), Cursor: string(l.Cursor), Failures: string(l.Failures),
		Strikes: string(l.Strikes), State: string(l.State), Error: string(l.Error), Reason: string(l.Reason), Sends: string(l.Sends),
		KnownFor: string(l.KnownFor), Known: string(l.Known), KnownBeforeFor: string(l.KnownBeforeFor), KnownBefore: string(l.KnownBefore),
	}
	switch {
	case l.ID == "":
		return a, fmt.Errorf("account: has no id")
	case len(l.Place) != 1 || l.Place != string(circulate.StandsScheduled) && l.Place != string(circulate.StandsParked) && l.Place != string(circulate.StandsWaiting):
		return a, fmt.Errorf("account %q: place: must be s, p or w", l.ID)
	case a.Record == "" || len(a.Line) < minLine:
		return a, fmt.Errorf("account %q: has no record or no line", l.ID)
	case circulate.CheckSends(a.Sends) != nil:
		return a, fmt.Errorf("account %q: sends: %w", l.ID, circulate.CheckSends(a.Sends))
	}
	if err := a.ValidateMemory(); err != nil {
		return a, fmt.Errorf("account %q: %w", l.ID, err)
	}
	a.Standing = circulate.Standing(l.Place[0])
	if a.Standing != circulate.StandsWaiting {
		a.At = time.UnixMilli(l.At)
	}
	return a, nil
}

// minLine is the least text that follows a ticket: a lane and a rule.
const minLine = 2

func messageOf(m *circulate.Found) *messageLine {
	l := &messageLine{At: m.Position, Account: m.Account, Kind: m.Kind, ID: m.Message.ID, Type: m.Message.Type, Time: m.Message.Time, Only: m.Only, First: m.First, Event: m.Event, Trace: m.Trace}
	switch {
	case len(m.Message.Data) == 0:
	case stays(m.Message.Data):
		l.Data = m.Message.Data
	default:
		l.Raw = text(m.Message.Data)
	}
	return l
}

func (l *messageLine) found() (circulate.Found, circulate.StreamID, error) {
	at, err := circulate.ParseStreamID(l.At)
	if err != nil || at == (circulate.StreamID{}) {
		return circulate.Found{}, at, fmt.Errorf("message: at: %q is not a position", l.At)
	}
	if len(l.Trace) > circulate.MaxTrace {
		return circulate.Found{}, at, fmt.Errorf("message: trace: has %d bytes, more than %d", len(l.Trace), circulate.MaxTrace)
	}
	f := circulate.Found{Position: l.At, Account: l.Account, Kind: l.Kind, Only: l.Only, First: l.First, Event: l.Event, Trace: l.Trace}
	f.Message = circulate.Message{ID: l.ID, Type: l.Type, Time: l.Time, Data: l.Data}
	if l.Raw != "" {
		f.Message.Data = json.RawMessage(l.Raw)
	}
	return f, at, nil
}
