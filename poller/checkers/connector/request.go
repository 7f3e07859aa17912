package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// request is the body of a request to a connector.
type request struct {
	Version  int             `json:"version"`  // 1
	CheckID  string          `json:"check_id"` // the same for all pages and retries of one check
	Account  account         `json:"account"`
	Cursor   json.RawMessage `json:"cursor"`         // the connector's last next_cursor; null at first
	Limit    int             `json:"limit"`          // the most messages on a page; more are refused
	Deadline *time.Time      `json:"deadline"`       // after which nobody waits for the answer; null: unknown
	Attempt  int             `json:"attempt"`        // 1, and one more for each failure in a row
	Hint     json.RawMessage `json:"hint"`           // of a nudge, once; else null
	Hold     float64         `json:"hold,omitempty"` // for how many seconds the answer may be held until something comes; 0: answer at once
}

type account struct {
	ID     string          `json:"id"`
	Config json.RawMessage `json:"config"` // as registered, references to secrets included
}

// encodeRequest returns a request's JSON. It leaves cursor, config and hint unchanged,
// except for the space between tokens.
func encodeRequest(ctx context.Context, r poller.Request) ([]byte, *poller.CheckError) {
	if len(r.Cursor) > 0 && !json.Valid(r.Cursor) {
		return nil, &poller.CheckError{Kind: poller.CursorInvalid, Code: "cursor", Message: "the cursor is not JSON"}
	}
	q := request{
		Version: 1,
		CheckID: r.CheckID,
		Account: account{ID: r.Account, Config: r.Config},
		Cursor:  orNull(r.Cursor),
		Limit:   r.Limit,
		Attempt: r.Attempt,
		Hint:    orNull(r.Hint),
		Hold:    r.Hold.Seconds(),
	}
	if deadline, ok := ctx.Deadline(); ok {
		deadline = deadline.UTC()
		q.Deadline = &deadline
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(q); err != nil {
		// Cursor and config are known to be JSON by now. A hint comes only once.
		return nil, &poller.CheckError{Kind: poller.Transient, Code: "hint", Message: "the nudge's hint is not JSON"}
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

func orNull(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
