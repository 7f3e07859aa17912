package ilink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	codeRefused = -2 // the errcode of a stale context_token, and of too many answers

	ticketsFor  = 24 * time.Hour // how long a typing ticket is valid
	answersFor  = 24 * time.Hour // after a person's last message
	answersMost = 10             // since then
)

// firstSent is the message_id before a bot's first sent one.
const firstSent uint64 = 1<<63 + 1<<54

// Sent is a text or a file that a bot has sent, and that the fake has accepted.
type Sent struct {
	ID       string // its message_id
	To       string
	ClientID string
	Text     string // of a file: its name, if it has one
	At       time.Time
	File     string // its bytes; empty: it is a text
}

// Sent returns what a bot has sent, in order. The bot may have had other tokens before.
func (w *Ilink) Sent(token string) []Sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.bots[token]; b != nil {
		return slices.Clone(b.sent)
	}
	return nil
}

// sending is the body of sendmessage.
type sending struct {
	Msg struct {
		From      *string `json:"from_user_id"`
		To        string  `json:"to_user_id"`
		ClientID  string  `json:"client_id"`
		Type      int     `json:"message_type"`
		State     int     `json:"message_state"`
		GroupID   string  `json:"group_id"`
		Context   string  `json:"context_token"`
		ItemsList []struct {
			Type int `json:"type"`
			Text struct {
				Text string `json:"text"`
			} `json:"text_item"`
			Image sentMedia `json:"image_item"`
			File  sentMedia `json:"file_item"`
			Video sentMedia `json:"video_item"`
		} `json:"item_list"`
	} `json:"msg"`
}

// readInto reads a POST, and its body into another value besides.
func readInto(r *http.Request, to any) (token, fault string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	r.Body = io.NopCloser(bytes.NewReader(body))
	if _, token, fault = read(r); fault == "" && (err != nil || json.Unmarshal(body, to) != nil) {
		fault = "the body is not JSON"
	}
	return token, fault
}

// file returns what the item names as a file; nil: it is a text.
func (s *sending) file() *sentMedia {
	item := &s.Msg.ItemsList[0]
	switch item.Type {
	case 2:
		return &item.Image
	case 4:
		return &item.File
	case 5:
		return &item.Video
	}
	return nil
}

// sendMessage takes a text or a file for a person, if the person has written within the last day and was not
// answered too often since. It takes a repeated client_id again: whether the real server knows
// one is not known.
func (w *Ilink) sendMessage(rw http.ResponseWriter, r *http.Request) {
	var s sending
	token, fault := readInto(r, &s)
	m := s.Msg
	switch {
	case fault != "":
	case m.From == nil || *m.From != "" || m.To == "" || m.ClientID == "" || m.Type != 2 || m.State != 2 || m.GroupID != "":
		fault = "msg"
	case len(m.ItemsList) != 1 || s.file() == nil && (m.ItemsList[0].Type != 1 || m.ItemsList[0].Text.Text == ""):
		fault = "item_list"
	}
	if fault != "" {
		http.Error(rw, fault, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, now := w.bots[token], w.options.Now()
	switch {
	case b == nil || b.idle:
		w.answer(rw, r, map[string]any{"ret": codeStale, "errcode": codeStale, "errmsg": "session timeout of " + token})
	case !b.gave(m.Context) || now.Sub(b.wrote) > answersFor || b.answers >= answersMost:
		w.answer(rw, r, map[string]any{"ret": codeRefused, "errmsg": fmt.Sprintf("refused: %s", m.Context)})
	default:
		text, data := m.ItemsList[0].Text.Text, []byte(nil)
		if file := s.file(); file != nil {
			var ok bool
			if data, ok = w.fileIn(file); !ok {
				w.answer(rw, r, map[string]any{"ret": -1, "errmsg": "no such file, or another key"})
				return
			}
			text = file.Name
		}
		b.answers++
		id := strconv.FormatUint(firstSent+uint64(len(b.sent))+1, 10)
		b.sent = append(b.sent, Sent{ID: id, To: m.To, ClientID: m.ClientID, Text: text, At: now, File: string(data)})
		w.answer(rw, r, map[string]any{"ret": 0, "message_id": json.RawMessage(id)})
	}
}

// gave reports whether a context_token came with a message of the bot.
func (b *bot) gave(context string) bool {
	n, numbered := strings.CutPrefix(context, "context-")
	at, err := strconv.Atoi(n)
	return numbered && err == nil && at >= 1 && at <= len(b.posted)
}

// Typing is a typing notice that a bot has shown.
type Typing struct {
	To string
	On bool
}

// Typing returns the typing notices that a bot has shown, in order.
func (w *Ilink) Typing(token string) []Typing {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.bots[token]; b != nil {
		return slices.Clone(b.typing)
	}
	return nil
}

// typingRequest is the body of getconfig and of sendtyping.
type typingRequest struct {
	User    string `json:"ilink_user_id"`
	Context string `json:"context_token"`
	Ticket  string `json:"typing_ticket"`
	Status  int    `json:"status"` // 1 begins, 2 ends
}

// readTyping reads a call about typing. It answers what cannot be read.
func readTyping(rw http.ResponseWriter, r *http.Request) (q typingRequest, token string, ok bool) {
	token, fault := readInto(r, &q)
	if fault == "" && q.User == "" {
		fault = "ilink_user_id"
	}
	if fault != "" {
		http.Error(rw, fault, http.StatusBadRequest)
	}
	return q, token, fault == ""
}

// getConfig gives a typing ticket for a person who has written.
func (w *Ilink) getConfig(rw http.ResponseWriter, r *http.Request) {
	q, token, ok := readTyping(rw, r)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	switch {
	case b == nil || b.idle:
		w.answer(rw, r, map[string]any{"ret": codeStale, "errcode": codeStale, "errmsg": "session timeout of " + token})
	case !b.gave(q.Context):
		w.answer(rw, r, map[string]any{"ret": codeRefused, "errmsg": "refused: " + q.Context})
	default:
		w.answer(rw, r, map[string]any{"ret": 0, "typing_ticket": fmt.Sprintf("ticket %d for %s", w.options.Now().UnixMilli(), q.User)})
	}
}

// sendTyping shows that somebody types. The ticket must be the person's, and no older than a day.
func (w *Ilink) sendTyping(rw http.ResponseWriter, r *http.Request) {
	q, token, ok := readTyping(rw, r)
	if !ok {
		return
	}
	var at int64
	var user string
	_, err := fmt.Sscanf(q.Ticket, "ticket %d for %s", &at, &user)
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	switch {
	case b == nil || b.idle:
		w.answer(rw, r, map[string]any{"ret": codeStale, "errcode": codeStale, "errmsg": "session timeout of " + token})
	case err != nil || user != q.User || w.options.Now().Sub(time.UnixMilli(at)) > ticketsFor || q.Status != 1 && q.Status != 2:
		w.answer(rw, r, map[string]any{"ret": codeRefused, "errmsg": "refused: " + q.Ticket})
	default:
		b.typing = append(b.typing, Typing{q.User, q.Status == 1})
		w.answer(rw, r, map[string]any{"ret": 0})
	}
}
