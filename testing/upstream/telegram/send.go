package telegram

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Sent is a message that a bot has sent.
type Sent struct {
	ID    int64 // its message_id
	Chat  string
	Text  string
	Reply int64 // the message that it answers; 0: none
}

// firstSent is the message_id before a bot's first sent message.
const firstSent = 1_000_000

// Sent returns what a bot has sent, in order.
func (w *Telegram) Sent(token string) []Sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.bots[token]; b != nil {
		return slices.Clone(b.sent)
	}
	return nil
}

// Sends returns how many calls of bots that send something have come, refused ones included.
func (w *Telegram) Sends() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sends
}

// FailSends has a bot's calls of sendMessage fail. Heal ends that too.
func (w *Telegram) FailSends(token string, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token].sendFault = &fault{f, f.Times}
}

// sendMessage sends a text. As the real one, it knows no idempotency.
func (w *Telegram) sendMessage(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		Chat  string `json:"chat_id"`
		Text  string `json:"text"`
		Reply struct {
			ID int64 `json:"message_id"`
		} `json:"reply_parameters"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxRequest))
	if err != nil || json.NewDecoder(bytes.NewReader(body)).Decode(&q) != nil {
		refuse(rw, 400, "Bad Request: can't parse", nil)
		return
	}
	w.mu.Lock()
	b := w.find(rw, r)
	var f *Fault
	if b != nil {
		w.sends++
		f = b.sendFault.next()
	}
	healed := w.healed
	w.mu.Unlock()
	switch {
	case b == nil:
		return
	case f != nil && !f.Cut:
		f.answer(rw, r, healed)
		return
	case q.Chat == "" || strings.TrimSpace(q.Text) == "":
		refuse(rw, 400, "Bad Request: message text is empty", nil)
		return
	}
	if f != nil {
		rw = serving.Cut(rw, func() {})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := int64(firstSent + len(b.sent) + 1)
	b.sent = append(b.sent, Sent{id, q.Chat, q.Text, q.Reply.ID})
	reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{"message_id": id, "text": q.Text}})
}
