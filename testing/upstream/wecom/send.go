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
	answersFor  = 48 * time.Hour   // after a customer's last message
	answersMost = 5                // since then
	welcomeFor  = 20 * time.Second // after the customer has entered
)

// Sent is a message that was sent to a customer.
type Sent struct {
	MsgID, To string
	Type      string // the msgtype
	Text      string // of a text; of a file its name; of others their JSON
	Welcome   bool   // by a welcome_code
	File      string // its bytes; empty: it is none
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

// Enter posts the event that the customer enters, and returns its number. It has a welcome_code, unless
// the customer has written within 48 hours.
func (w *WeCom) Enter(openKfID string) int {
	return w.post(openKfID, func(n int, element map[string]any) {
		event := map[string]any{"event_type": "enter_session", "open_kfid": openKfID, "external_userid": "wm-customer", "scene": "123", "n": n}
		a, now := w.accounts[openKfID], w.options.Now()
		if a.wrote.IsZero() || now.Sub(a.wrote) > answersFor {
			code := fmt.Sprintf("welcome-%s-%d", openKfID, n)
			event["welcome_code"] = code
			w.welcomes[code] = welcome{a, now}
		}
		element["origin"], element["msgtype"], element["event"] = 4, "event", event
	})
}

// welcome is what a welcome_code is for.
type welcome struct {
	account *account
	at      time.Time // when the customer entered
}

// sending is the body of send_msg and of send_msg_on_event.
type sending struct {
	To       string          `json:"touser"`
	OpenKfID string          `json:"open_kfid"`
	Code     string          `json:"code"`
	MsgID    string          `json:"msgid"`
	Type     string          `json:"msgtype"`
	Link     json.RawMessage `json:"link"`
	Menu     json.RawMessage `json:"msgmenu"`
	Image    mediaID         `json:"image"`
	Voice    mediaID         `json:"voice"`
	Video    mediaID         `json:"video"`
	File     mediaID         `json:"file"`
	Text     struct {
		Content string `json:"content"`
	} `json:"text"`
}

type mediaID struct {
	ID string `json:"media_id"`
}

// media returns the media_id of a file; empty: it is none.
func (q *sending) media() string {
	return map[string]mediaID{"image": q.Image, "voice": q.Voice, "video": q.Video, "file": q.File}[q.Type].ID
}

// content returns what a message shows, and whether it has the fields that its type needs.
func (q *sending) content(onEvent bool) (text string, ok bool) {
	var link struct {
		Title, URL string
		Thumb      string `json:"thumb_media_id"`
	}
	var menu struct{ List []struct{ Type string } }
	switch {
	case q.MsgID != "" && !msgIDPattern.MatchString(q.MsgID):
	case q.Type == "text":
		return q.Text.Content, q.Text.Content != ""
	case q.Type == "link" && !onEvent:
		return string(q.Link), json.Unmarshal(q.Link, &link) == nil && link.Title != "" && link.URL != "" && link.Thumb != ""
	case q.media() != "":
		return "", !onEvent
	case q.Type == "msgmenu":
		return string(q.Menu), json.Unmarshal(q.Menu, &menu) == nil && len(menu.List) > 0 && len(menu.List) <= 10
	}
	return "", false
}

// sendMsg sends a message to a customer. It takes a repeated msgid again: that the real one refuses it
// is not promised.
func (w *WeCom) sendMsg(rw http.ResponseWriter, r *http.Request) { w.takes(rw, r, false) }

// sendOnEvent sends a message to a customer who has entered, once within 20 seconds. That a code is
// refused with 40058 afterwards is a guess.
func (w *WeCom) sendOnEvent(rw http.ResponseWriter, r *http.Request) { w.takes(rw, r, true) }

func (w *WeCom) takes(rw http.ResponseWriter, r *http.Request, onEvent bool) {
	var q sending
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Now()
	c, code := w.holder(r.URL.Query().Get("access_token"), now)
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
	if err != nil || json.Unmarshal(body, &q) != nil {
		refuse(rw, r, 40058)
		return
	}
	text, ok := q.content(onEvent)
	a := w.accounts[q.OpenKfID]
	if onEvent {
		entered, known := w.welcomes[q.Code]
		if ok = ok && known && now.Sub(entered.at) <= welcomeFor && q.To == "" && q.OpenKfID == ""; ok {
			a, q.To = entered.account, "wm-customer"
			delete(w.welcomes, q.Code)
		}
	}
	var file []byte
	if m := w.media[q.media()]; m != nil && m.corp == c.id && m.kind == q.Type {
		text, file = m.name, m.data
	} else if q.media() != "" {
		refuse(rw, r, 40007)
		return
	}
	switch {
	case !ok || q.To == "":
		refuse(rw, r, 40058)
	case a == nil || a.corp != c.id:
		refuse(rw, r, 95000)
	case !onEvent && (a.wrote.IsZero() || now.Sub(a.wrote) > answersFor || a.answers >= answersMost):
		refuse(rw, r, 95001)
	default:
		if !onEvent {
			a.answers++
		}
		if q.MsgID == "" {
			q.MsgID = fmt.Sprintf("sent-%d", len(a.sent)+1)
		}
		a.sent = append(a.sent, Sent{q.MsgID, q.To, q.Type, text, onEvent, string(file)})
		reply(rw, map[string]any{"errcode": 0, "errmsg": "ok", "msgid": q.MsgID})
	}
}
