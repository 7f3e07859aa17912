package telegram

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

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
		before := known[id] || id < at.Offset && slices.Contains(at.Recent, mark)
		if known[id] = true; !slices.Contains(next.Recent, mark) {
			next.Recent = append(next.Recent, mark)
		}
		if before {
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

// readUpdate reads an update. It accepts any kind, so that Telegram may add some.
func readUpdate(raw json.RawMessage) (m poller.Message, id int64, ok bool) {
	fields, ok := strict.Members(raw)
	if !ok {
		return m, 0, false
	}
	id, err := strconv.ParseInt(string(fields["update_id"]), 10, 64)
	if err != nil || id <= 0 || id == 1<<63-1 {
		return m, 0, false
	}
	m = poller.Message{ID: strconv.FormatInt(id, 10), Type: "unknown", Data: raw}
	delete(fields, "update_id")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !updatePattern.MatchString(name) {
			continue
		}
		m.Type = name
		var dates struct {
			Date     json.Number `json:"date"`
			EditDate json.Number `json:"edit_date"`
		}
		if json.Unmarshal(fields[name], &dates) != nil {
			break // it has no readable time
		}
		for _, date := range []json.Number{dates.EditDate, dates.Date} {
			at, _ := date.Int64() // 0 if it is no whole number
			if m.Time = message.TimeOfSeconds(at); !m.Time.IsZero() {
				break
			}
		}
		break
	}
	return m, id, true
}
