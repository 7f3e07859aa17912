package checktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// The bounds beyond which the pool refuses a result.
const (
	maxCursor = 64 << 10  // bytes
	maxData   = 256 << 10 // bytes of one message
)

// judge checks what the pool relies on in a result. It also checks the times of messages: one before
// the year 2000 or in the future is more likely a mistake than a message of a fake third party.
func judge(t *testing.T, result poller.Result, limit int, secrets []string) {
	t.Helper()
	if len(result.Messages) > limit {
		t.Errorf("%d messages, over the limit of %d", len(result.Messages), limit)
	}
	if len(result.Cursor) > maxCursor {
		t.Errorf("a cursor of %d bytes", len(result.Cursor))
	}
	hidesSecrets(t, "cursor", string(result.Cursor), secrets)
	for _, m := range result.Messages {
		if m.ID == "" || len(m.ID) > circulate.MaxIDLength {
			t.Errorf("message %q: an id of %d bytes", m.ID, len(m.ID))
		}
		if !m.Time.IsZero() && (m.Time.Year() < 2000 || time.Until(m.Time) > time.Minute) {
			t.Errorf("message %s: its time is %v; want the zero time, for unknown, or one between the year 2000 and now", m.ID, m.Time)
		}
		if !json.Valid(m.Data) || len(m.Data) > maxData {
			t.Errorf("message %s: %d bytes of data: %.80q", m.ID, len(m.Data), m.Data)
		}
		hidesSecrets(t, "message "+m.ID, m.ID+m.Type+string(m.Data), secrets)
	}
}

// empty reports whether a result has nothing in it, as the result beside an error must.
func empty(r poller.Result) bool {
	return len(r.Messages) == 0 && r.Cursor == nil && !r.HasMore && r.NextPollAfter == 0 && !r.CursorReset
}

// tellsNothing looks through all texts that an error can be asked for.
func tellsNothing(t *testing.T, name string, err error, secrets []string) {
	t.Helper()
	notNil(t, err)
	for ; err != nil; err = errors.Unwrap(err) {
		hidesSecrets(t, name, err.Error(), append([]string{Hidden, "token="}, secrets...))
	}
}

func hidesSecrets(t *testing.T, name, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if secret != "" && bytes.Contains([]byte(text), []byte(secret)) {
			t.Errorf("%s tells %q: %.200s", name, secret, strings.ReplaceAll(text, secret, "«"+secret+"»"))
		}
	}
}
