package telegram

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

const (
	maxData = 256 << 10    // bytes of a message that the pool keeps
	lastSec = 253402300799 // of the year 9999: RFC 3339 has no later one
)

// updates are the elements of a page.
type updates []json.RawMessage

// result returns the page as the pool gets it. If any element has no update_id, the whole page
// is refused: it could never be confirmed.
func (u updates) result(q request) (poller.Result, error) {
	r := poller.Result{Messages: make([]poller.Message, 0, len(u))}
	next := q.Offset
	known := make(map[int64]bool, len(u))
	for i, raw := range u {
		m, id, ok := message(raw)
		if !ok {
			return poller.Result{}, protocolError(fmt.Sprintf("result[%d] is not an update", i))
		}
		next = max(next, id+1)
		if known[id] || id < q.Offset {
			continue // it was found before
		}
		known[id] = true
		if len(raw) > maxData {
			m.Data = json.RawMessage(`{"update_id":` + m.ID + `,"rounds_omitted_bytes":` + strconv.Itoa(len(raw)) + `}`)
			r.Warnings = append(r.Warnings, poller.Warning{Code: "malformed", Message: "an update has more than 256 KiB, and only its id is kept"})
		}
		r.Messages = append(r.Messages, m)
	}
	if next != q.Offset {
		r.Cursor = strconv.AppendInt(nil, next, 10)
	}
	r.HasMore = len(u) >= q.Limit
	return r, nil
}

// message reads an update. It accepts any kind, so that Telegram may add some.
func message(raw json.RawMessage) (m poller.Message, id int64, ok bool) {
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
			break // it has no time, or not one that can be read
		}
		for _, date := range []json.Number{dates.EditDate, dates.Date} {
			if at, err := date.Int64(); err == nil && 0 < at && at <= lastSec {
				m.Time = time.Unix(at, 0).UTC()
				break
			}
		}
		break
	}
	return m, id, true
}
