package telegram

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

const maxRequest = 1 << 20 // bytes

type request struct {
	Offset  int64    `json:"offset"`
	Limit   int      `json:"limit"`
	Timeout int      `json:"timeout"` // seconds
	Allowed []string `json:"allowed_updates"`
}

// The descriptions of a 409, as the real one writes them.
const (
	conflictOther   = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
	conflictWebhook = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)

// find returns the bot of a request, or answers 401, or 404 for a path that has no token.
func (w *Telegram) find(rw http.ResponseWriter, r *http.Request) *bot {
	token, ok := strings.CutPrefix(r.PathValue("bot"), "bot")
	if !ok || token == "" {
		refuse(rw, 404, "Not Found", nil)
		return nil
	}
	b := w.bots[token]
	if b == nil {
		refuse(rw, 401, "Unauthorized", nil)
	}
	return b
}

// getUpdates holds a call until there is an update, or until its timeout has passed.
func (w *Telegram) getUpdates(rw http.ResponseWriter, r *http.Request) {
	q := request{Limit: 100}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil || json.Unmarshal(body, &q) != nil {
		refuse(rw, 400, "Bad Request: can't parse", nil)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.find(rw, r)
	if b == nil {
		return
	}
	b.stats.Polls++
	b.stats.Offset, b.stats.Timeout = q.Offset, q.Timeout
	if f := b.fault.next(); f != nil {
		healed := w.healed
		w.mu.Unlock()
		defer w.mu.Lock()
		f.answer(rw, r, healed)
		return
	}
	if b.webhook != "" {
		b.stats.Conflicts++
		refuse(rw, 409, conflictWebhook, nil)
		return
	}
	b.calls++
	own := b.calls
	b.polling = own
	b.changed() // who polls already is ended
	if q.Allowed != nil {
		b.allowed = q.Allowed
	}
	if q.Offset > 0 {
		b.updates = slices.DeleteFunc(b.updates, func(u update) bool { return firstUpdate+int64(u.n) < q.Offset })
	}
	ends := time.NewTimer(min(time.Duration(max(q.Timeout, 0))*time.Second, w.options.MaxHold))
	defer ends.Stop()
	for over := q.Timeout <= 0; ; {
		page := w.page(b, q.Limit)
		switch {
		case b.polling != own:
			b.stats.Conflicts++
			refuse(rw, 409, conflictOther, nil)
			return
		case b.webhook != "":
			b.stats.Conflicts++
			refuse(rw, 409, conflictWebhook, nil)
			return
		case len(page) > 0 || over:
			reply(rw, 200, map[string]any{"ok": true, "result": page})
			return
		}
		ended, gone := serving.Await(&w.mu, r, b.news, ends.C)
		if gone {
			return
		}
		over = over || ended
	}
}

// page returns what is kept, the oldest first.
func (w *Telegram) page(b *bot, limit int) []json.RawMessage {
	now := w.options.Now()
	b.updates = slices.DeleteFunc(b.updates, func(u update) bool {
		return now.Sub(u.at) > w.options.Keep || len(b.allowed) > 0 && !slices.Contains(b.allowed, u.kind)
	})
	page := make([]json.RawMessage, 0, 8)
	for _, u := range b.updates[:min(len(b.updates), min(max(limit, 1), 100))] {
		page = append(page, u.raw)
	}
	return page
}

func (w *Telegram) getWebhookInfo(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.find(rw, r); b != nil {
		b.stats.Webhook++
		reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{"url": b.webhook, "pending_update_count": len(b.updates)}})
	}
}

// refuse answers with an error. Its text repeats nothing but what the real one writes.
func refuse(rw http.ResponseWriter, code int, description string, parameters map[string]any) {
	body := map[string]any{"ok": false, "error_code": code, "description": description}
	if parameters != nil {
		body["parameters"] = parameters
	}
	reply(rw, code, body)
}

func reply(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body)
}
