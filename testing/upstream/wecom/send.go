package wecom

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

const (
	answersFor  = 48 * time.Hour // after a customer's last message
	answersMost = 5              // since then
)

// Sent is a message that was sent to a customer.
type Sent struct {
	MsgID, To, Text string
}

var msgIDPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,32}$`)

// Sent returns what an account has sent, in order.
func (w *WeCom) Sent(openKfID string) []Sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.accounts[openKfID].sent)
}

// FailSent posts the event that a sent message could not be delivered.
func (w *WeCom) FailSent(openKfID, msgID string, failType int) int {
	return w.post(openKfID, func(n int, element map[string]any) {
		element["origin"], element["msgtype"] = 4, "event"
		element["event"] = map[string]any{
			"event_type": "msg_send_fail", "open_kfid": openKfID, "external_userid": "wm-customer", "fail_msgid": msgID, "fail_type": failType, "n": n,
		}
	})
}

// sendMsg sends a text to a customer. It takes a repeated msgid again: that the real one refuses it is
// not promised.
func (w *WeCom) sendMsg(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		To       string `json:"touser"`
		OpenKfID string `json:"open_kfid"`
		MsgID    string `json:"msgid"`
		Type     string `json:"msgtype"`
		Text     struct {
			Content string `json:"content"`
		} `json:"text"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	w.mu.Lock()
	defer w.mu.Unlock()
	c, code := w.holder(r.URL.Query().Get("access_token"), w.options.Now())
	if code != 0 {
		refuse(rw, r, code)
		return
	}
	c.stats.SendMsg++
	switch f := c.faults[SendMsg].next(); {
	case f == nil:
	case f.Cut:
		rw = serving.Cut(rw, func() {})
	default:
		healed := w.healed
		w.mu.Unlock()
		defer w.mu.Lock()
		f.answer(rw, r, healed)
		return
	}
	if err != nil || json.Unmarshal(body, &q) != nil || q.To == "" || q.Type != "text" || q.Text.Content == "" || q.MsgID != "" && !msgIDPattern.MatchString(q.MsgID) {
		refuse(rw, r, 40058)
		return
	}
	a := w.accounts[q.OpenKfID]
	switch {
	case a == nil || a.corp != c.id:
		refuse(rw, r, 95000)
	case a.wrote.IsZero() || w.options.Now().Sub(a.wrote) > answersFor || a.answers >= answersMost:
		refuse(rw, r, 95001)
	default:
		a.answers++
		if q.MsgID == "" {
			q.MsgID = fmt.Sprintf("sent-%d", len(a.sent)+1)
		}
		a.sent = append(a.sent, Sent{q.MsgID, q.To, q.Text.Content})
		reply(rw, map[string]any{"errcode": 0, "errmsg": "ok", "msgid": q.MsgID})
	}
}
