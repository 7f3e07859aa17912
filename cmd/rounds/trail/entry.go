package trail

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Outcome is the outcome of an order.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // the caller may not do it, or asked for it wrongly: nothing was done
	Failed  Outcome = "failed"  // the counts, if there are any, say what was done before
	Unknown Outcome = "unknown" // the order was cut off and may have been carried out
)

// The bounds of an entry, in bytes and elements. Longer fields are cut, and Cut is set.
const (
	maxWord     = 128
	maxID       = 256
	maxSelector = 512
	maxFields   = 32
	maxNamed    = 20   // accounts
	maxListed   = 1024 // bytes of all fields, or of all accounts
	maxCounts   = 16
	maxEncoded  = 4 << 10
)

// Entry is one change that somebody ordered. It is stored as JSON. Fields may be added, and an
// entry of an older version lacks some.
type Entry struct {
	At time.Time `json:"-"` // when it was stored, by Redis' clock
	ID string    `json:"-"` // its place in the journal

	By      string     `json:"by,omitempty"`   // the principal's name; empty: there is none
	Via     access.Via `json:"via,omitempty"`  // how the principal was authenticated
	Address string     `json:"addr,omitempty"` // the caller's, without its port

	Action  string  `json:"action"` // the API's id of the operation, such as pause-account
	Outcome Outcome `json:"outcome"`
	Status  int     `json:"status,omitempty"` // of the API's answer

	Account  string   `json:"account,omitempty"`  // the account that it is about
	Accounts []string `json:"accounts,omitempty"` // the first accounts that it names
	Subject  string   `json:"subject,omitempty"`  // what else it is about, such as "webhook orders"
	Selector string   `json:"selector,omitempty"` // which accounts it selects; "all" for all

	Fields []string `json:"fields,omitempty"` // the fields that it changed

	// Record is the account's record that it replaced, and Patch the merge patch (RFC 7396) to the
	// record after it. Neither has the value of a secret, and the log has neither.
	Record json.RawMessage `json:"record,omitempty"`
	Patch  json.RawMessage `json:"patch,omitempty"`

	Counts map[string]int `json:"counts,omitempty"` // how many accounts or other things, by outcome
	Cut    bool           `json:"cut,omitempty"`    // something was too long to be stored whole
}

// concerns reports whether the entry names an account.
func (e *Entry) concerns(id string) bool { return e.Account == id || slices.Contains(e.Accounts, id) }

// replaces reports whether the entry is of a change of an account's record.
func (e *Entry) replaces(id string) bool {
	return e.Account == id && e.Outcome == Done && (e.Record != nil || len(e.Fields) > 0)
}

// encode bounds the entry and returns its stored form.
func (e *Entry) encode() ([]byte, error) {
	e.bound()
	text, err := json.Marshal(e)
	if err != nil || len(text) <= maxEncoded {
		return text, err
	}
	if e.Record != nil {
		e.Record, e.Patch, e.Cut = nil, nil, true
		return e.encode()
	}
	// Only a text of many escaped characters is still too long. People do not write such text.
	e.Accounts, e.Fields, e.Selector, e.Cut = nil, nil, "", true
	return json.Marshal(e)
}

// bound cuts what is too long.
func (e *Entry) bound() {
	via := string(e.Via)
	for _, word := range []*string{&e.By, &via, &e.Address, &e.Action, &e.Subject} {
		e.cut(word, maxWord)
	}
	e.Via = access.Via(via)
	e.cut(&e.Account, maxID)
	e.cut(&e.Selector, maxSelector)
	e.Accounts, e.Fields = e.list(e.Accounts, maxNamed), e.list(e.Fields, maxFields)
	counts := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(e.Counts)) {
		if len(counts) == maxCounts || len(name) > maxWord || !utf8.ValidString(name) {
			e.Cut = true
			continue
		}
		counts[name] = e.Counts[name]
	}
	e.Counts = counts
}

func (e *Entry) cut(text *string, most int) {
	if len(*text) > most {
		*text, e.Cut = (*text)[:most], true
	}
	*text = strings.ToValidUTF8(*text, "�")
}

func (e *Entry) list(all []string, most int) []string {
	var kept []string
	left := maxListed
	for _, one := range all {
		e.cut(&one, maxID)
		if left -= len(one); len(kept) == most || left < 0 {
			e.Cut = true
			break
		}
		kept = append(kept, one)
	}
	return kept
}

// attributes returns the entry for the log, without empty fields.
func (e *Entry) attributes() []slog.Attr {
	attrs := []slog.Attr{slog.String("action", e.Action), slog.String("outcome", string(e.Outcome))}
	for _, a := range [][2]string{
		{"by", e.By}, {"via", string(e.Via)}, {"addr", e.Address}, {"account", e.Account}, {"accounts", strings.Join(e.Accounts, ",")},
		{"subject", e.Subject}, {"selector", e.Selector}, {"fields", strings.Join(e.Fields, ",")},
	} {
		if a[1] != "" {
			attrs = append(attrs, slog.String(a[0], a[1]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Counts)) {
		attrs = append(attrs, slog.Int(name, e.Counts[name]))
	}
	if e.Status != 0 && e.Outcome != Done {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	return attrs
}

// read returns the entry in a note, or false if the note is not an entry.
func read(note document.Note) (Entry, bool) {
	var e Entry
	if json.Unmarshal(note.Text, &e) != nil || e.Action == "" {
		return Entry{}, false
	}
	e.At, e.ID = note.ID.Time(), note.ID.String()
	return e, true
}
