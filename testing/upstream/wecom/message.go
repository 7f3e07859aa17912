package wecom

import (
	"encoding/json"
	"fmt"
	"time"
)

// account is a customer-service account.
type account struct {
	corp, id string
	posted   []posted
	tokens   map[string]time.Time // tokens of callbacks, and until when they are valid
	calls    []time.Time          // calls without one, within a minute
	fault    *fault
	blank    bool // the last page was empty

	wrote   time.Time // when its customer wrote last
	answers int       // since then
	sent    []Sent
}

type posted struct {
	at  time.Time
	raw json.RawMessage
}

// Types are the msgtypes of messages that are no events.
func Types() []string {
	return []string{"text", "image", "voice", "video", "file", "location", "link", "business_card", "miniprogram", "msgmenu"}
}

// Events are the event_types.
func Events() []string {
	return []string{"enter_session", "msg_send_fail", "servicer_status_change", "session_status_change",
		"user_recall_msg", "servicer_recall_msg", "reject_customer_msg_switch_change"}
}

// PostN adds n texts to an account and returns the number of the last.
func (w *WeCom) PostN(openKfID string, n int) int {
	last := 0
	for range n {
		last = w.Post(openKfID, "text")
	}
	return last
}

// Post adds a message of a msgtype to an account and returns its number.
func (w *WeCom) Post(openKfID, msgType string) int {
	return w.post(openKfID, func(n int, element map[string]any) {
		element["msgid"], element["msgtype"] = MessageID(openKfID, n), msgType
		element["origin"], element["external_userid"] = 3, "wm-customer"
		element[msgType] = map[string]any{"n": n, "content": fmt.Sprintf("message %d of %s 你好", n, openKfID)}
	})
}

// PostEvent adds an event, which has no msgid, and returns its number.
func (w *WeCom) PostEvent(openKfID, eventType string) int {
	return w.post(openKfID, func(n int, element map[string]any) {
		element["origin"], element["msgtype"] = 4, "event"
		element["event"] = map[string]any{"event_type": eventType, "open_kfid": openKfID, "n": n}
	})
}

// Again has a message come again, under a cursor of its own, and perhaps without its msgid.
func (w *WeCom) Again(openKfID string, n int, withoutID bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[openKfID]
	again := a.posted[n-1]
	if withoutID {
		var element map[string]json.RawMessage
		if err := json.Unmarshal(again.raw, &element); err != nil {
			panic(err) // it was marshalled here
		}
		delete(element, "msgid")
		raw, err := json.Marshal(element)
		if err != nil {
			panic(err)
		}
		again.raw = raw
	}
	a.posted = append(a.posted, posted{w.options.Now(), again.raw})
}

func (w *WeCom) post(openKfID string, fill func(n int, element map[string]any)) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, now := w.accounts[openKfID], w.options.Now()
	n := len(a.posted) + 1
	element := map[string]any{"open_kfid": openKfID, "send_time": now.Unix()}
	fill(n, element)
	raw, err := json.Marshal(element)
	if err != nil {
		panic(err) // maps and texts can always be marshalled
	}
	a.posted = append(a.posted, posted{now, raw})
	if element["origin"] == 3 {
		a.wrote, a.answers = now, 0
	}
	return n
}

// Number returns the number that a message or event of this fake holds, or 0 if it holds
// none.
func Number(raw json.RawMessage) int {
	var element map[string]json.RawMessage
	var content struct {
		N int `json:"n"`
	}
	var msgType string
	if json.Unmarshal(raw, &element) != nil || json.Unmarshal(element["msgtype"], &msgType) != nil ||
		json.Unmarshal(element[msgType], &content) != nil {
		return 0
	}
	return content.N
}

// Posted returns how many messages and events an account has had.
func (w *WeCom) Posted(openKfID string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.accounts[openKfID].posted)
}
