package trail

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// MaxLimit is how many entries a page may have.
	MaxLimit = 1000
	// MaxScan is how many entries of the journal are read for one page.
	MaxScan = 10_000
)

// Query selects entries.
type Query struct {
	Account string        // only those that name it; empty: all
	By      string        // only this principal's; empty: everybody's
	Since   time.Duration // only entries of at most this age, by Redis' clock; 0: of any age
	Limit   int           // of a page, 1 to MaxLimit
	Cursor  string        // the Next of the page before; empty: begin with the latest

	Versions bool // only entries of changes that replaced the record of Account

	Before circulate.StreamID // only entries before this place, unless there is a Cursor; zero: all
	Scan   int                // how many entries are read at most; 0: MaxScan
}

// Page is a page of entries, the latest first.
type Page struct {
	Entries []Entry
	Next    string    // the cursor of the next page; empty: there is none
	Back    time.Time // the time of the oldest entry that was read; zero: none was
	Looked  int       // how many entries were read

	Place circulate.StreamID // of the last entry that was read; zero: none was
}

// Look returns a page of entries. It reads at most MaxScan entries of the journal, so a page
// may be short or empty and still not be the last. The error for a cursor that this ring
// never returned is accounts.ErrCursor.
func (t *Trail) Look(ctx context.Context, q Query) (Page, error) {
	if q.Limit < 1 || q.Limit > MaxLimit {
		return Page{}, fmt.Errorf("trail: limit: must be 1 to %d, is %d", MaxLimit, q.Limit)
	}
	place, since, err := t.begin(ctx, q)
	if err != nil {
		return Page{}, err
	}
	names, err := json.Marshal(q.Account)
	if err != nil {
		return Page{}, err
	}
	scan := MaxScan
	if q.Scan > 0 {
		scan = min(q.Scan, MaxScan)
	}
	var page Page
	for page.Looked < scan {
		most := min(document.MaxNotesRead, scan-page.Looked)
		if q.Account == "" && q.By == "" {
			most = min(most, q.Limit-len(page.Entries))
		}
		notes, err := t.journal.Before(ctx, place, since, most)
		if err != nil {
			return Page{}, err
		}
		for _, note := range notes {
			page.Looked++
			place, page.Back, page.Place = note.ID, note.ID.Time(), note.ID
			if q.Account != "" && !bytes.Contains(note.Text, names) {
				continue // most entries are of other accounts, and need not be decoded
			}
			e, ok := read(note)
			if !ok || q.Account != "" && !e.concerns(q.Account) || q.By != "" && e.By != q.By || q.Versions && !e.replaces(q.Account) {
				continue
			}
			if page.Entries = append(page.Entries, e); len(page.Entries) == q.Limit {
				page.Next = sealed(place, since)
				return page, nil
			}
		}
		if len(notes) < most {
			return page, nil
		}
	}
	page.Next = sealed(place, since)
	return page, nil
}

// Version returns the entry of a change that replaced an account's record, by the entry's ID. It
// returns false if the trail has no such entry, or no longer.
func (t *Trail) Version(ctx context.Context, account, id string) (Entry, bool, error) {
	place, err := circulate.ParseStreamID(id)
	if err != nil || place.String() != id {
		return Entry{}, false, nil
	}
	notes, err := t.journal.Before(ctx, place.Next(), time.Time{}, 1)
	if err != nil || len(notes) == 0 || notes[0].ID != place {
		return Entry{}, false, err
	}
	e, ok := read(notes[0])
	return e, ok && e.replaces(account) && e.Record != nil, nil
}

// begin returns the place where a page begins, and the earliest time of its entries.
func (t *Trail) begin(ctx context.Context, q Query) (place circulate.StreamID, since time.Time, err error) {
	switch {
	case q.Cursor != "":
		return unsealed(q.Cursor)
	case q.Since > 0:
		now, err := t.journal.Now(ctx)
		return q.Before, now.Add(-q.Since), err
	}
	return q.Before, since, nil
}

// sealed returns the cursor of the next page. It contains the place where this page ended, and
// the earliest time of entries.
func sealed(place circulate.StreamID, since time.Time) string {
	ms := int64(0)
	if !since.IsZero() {
		ms = max(1, since.UnixMilli())
	}
	return accounts.SealCursor(accounts.CursorTrail, fmt.Appendf(nil, "%d %d %d", place.Ms, place.Seq, ms))
}

func unsealed(text string) (place circulate.StreamID, since time.Time, err error) {
	content, err := accounts.UnsealCursor(accounts.CursorTrail, text)
	if err != nil {
		return place, since, err
	}
	var ms int64
	if _, err := fmt.Sscan(string(content), &place.Ms, &place.Seq, &ms); err != nil || place == (circulate.StreamID{}) || ms < 0 {
		return circulate.StreamID{}, since, fmt.Errorf("%w: it is cut off or mistyped", accounts.ErrCursor)
	}
	if ms > 0 {
		since = time.UnixMilli(ms)
	}
	return place, since, nil
}
