package connector

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"id":"1","type":"t","time":"2026-01-31T12:00:00Z","data":{}}],"next_cursor":"c","has_more":true,"next_poll_after":60}`,
		`{"error":{"kind":"rate_limited","code":"c","message":"see https://x/?q=1"},"retry_after":30}`, `{`, `null`, "\xff", ``,
	} {
		f.Add(200, []byte(seed))
		f.Add(503, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		result, err := read(&fetch.Response{Status: status, Body: body}, 10, resolved{values: []string{apiToken}})
		var failed *poller.CheckError
		if err != nil && (!errors.As(err, &failed) || failed.Kind == "" || failed.Code == "" || strings.Contains(err.Error(), "?q=")) {
			t.Fatalf("got %v", err)
		}
		if err != nil && (result.Messages != nil || result.Cursor != nil) {
			t.Fatalf("an error and %+v", result)
		}
		if len(result.Messages) > 10 || len(result.Cursor) > maxCursor || result.NextPollAfter < 0 {
			t.Fatalf("got %+v", result)
		}
		for _, m := range result.Messages {
			if _, err := json.Marshal(m); err != nil || m.ID == "" || len(m.ID) > maxName || len(m.Data) > maxData {
				t.Errorf("message %q: %v", m.ID, err)
			}
		}
	})
}

// A cursor is sent back as it came, except for space, or the check fails with a proper error.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{`"a"`, `{"a": "<\u2028>"}`, `1e400`, `{`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, cursor []byte) {
		body, failed := encodeRequest(t.Context(), poller.Request{Config: json.RawMessage(`{}`), Cursor: cursor})
		if failed != nil {
			if json.Valid(cursor) || failed.Kind != poller.CursorInvalid {
				t.Fatalf("%q: %v", cursor, failed)
			}
			return
		}
		var sent struct{ Cursor json.RawMessage }
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if len(cursor) == 0 {
			cursor = []byte("null")
		}
		if err := json.Compact(&want, cursor); err != nil || !bytes.Equal(sent.Cursor, want.Bytes()) {
			t.Errorf("%q became %q", cursor, sent.Cursor)
		}
	})
}
