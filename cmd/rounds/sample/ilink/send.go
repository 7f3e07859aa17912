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

	answersFor  = 24 * time.Hour // after a person's last message
	answersMost = 10             // since then
)

// firstSent is the message_id before a bot's first sent one.
const firstSent uint64 = 1<<63 + 1<<54

// Sent is a text that a bot has sent, and that the fake has accepted.
type Sent struct {
	ID       string // its message_id
	To       string
	ClientID string
	Text     string
	At       time.Time
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
		} `json:"item_list"`
	} `json:"msg"`
}

// sendMessage takes a text for a person, if the person has written within the last day and was not
// answered too often since. It takes a repeated client_id again: whether the real server knows
// one is not known.
func (w *Ilink) sendMessage(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, token, fault := read(r)
	var s sending
	if fault == "" && (err != nil || json.Unmarshal(body, &s) != nil) {
		fault = "the body is not JSON"
	}
	m := s.Msg
	switch {
	case fault != "":
	case m.From == nil || *m.From != "" || m.To == "" || m.ClientID == "" || m.Type != 2 || m.State != 2 || m.GroupID != "":
		fault = "msg"
	case len(m.ItemsList) != 1 || m.ItemsList[0].Type != 1 || m.ItemsList[0].Text.Text == "":
		fault = "item_list"
	}
	if fault != "" {
		http.Error(rw, fault, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, now := w.bots[token], w.options.Now()
	n, numbered := strings.CutPrefix(m.Context, "context-")
	at, err := strconv.Atoi(n)
	switch {
	case b == nil || b.idle:
		w.answer(rw, r, map[string]any{"ret": codeStale, "errcode": codeStale, "errmsg": "session timeout of " + token})
	case !numbered || err != nil || at < 1 || at > len(b.posted) || now.Sub(b.wrote) > answersFor || b.answers >= answersMost:
		w.answer(rw, r, map[string]any{"ret": codeRefused, "errmsg": fmt.Sprintf("refused: %s", m.Context)})
	default:
		b.answers++
		id := strconv.FormatUint(firstSent+uint64(len(b.sent))+1, 10)
		b.sent = append(b.sent, Sent{ID: id, To: m.To, ClientID: m.ClientID, Text: m.ItemsList[0].Text.Text, At: now})
		w.answer(rw, r, map[string]any{"ret": 0, "message_id": json.RawMessage(id)})
	}
}
