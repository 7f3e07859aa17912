package wecomkf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// maxLimit is the most messages that WeCom returns on a page.
const maxLimit = 1000

// syncRequest is the body of kf/sync_msg.
type syncRequest struct {
	Cursor      string `json:"cursor,omitempty"` // empty: from the oldest message
	Token       string `json:"token,omitempty"`  // of a callback
	Limit       int    `json:"limit"`
	VoiceFormat int    `json:"voice_format"`
	OpenKfID    string `json:"open_kfid"`
}

// syncAnswer is the answer to kf/sync_msg.
type syncAnswer struct {
	answer
	NextCursor string            `json:"next_cursor"`
	HasMore    int               `json:"has_more"` // 0 or 1, which may come with an empty list
	List       []json.RawMessage `json:"msg_list"`
}

// page is a parsed answer.
type page struct {
	messages []poller.Message
	failed   []poller.FailedSend
	next     string // WeCom's cursor; empty: unchanged
	hasMore  bool
	wait     time.Duration // for the next page
}

// sync asks for a page. It tries once more, with another token, if WeCom refuses the
// access token, and without the callback's token if WeCom no longer knows that one.
func (c *Checker) sync(ctx context.Context, g *grant, q syncRequest) (page, *poller.CheckError) {
	done, failed := c.crowds.enter(ctx, g.owner())
	if failed != nil {
		return page{}, failed
	}
	defer done()
	var refused int64 // the version of a refused token
	for {
		token, failed := c.broker.Token(ctx, g, refused)
		if failed != nil {
			return page{}, failed
		}
		if q.Token == "" {
			if failed := c.paces.call(g.owner() + "|" + q.OpenKfID); failed != nil {
				return page{}, failed
			}
		}
		read, code, errmsg, failed := c.syncOnce(ctx, g, q, token.Value)
		if failed != nil {
			return page{}, failed
		}
		switch code {
		case codeOK:
			p, failed := read.page()
			if p.hasMore && q.Token == "" {
				p.wait = c.paces.wait(g.owner() + "|" + q.OpenKfID)
			}
			return p, failed
		case codeBadMsgToken:
			if q.Token != "" {
				q.Token = ""
				continue
			}
		case codeBadToken, codeTokenExpired, codeBadSecret, codeBadCorp:
			if refused == 0 {
				if !c.broker.Drop(ctx, g, token.Version) {
					return page{}, g.failure(codeBadToken, "") // the refused token was the new one
				}
				refused = token.Version
				continue
			}
		case codeConcurrency:
			c.crowds.lower(g.owner())
		case codeRate:
			return page{}, c.pause(ctx, g)
		}
		return page{}, g.failure(code, errmsg)
	}
}

func (c *Checker) syncOnce(ctx context.Context, g *grant, q syncRequest, token string) (read syncAnswer, code int, errmsg string, failed *poller.CheckError) {
	body, err := json.Marshal(q)
	if err != nil {
		return read, 0, "", poller.CursorError(err)
	}
	query := url.Values{"access_token": {token}}
	code, errmsg, failed = c.call(ctx, fetch.Call{
		Method: http.MethodPost, URL: g.base + "/cgi-bin/kf/sync_msg?" + query.Encode(), Body: body, Confined: g.open,
		Header: http.Header{"Content-Type": {"application/json"}},
	}, &read)
	return read, code, errmsg, failed
}

// page reads an answer's list. If any element is wrong, the whole page is refused.
func (a *syncAnswer) page() (page, *poller.CheckError) {
	p := page{next: a.NextCursor, hasMore: a.HasMore != 0, messages: make([]poller.Message, 0, len(a.List))}
	known := make(map[string]bool, len(a.List))
	for i, raw := range a.List {
		m, err := readMessage(raw)
		if err != nil {
			return page{}, protocolError(fmt.Sprintf("msg_list[%d] %v", i, err))
		}
		if known[m.ID] {
			continue // one of two identical messages is enough
		}
		known[m.ID] = true
		p.messages = append(p.messages, m)
		if failed := failedSend(raw, m.Type); failed != nil {
			p.failed = append(p.failed, *failed)
		}
	}
	if p.hasMore && p.next == "" {
		return page{}, protocolError("next_cursor: missing, although has_more is 1")
	}
	return p, nil
}

// failure is codeError with details of the grant and the answer.
func (g *grant) failure(code int, errmsg string) *poller.CheckError {
	e := codeError(code)
	switch code {
	case codeBadSecret, codeBadCorp, codeSecretType:
		e.Message += ": see the secret " + g.secretName
	case codeBadIP:
		if addr := addressIn(errmsg); addr != "" {
			e.Message += ": " + addr
		}
	}
	return e
}

const (
	maxID   = 256 // bytes
	maxType = 256 // bytes
)

// element has the fields of an element of msg_list that are read here. The rest is for
// the messages' readers.
type element struct {
	MsgID    string `json:"msgid"`
	SendTime int64  `json:"send_time"` // unix seconds
	MsgType  string `json:"msgtype"`
	Origin   int    `json:"origin"`
	Customer string `json:"external_userid"`
	Event    struct {
		EventType   string `json:"event_type"`
		Customer    string `json:"external_userid"`
		WelcomeCode string `json:"welcome_code"`
		FailMsgID   string `json:"fail_msgid"`
		FailType    int    `json:"fail_type"`
	} `json:"event"`
}

// readMessage reads an element. It accepts any type, because WeCom may add types.
func readMessage(raw json.RawMessage) (poller.Message, error) {
	var e element
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &e) != nil {
		return poller.Message{}, errors.New("is not a message")
	}
	m := poller.Message{ID: e.MsgID, Type: e.MsgType, Data: raw}
	if m.Type == "event" && e.Event.EventType != "" {
		m.Type += "." + e.Event.EventType
	}
	if len(m.Type) > maxType || !printable(m.Type) {
		return poller.Message{}, errors.New("msgtype: must be one line of at most 256 bytes")
	}
	if m.ID == "" || len(m.ID) > maxID || !printable(m.ID) {
		m.ID, m.NoID = message.ID(raw), true
	}
	if e.SendTime > 0 {
		m.Content = message.Content(raw, func(field string) bool { return field == "msgid" || field == "media_id" })
	}
	m.Time = message.TimeOfSeconds(e.SendTime)
	m.Answerable = e.answerable(m.Time, time.Now())
	return m, nil
}

func printable(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }
