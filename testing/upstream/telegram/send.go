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

	Method string // that sent a file; empty: it is a text
	Name   string // the file's
	File   string // its bytes
}

// Edit is a message that a bot has edited.
type Edit struct {
	ID   int64 // the message's
	Chat string
	Text string // from now on
}

// Edits returns what a bot has edited, in order.
func (w *Telegram) Edits(token string) []Edit {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.bots[token]; b != nil {
		return slices.Clone(b.edits)
	}
	return nil
}

// Say has a bot send a text by other means, and returns its message_id.
func (w *Telegram) Say(token, chat, text string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bots[token].say(Sent{Chat: chat, Text: text})
}

func (b *bot) say(s Sent) int64 {
	s.ID = int64(firstSent + len(b.sent) + 1)
	b.sent = append(b.sent, s)
	return s.ID
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

// FailSends has a bot's calls of sendMessage and editMessageText fail. Heal ends that too.
func (w *Telegram) FailSends(token string, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token].sendFault = &fault{f, f.Times}
}

// outgoing is the parameters of sendMessage and editMessageText.
type outgoing struct {
	Chat  string `json:"chat_id"`
	Text  string `json:"text"`
	ID    int64  `json:"message_id"` // of an edit
	Reply struct {
		ID int64 `json:"message_id"`
	} `json:"reply_parameters"`
}

// sendMessage sends a text. As the real one, it knows no idempotency.
func (w *Telegram) sendMessage(rw http.ResponseWriter, r *http.Request) {
	w.takes(rw, r, func(rw http.ResponseWriter, b *bot, q *outgoing) {
		id := b.say(Sent{Chat: q.Chat, Text: q.Text, Reply: q.Reply.ID})
		reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{"message_id": id, "text": q.Text}})
	})
}

// sendFile sends a file, whose caption is its text. The field with it is named as in the real API.
func (w *Telegram) sendFile(method, field string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile(field)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(file)
		}
		if err != nil || len(data) == 0 {
			refuse(rw, 400, "Bad Request: there is no "+field+" in the request", nil)
			return
		}
		q := outgoing{Chat: r.FormValue("chat_id"), Text: r.FormValue("caption")}
		if text := r.FormValue("reply_parameters"); text != "" && json.Unmarshal([]byte(text), &q.Reply) != nil {
			refuse(rw, 400, "Bad Request: can't parse reply parameters JSON object", nil)
			return
		}
		w.take(rw, r, &q, true, func(rw http.ResponseWriter, b *bot, q *outgoing) {
			id := b.say(Sent{Chat: q.Chat, Text: q.Text, Reply: q.Reply.ID, Method: method, Name: header.Filename, File: string(data)})
			reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{"message_id": id, "caption": q.Text}})
		})
	}
}

// editMessageText changes a text that the bot has sent. A text that would stay the same is refused.
func (w *Telegram) editMessageText(rw http.ResponseWriter, r *http.Request) {
	w.takes(rw, r, func(rw http.ResponseWriter, b *bot, q *outgoing) {
		n := slices.IndexFunc(b.sent, func(s Sent) bool { return s.ID == q.ID && s.Chat == q.Chat })
		switch {
		case n < 0:
			refuse(rw, 400, "Bad Request: message to edit not found", nil)
		case b.sent[n].Text == q.Text:
			refuse(rw, 400, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message", nil)
		default:
			b.sent[n].Text = q.Text
			b.edits = append(b.edits, Edit{q.ID, q.Chat, q.Text})
			reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{"message_id": q.ID, "text": q.Text}})
		}
	})
}

// takes reads a call that sends something, and takes it under the lock, or lets it fail as ordered.
func (w *Telegram) takes(rw http.ResponseWriter, r *http.Request, take func(rw http.ResponseWriter, b *bot, q *outgoing)) {
	var q outgoing
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxRequest))
	if err != nil || json.NewDecoder(bytes.NewReader(body)).Decode(&q) != nil {
		refuse(rw, 400, "Bad Request: can't parse", nil)
		return
	}
	w.take(rw, r, &q, false, take)
}

// take takes a call that was read.
func (w *Telegram) take(rw http.ResponseWriter, r *http.Request, q *outgoing, isFile bool, take func(rw http.ResponseWriter, b *bot, q *outgoing)) {
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
	case q.Chat == "" || !isFile && strings.TrimSpace(q.Text) == "":
		refuse(rw, 400, "Bad Request: message text is empty", nil)
		return
	case f != nil:
		rw = serving.Cut(rw, func() {})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	take(rw, b, q)
}
