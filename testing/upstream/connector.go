package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// connector answers as a connector of the http kind does. It refuses a cursor that is no
// number as cursor_invalid. A cursor beyond the last message was never returned by this
// upstream: it starts from the beginning and says so.
func (u *Upstream) connector(w http.ResponseWriter, r *http.Request, id string) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !u.signed(body, r.Header) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var request struct {
		CheckID string `json:"check_id"`
		Account struct {
			ID string `json:"id"`
		} `json:"account"`
		Cursor json.RawMessage `json:"cursor"`
		Limit  int             `json:"limit"`
	}
	if json.Unmarshal(body, &request) != nil || request.CheckID == "" || request.CheckID != r.Header.Get(standardwebhooks.HeaderWebhookID) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	limit := request.Limit
	if most := u.options.PageLimit; most > 0 && (limit == 0 || limit > most) {
		limit = most
	}
	cursor, reset := 0, false
	if len(request.Cursor) > 0 && json.Unmarshal(request.Cursor, &cursor) != nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"error":{"kind":"cursor_invalid","code":"cursor","message":"the cursor is not a number"}}`)
		return
	}
	a := u.account(id)
	a.mu.Lock()
	last := len(a.posted)
	a.mu.Unlock()
	if cursor > last || cursor < 0 {
		cursor, reset = 0, true
	}
	found, more := a.after(cursor, limit)
	messages := make([]map[string]any, 0, len(found))
	for _, m := range found {
		cursor = m.number
		data := map[string]any{"number": m.number}
		if files := u.filesIn(id, m.number); files != nil {
			data["files"] = files
		}
		messages = append(messages, map[string]any{
			"id": MessageID(id, m.number), "type": "message", "time": m.posted.Format(time.RFC3339Nano),
			"data": data,
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"messages": messages, "next_cursor": cursor, "has_more": more, "cursor_reset": reset,
	})
}

func (u *Upstream) signed(body []byte, header http.Header) bool {
	if u.options.SigningSecret == "" {
		return true
	}
	webhook, err := standardwebhooks.NewWebhook(u.options.SigningSecret)
	return err == nil && webhook.Verify(body, header) == nil
}
