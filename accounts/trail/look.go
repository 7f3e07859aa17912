package trail

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cursor"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/journal"
)

const (
	// MaxLimit is how many entries a page may have.
	MaxLimit = 1000
	// MaxScan is how many entries of the journal one page looks at.
	MaxScan = 10_000
)

// Query chooses entries.
type Query struct {
	Account string        // only those that name it; empty: all
	By      string        // only this principal's; empty: everybody's
	Since   time.Duration // only those that are at most so old, by Redis' clock; 0: of any age
	Limit   int           // of a page, 1 to MaxLimit
	Cursor  string        // the Next of the page before; empty: begin with the latest
}

// Page is entries, the latest first.
type Page struct {
	Entries []Entry
	Next    string    // the cursor of the next page; empty: there is none
	Back    time.Time // when the last entry was kept that was looked at; zero: there was none
	Looked  int       // how many entries were looked at
}

// Look returns a page of entries. It looks at no more than MaxScan of the journal's, so that
// a page may be short, even empty, and not be the last. A cursor that this ring never gave
// is cursor.ErrInvalid.
func (t *Trail) Look(ctx context.Context, q Query) (Page, error) {
	if q.Limit < 1 || q.Limit > MaxLimit {
		return Page{}, fmt.Errorf("trail: limit: must be 1 to %d, is %d", MaxLimit, q.Limit)
	}
	place, since, err := t.begin(ctx, q)
	if err != nil {
		return Page{}, err
	}
	var page Page
	for page.Looked < MaxScan {
		most := min(journal.MaxRead, MaxScan-page.Looked)
		if q.Account == "" && q.By == "" {
			most = min(most, q.Limit-len(page.Entries))
		}
		notes, err := t.journal.Before(ctx, place, since, most)
		if err != nil {
			return Page{}, err
		}
		for _, note := range notes {
			page.Looked++
			place, page.Back = note.ID, note.ID.Time()
			e, ok := read(note)
			if !ok || q.Account != "" && !e.Concerns(q.Account) || q.By != "" && e.By != q.By {
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

// begin is where a page begins, and how far back the walk goes.
func (t *Trail) begin(ctx context.Context, q Query) (place circulate.StreamID, since time.Time, err error) {
	switch {
	case q.Cursor != "":
		return unsealed(q.Cursor)
	case q.Since > 0:
		now, err := t.journal.Now(ctx)
		return place, now.Add(-q.Since), err
	}
	return place, since, nil
}

// sealed is a cursor: the place that a page ended at, and how far back the walk goes.
func sealed(place circulate.StreamID, since time.Time) string {
	ms := int64(0)
	if !since.IsZero() {
		ms = max(1, since.UnixMilli())
	}
	return cursor.Seal(cursor.Trail, fmt.Appendf(nil, "%d %d %d", place.Ms, place.Seq, ms))
}

func unsealed(text string) (place circulate.StreamID, since time.Time, err error) {
	content, err := cursor.Unseal(cursor.Trail, text)
	if err != nil {
		return place, since, err
	}
	var ms int64
	if _, err := fmt.Sscan(string(content), &place.Ms, &place.Seq, &ms); err != nil || place == (circulate.StreamID{}) || ms < 0 {
		return circulate.StreamID{}, since, fmt.Errorf("%w: it is cut off or mistyped", cursor.ErrInvalid)
	}
	if ms > 0 {
		since = time.UnixMilli(ms)
	}
	return place, since, nil
}
