package concern

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// marksKept is how many places of audits by hand are stored: several audits may be
	// under way, and a call may be repeated.
	marksKept = 8
	// markLives is how long an audit by hand may pause.
	markLives = time.Hour
)

// Part is what one call of an audit by hand found in successive shards.
type Part struct {
	From, To int           // the shards, without To
	Took     time.Duration // until now

	Accounts, Unjudged int
	Kinds              []FindingCount
	Findings           []circulate.Finding
}

// hand is the document of audits by hand: each mark is an audit of the shards below a place.
// A call continues at the mark of its first shard. If two audits meet at a place, one mark is
// enough: either is an audit of those shards.
type hand struct {
	Layout string        `json:"layout"`
	Marks  []AuditResult `json:"marks"`
}

// ByHand notes a call of an audit by hand. Once all shards are audited, the audit counts
// as the last complete one. A call that continues no known audit is not noted: it says
// nothing about the shards before.
func ByHand(ctx context.Context, ring *circulate.Ring, p Part) error {
	board := document.Of(ring).Notices()
	found, now, err := board.Read(ctx, handName)
	if err != nil {
		return fmt.Errorf("note an audit by hand: %w", err)
	}
	var h hand
	if json.Unmarshal(found[handName].Text, &h) != nil || h.Layout != ring.Layout() {
		h = hand{Layout: ring.Layout()}
	}
	a, ok := h.at(p, now, ring.Shards())
	if !ok {
		return nil
	}
	a.Add(p.Accounts, p.Unjudged, p.Kinds, p.Findings)
	a.Audited, a.At = p.To, now.UTC()
	if p.To >= ring.Shards() {
		return post(ctx, ring, lastName, a)
	}
	h.store(a)
	return post(ctx, ring, handName, h)
}

// at returns the audit of all shards below a part's first.
func (h *hand) at(p Part, now time.Time, shards int) (AuditResult, bool) {
	if p.From == 0 {
		return begin("hand", now.Add(-p.Took), shards), true
	}
	for _, mark := range h.Marks {
		if mark.Audited == p.From && mark.Shards == shards && now.Sub(mark.At) < markLives {
			mark.Kinds = append([]FindingCount{}, mark.Kinds...)
			return mark, true
		}
	}
	return AuditResult{}, false
}

// store stores a mark in place of an earlier one at its place, and drops the oldest ones.
func (h *hand) store(a AuditResult) {
	marks := []AuditResult{a}
	for _, mark := range h.Marks {
		if mark.Audited != a.Audited && len(marks) < marksKept {
			marks = append(marks, mark)
		}
	}
	h.Marks = marks
}
