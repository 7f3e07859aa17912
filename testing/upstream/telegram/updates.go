package telegram

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

const (
	tailAhead = 10      // how far an offset may be beyond the end of the queue
	headBack  = 100_000 // how far it may be before the head
)

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
	q, ok := readRequest(rw, r)
	if !ok {
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
	ends := time.NewTimer(min(time.Duration(max(q.Timeout, 0))*time.Second, w.options.MaxHold))
	defer ends.Stop()
	for over := q.Timeout <= 0; ; {
		page := w.page(b, &q)
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

// page forgets what the offset confirms, and returns what is kept, the oldest first.
func (w *Telegram) page(b *bot, q *request) []json.RawMessage {
	now := w.options.Now()
	b.updates = slices.DeleteFunc(b.updates, func(u update) bool {
		return now.Sub(u.at) > w.options.Keep || len(b.allowed) > 0 && !slices.Contains(b.allowed, u.kind)
	})
	b.confirm(q.Offset)
	page := make([]json.RawMessage, 0, 8)
	for _, u := range b.updates[:min(len(b.updates), min(max(q.Limit, 1), 100))] {
		page = append(page, u.raw)
	}
	return page
}

// confirm forgets the updates below an offset, unless the queue does not know the offset.
func (b *bot) confirm(offset int64) {
	if len(b.updates) == 0 {
		return
	}
	switch {
	case offset < 0: // so many are left, or all
		b.updates = b.updates[max(0, int64(len(b.updates))+offset):]
	case offset > b.next+tailAhead, offset < b.updates[0].id-headBack:
	default:
		b.updates = slices.DeleteFunc(b.updates, func(u update) bool { return u.id < offset })
	}
}

// getMe tells who the bot is.
func (w *Telegram) getMe(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.find(rw, r); b != nil {
		id, _, _ := strings.Cut(strings.TrimPrefix(r.PathValue("bot"), "bot"), ":")
		number, _ := strconv.ParseInt(id, 10, 64) // no number: 0
		reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{
			"id": number, "is_bot": true, "first_name": "Fake", "username": "fake_bot",
			"can_join_groups": true, "can_read_all_group_messages": false, "supports_inline_queries": false,
		}})
	}
}

// deleteWebhook ends a webhook, and forgets all updates if it is told to.
func (w *Telegram) deleteWebhook(rw http.ResponseWriter, r *http.Request) {
	q, ok := readRequest(rw, r)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.find(rw, r)
	if b == nil {
		return
	}
	text := "Webhook was deleted"
	if b.webhook == "" {
		text = "Webhook is already deleted"
	}
	if b.webhook = ""; q.Drop {
		b.updates = nil
	}
	reply(rw, 200, map[string]any{"ok": true, "result": true, "description": text})
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
