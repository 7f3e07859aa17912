package telegram

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
)

// The pool accepts whatever is read of a page. The cursor confirms no update that was not found.
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
		at := cursor{Offset: offset}
		r, err := u.result(at, maxLimit)
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		next, err := decodeCursor(r.Cursor)
		if err != nil || (r.Cursor == nil) != (len(u) == 0 || len(r.Messages) == 0 && next.Offset == offset) {
			t.Fatalf("cursor %s after %d: %v", r.Cursor, offset, err)
		}
		found := int64(0)
		for _, m := range r.Messages {
			id, err := strconv.ParseInt(m.ID, 10, 64)
			if err != nil || id >= next.Offset || !json.Valid(m.Data) {
				t.Fatalf("got %+v, then %d", m, next.Offset)
			}
			found = max(found, id)
		}
		if len(r.Messages) > 0 && found != next.Offset-1 {
			t.Fatalf("the cursor %s confirms more than the page", r.Cursor)
		}
		if again, err := u.result(next, maxLimit); r.Cursor != nil && len(u) <= maxRecent && (err != nil || len(again.Messages) > 0) {
			t.Fatalf("the same page again: got %+v, %v", again, err)
		}
	})
}

// Whatever a cursor says, the part of it that is read is written again unchanged.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "17", "0", "-1", `{"offset":17}`, `{"offset":17,"queue":"x","recent":"AAAAAA"}`, `{"offset":1,"recent":"A"}`, `{"offset":1e3}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := decodeCursor(raw)
		if err != nil || len(raw) == 0 {
			return
		}
		again, err := decodeCursor(c.encode())
		if err != nil || c.Offset <= 0 || !bytes.Equal(again.encode(), c.encode()) {
			t.Fatalf("%q: got %+v, then %+v, %v", raw, c, again, err)
		}
	})
}
