package telegram

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const maxData = 256 << 10 // bytes of a message that the pool stores

// updates are the elements of a page.
type updates []json.RawMessage

// result returns the page as the pool gets it. If any element has no update_id, the whole page
// is refused: it could never be confirmed.
//
// An id below the offset may still be new: after a week without updates Telegram chooses the next
// id at random, and it answers an offset that its queue does not know with whatever the queue has.
// The cursor goes on after the page, wherever that is. Only the marks of recent updates show what
// has come before.
func (u updates) result(at cursor, limit int) (poller.Result, error) {
	r := poller.Result{Messages: make([]poller.Message, 0, len(u))}
	next := cursor{Queue: at.Queue, Recent: slices.Clone(at.Recent)}
	known := make(map[int64]bool, len(u))
	for i, raw := range u {
		m, id, ok := readUpdate(raw)
		if !ok {
			return poller.Result{}, protocolError(fmt.Sprintf("result[%d] is not an update", i))
		}
		next.Offset = max(next.Offset, id+1)
		mark := markOf(raw)
		seen := known[id] || id < at.Offset && slices.Contains(at.Recent, mark)
		known[id] = true
		if !slices.Contains(next.Recent, mark) {
			next.Recent = append(next.Recent, mark)
		}
		if seen {
			continue
		}
		if len(raw) > maxData {
			m.Data = json.RawMessage(`{"update_id":` + m.ID + `,"rounds_omitted_bytes":` + strconv.Itoa(len(raw)) + `}`)
			r.Warnings = append(r.Warnings, poller.Warning{Code: "malformed", Message: "an update has more than 256 KiB, and only its id is kept"})
		}
		r.Messages = append(r.Messages, m)
	}
	if len(r.Messages) > 0 || next.Offset > 0 && next.Offset != at.Offset {
		next.Recent = next.Recent[max(0, len(next.Recent)-maxRecent):]
		r.Cursor = next.encode()
	}
	r.HasMore = len(u) >= limit
	return r, nil
}

// readUpdate reads an update. It accepts any type of update, because Telegram adds new ones.
func readUpdate(raw json.RawMessage) (m poller.Message, id int64, ok bool) {
	fields, ok := strict.Members(raw)
	if !ok {
		return m, 0, false
	}
	id, err := strconv.ParseInt(string(fields["update_id"]), 10, 64)
	if err != nil || id <= 0 || id == math.MaxInt64 { // its offset must be possible
		return m, 0, false
	}
	m = poller.Message{ID: strconv.FormatInt(id, 10), Type: "unknown", Data: raw}
	delete(fields, "update_id")
	names := slices.Sorted(maps.Keys(fields))
	if i := slices.IndexFunc(names, updatePattern.MatchString); i >= 0 {
		m.Type, m.Time = names[i], timeOf(fields[names[i]])
	}
	// An id may be used again, and an update may come again under another one. What has a date has
	// an id of its own within; the rest is told by its update_id too.
	m.NoID, m.Content = true, message.Content(raw, func(field string) bool { return field == "update_id" && !m.Time.IsZero() })
	return m, id, true
}

// timeOf returns when the content of an update was last edited, or else when it was written. It is
// the zero time if neither can be read.
func timeOf(content json.RawMessage) time.Time {
	var dates struct {
		Date     json.Number `json:"date"`
		EditDate json.Number `json:"edit_date"`
	}
	if json.Unmarshal(content, &dates) != nil {
		return time.Time{}
	}
	for _, date := range []json.Number{dates.EditDate, dates.Date} {
		seconds, _ := date.Int64() // 0 if it is not a whole number
		if at := message.TimeOfSeconds(seconds); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}
