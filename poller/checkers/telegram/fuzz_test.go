package telegram

import (
	"encoding/json"
	"strconv"
	"testing"
)

// Whatever is read of a page, the pool accepts, and its cursor confirms nothing that was not
// found.
func FuzzUpdates(f *testing.F) {
	for _, seed := range []string{
		`[{"update_id":1099511627777,"message":{"message_id":1,"date":1795370936,"chat":{"id":-1001234567890123}}}]`,
		`[{"update_id":5,"edited_message":{"edit_date":7,"date":1e9}},{"update_id":5},{"update_id":4}]`,
		`[{"update_id":9223372036854775807}]`, `[{"update_id":1.5}]`, `[null]`, `[]`, `[{"update_id":3,"x":[],"a":"b","Z":1}]`,
	} {
		f.Add([]byte(seed), int64(4))
	}
	f.Fuzz(func(t *testing.T, body []byte, offset int64) {
		var u updates
		if json.Unmarshal(body, &u) != nil || offset < 0 {
			return
		}
		r, err := u.result(request{Offset: offset, Limit: maxLimit})
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		next, err := decodeCursor(r.Cursor)
		if err != nil || r.Cursor != nil && next <= offset {
			t.Fatalf("cursor %s after %d: %v", r.Cursor, offset, err)
		}
		for _, m := range r.Messages {
			if id, err := strconv.ParseInt(m.ID, 10, 64); err != nil || id < offset || id >= next || !json.Valid(m.Data) {
				t.Fatalf("got %+v, then %d", m, next)
			}
		}
	})
}
