// Package moving reads the lists of other programs as accounts, and writes OPML.
//
// It knows four formats besides the records of an export:
//
//	opml         lists of feeds, OPML 1.0 to 2.0 (opml.org/spec2.opml), as feed readers write them
//	miniflux     the reply to GET /v1/feeds of Miniflux
//	uptime-kuma  the backup of Uptime Kuma 1 (JSON), or the rows of its table monitor
//	csv          a table whose first line names the columns (RFC 4180)
//
// The text is that of a stranger. A document has at most MaxDocument bytes and MaxEntries entries,
// and is read whole before anything of it counts. A table may be of any length, and is read line
// by line. Text is UTF-8, UTF-16 with a byte order mark, or what XML declares.
//
// # Ids
//
// A feed without an id of its own gets one that is computed from its URL, so that the same feed has
// the same id, whichever program it comes from and however often. Nobody can read a query from it,
// because queries of feeds may be credentials.
//
// # What is taken
//
// Folders, categories and groups become the label folder, with a slash between levels, and titles
// the label title. A feed that is disabled becomes a paused account. Logins and cookies become
// secrets, which the caller must store, and never part of a record. What has no counterpart is named
// in Entry.Left. What cannot be an account is an entry with faults.
package moving

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	// MaxDocument is the most bytes of a document.
	MaxDocument = 16 << 20
	// MaxEntries is the most entries of a document.
	MaxEntries = 100_000
)

// Format is what a list is written in.
type Format string

// The formats.
const (
	Records    Format = "records" // one a line, as an export writes them
	OPML       Format = "opml"
	Miniflux   Format = "miniflux"
	UptimeKuma Format = "uptime-kuma"
	CSV        Format = "csv"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Records, OPML, Miniflux, UptimeKuma, CSV} }

// UnreadableError reports a list that cannot be read in its format. Nothing of a document counts then.
type UnreadableError struct{ Reason string }

func (e *UnreadableError) Error() string { return "the list cannot be read: " + e.Reason }

func unreadable(format string, args ...any) error {
	return &UnreadableError{fmt.Sprintf(format, args...)}
}

// Entry is one entry of a list: an account, or why there is none.
type Entry struct {
	Line    int // where it begins, from 1
	Account accounts.Account
	Paused  bool
	Secrets []Secret        // to which the account's config refers
	Faults  accounts.Faults // why it cannot be taken; its fields are the list's
	Left    accounts.Faults // what of it has no counterpart, if it can be taken
	Again   int             // the line of a document that has the same account and counts; 0: none
}

// Secret is a secret that a list has in plain text.
type Secret struct {
	Name, Value string
	Host        string // to which alone it may go
}

// Read returns the entries of a list in a format that is not Records. An error is the last thing
// that it yields, and is an *UnreadableError or the reader's.
func Read(f Format, in io.Reader) iter.Seq2[Entry, error] {
	switch f {
	case OPML:
		return document(in, readOPML)
	case Miniflux:
		return document(in, readMiniflux)
	case UptimeKuma:
		return document(in, readKuma)
	case CSV:
		return readTable(in)
	}
	return func(yield func(Entry, error) bool) {
		yield(Entry{}, unreadable("the format is unknown"))
	}
}

// document returns the entries of a document, once it is read whole.
func document(in io.Reader, read func(text []byte) ([]Entry, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		text, err := io.ReadAll(io.LimitReader(in, MaxDocument+1))
		if err == nil && len(text) > MaxDocument {
			err = unreadable("it has more than %d bytes; split it", MaxDocument)
		}
		var entries []Entry
		if err == nil {
			entries, err = read(text)
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		once(entries)
		for i := range entries {
			if !yield(entries[i], nil) {
				return
			}
		}
	}
}

// once takes what is in a document twice, such as a feed in two folders, from its first line. An
// account has one folder: two in one label would match no filter.
func once(entries []Entry) {
	first := make(map[string]*Entry, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.Faults != nil || e.Account.ID == "" {
			continue
		}
		before := first[e.Account.ID]
		if before == nil {
			first[e.Account.ID] = e
			continue
		}
		folder := e.Account.Labels[folderLabel]
		*e = Entry{Line: e.Line, Account: accounts.Account{ID: e.Account.ID}, Again: before.Line}
		if folder != "" && folder != before.Account.Labels[folderLabel] {
			e.Left.Add("folder", fmt.Sprintf("has no counterpart: the feed is in that of line %d too, and an account has one", before.Line))
		} else {
			e.Left.Add("url", fmt.Sprintf("is the feed of line %d again; the first one counts", before.Line))
		}
	}
}

// errMany reports a document of too many entries.
var errMany = unreadable("it has more than %d entries; split it", MaxEntries)

// look is how many bytes of a list are looked at in order to recognise it.
const look = 4 << 10

// Recognise returns the format of a list by its beginning, and Records if it is none of the others.
// It waits for no more of the list than it needs. A
// reader that fails does so again.
func Recognise(in *bufio.Reader) Format {
	ended := false
	for {
		text, _ := in.Peek(min(in.Buffered(), look)) // what is there already
		whole := ended || len(text) == look
		if f, sure := guess(text, whole); sure || whole {
			return f
		}
		_, err := in.Peek(len(text) + 1)
		ended = err != nil
	}
}

var firstKey = regexp.MustCompile(`^\{\s*"([^"]*)"`)

// guess returns the format of a beginning, and whether more of it cannot change that.
func guess(text []byte, whole bool) (f Format, sure bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(text) == 0:
		return Records, false
	case text[0] == '<':
		return OPML, true
	case text[0] == '[':
		if bytes.Contains(text, []byte(`"feed_url"`)) {
			return Miniflux, true
		}
		if bytes.Contains(text, []byte(`"interval"`)) && bytes.Contains(text, []byte(`"type"`)) {
			return UptimeKuma, true
		}
		return Records, false
	case text[0] == '{':
		key := firstKey.FindSubmatch(text)
		if key == nil {
			return Records, false
		}
		switch string(key[1]) {
		case "version", "notificationList", "monitorList", "proxyList":
			return UptimeKuma, true
		}
		return Records, true
	case bytes.HasPrefix(text, []byte("SQLite format 3")):
		return UptimeKuma, true
	}
	head, _, ended := bytes.Cut(text, []byte("\n"))
	if !ended && !whole {
		return Records, false
	}
	if isTable(strings.TrimSpace(string(head))) {
		return CSV, true
	}
	return Records, true
}
