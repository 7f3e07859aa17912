package wecomkf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	windowLasts = 48 * time.Hour // after a customer's message
	windowCount = 5              // messages within it

	welcomeLasts = 20 * time.Second // after a customer has entered, for one message

	pathSend    = "send_msg"
	pathWelcome = "send_msg_on_event"

	originCustomer = 3
	eventSendFail  = "msg_send_fail"
	eventEnter     = "enter_session"

	codeTooMany = 95001 // more messages than a window allows
	codeServed  = 95018 // a servicer has the session
)

var _ poller.Sender = (*Checker)(nil)

// Sending is texts, links, menus and files within windows. WeCom does not promise that it refuses a repeated
// msgid, so an unknown end stays unknown.
func (*Checker) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: append([]string{typeText, typeLink, typeMenu}, fileTypes()...), Windowed: true, Most: windowCount, Files: fileTypes()}
}

// PrepareSend takes {"text": "…"}, {"file": "ID"}, and for links and menus what WeCom takes as link and
// msgmenu. An answer goes to the customer who wrote the message, or who has entered.
func (*Checker) PrepareSend(_ json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil && s.Peer == "" {
		var e element
		if json.Unmarshal(answers.Data, &e) != nil || e.customer() == "" {
			return errors.New("reply_to: is no message of a customer")
		}
		s.Peer = e.customer()
	}
	types := map[string]func(json.RawMessage) error{typeText: message.JudgeText, typeLink: judgeLink, typeMenu: judgeMenu}
	for _, name := range fileTypes() {
		types[name] = func(data json.RawMessage) error { _, err := fileRule(name).Read(data, s.File); return err }
	}
	return message.Prepare(s, types)
}

// customer returns whom a message or an event is about.
func (e *element) customer() string { return cmp.Or(e.Customer, e.Event.Customer) }

// answerable returns the window that a message or an event opens; nil: nobody can be answered. Who has
// entered with a welcome_code may be welcomed once.
func (e *element) answerable(written, now time.Time) *poller.Answerable {
	w := &poller.Answerable{Peer: e.customer(), For: windowLasts, Count: windowCount}
	switch {
	case e.MsgType == "event" && e.Event.EventType == eventEnter && e.Event.WelcomeCode != "":
		w.For, w.Count, w.Token = welcomeLasts, 1, e.Event.WelcomeCode
	case e.MsgType == "event", e.Origin != originCustomer:
		return nil
	}
	if !written.IsZero() {
		w.For = min(w.For, w.For-now.Sub(written))
	}
	if w.For <= 0 || !message.Peer(w.Peer) {
		return nil
	}
	return w
}

// failedSend returns what an event of a type says about a send that WeCom had accepted; nil: nothing.
func failedSend(raw json.RawMessage, kind string) *poller.FailedSend {
	var e element
	if kind != "event."+eventSendFail || json.Unmarshal(raw, &e) != nil || e.Event.FailMsgID == "" {
		return nil
	}
	texts := map[int]string{
		0: "WeCom could not deliver it, for a reason that it does not tell", 4: "the session has expired: 48 hours are over", 5: "the session was closed",
		6: "more than 5 messages were sent", 8: "the account is not bound to a video channel", 10: "the customer refuses messages",
	}
	text, ok := texts[e.Event.FailType]
	if !ok {
		text = "WeCom could not deliver it"
	}
	return &poller.FailedSend{ID: e.Event.FailMsgID, Code: "fail_type_" + strconv.Itoa(e.Event.FailType), Text: text}
}

// Send sends one message. A file is uploaded first. The msgid is the send's id, by which a later
// msg_send_fail names it. If the window has a token, that is a welcome_code.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	content, err := contentOf(&r)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", err.Error())
	}
	use := secrets.ForURL(kind, config.baseURL)
	secret, err := c.secrets.Get(ctx, config.secret.Name, use)
	if err != nil {
		return poller.Sent{}, poller.Unsent(secrets.CheckError(err))
	}
	g, err := newGrant(config, secret)
	if err != nil {
		return poller.Sent{}, poller.Unsent(&poller.CheckError{Code: "seal", Message: "the access token cannot be sealed"})
	}
	if slices.Contains(fileTypes(), r.Type) {
		// Like a file that is fetched, one that is uploaded slowly must not keep checks waiting.
		id, err := c.upload(ctx, g, &r)
		if err != nil {
			return poller.Sent{}, err
		}
		content[r.Type] = map[string]string{"media_id": id}
	}
	path := pathSend
	if r.Token == "" {
		content["touser"], content["open_kfid"] = r.Peer, config.openKfID
	} else {
		content["code"], path = r.Token, pathWelcome
	}
	body, err := json.Marshal(content)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", "cannot be encoded")
	}
	done, failed := c.crowds.enter(ctx, g.owner())
	if failed != nil {
		return poller.Sent{}, poller.Unsent(failed)
	}
	defer done()
	return c.send(ctx, g, path, body)
}

// send sends a message. If WeCom refuses the access token, it has not taken the message, which is sent
// again with another token.
func (c *Checker) send(ctx context.Context, g *grant, path string, body []byte) (poller.Sent, error) {
	var refused int64 // the version of a refused token
	for {
		token, failed := c.broker.Token(ctx, g, refused)
		if failed != nil {
			return poller.Sent{}, poller.Unsent(failed)
		}
		id, code, errmsg, err := c.sendOnce(ctx, g, path, body, token.Value)
		if err != nil {
			return poller.Sent{}, err
		}
		switch code {
		case codeOK:
			return poller.Sent{VendorID: id}, nil
		case codeBusy: // it may have taken the message
			return poller.Sent{}, codeError(code)
		case codeBadToken, codeTokenExpired, codeBadSecret, codeBadCorp:
			if refused == 0 && c.broker.Drop(ctx, g, token.Version) {
				refused = token.Version
				continue
			}
			return poller.Sent{}, again(g.failure(code, ""))
		case codeConcurrency:
			c.crowds.lower(g.owner())
			return poller.Sent{}, again(codeError(code))
		case codeRate:
			return poller.Sent{}, again(c.pause(ctx, g))
		case codeBadIP:
			return poller.Sent{}, again(g.failure(code, errmsg))
		}
		return poller.Sent{}, refusal(code)
	}
}

// again returns the error for a refusal that may pass.
func again(failed *poller.CheckError) error {
	return &poller.SendError{After: failed.RetryAfter, Code: failed.Code, Message: failed.Message, Account: failed.Kind == poller.AuthFailed}
}

// refusal returns the error for a refusal for good.
func refusal(code int) error {
	failed := codeError(code)
	e := poller.Refused(failed.Code, failed.Message)
	switch code {
	case codeTooMany:
		e.Message = "WeCom allows 5 messages within 48 hours of the customer's last one"
	case codeServed:
		e.Message = "a servicer has the session: only the servicer can answer now"
	default:
		e.Account = failed.Kind == poller.AuthFailed || failed.Kind == poller.Gone
	}
	return e
}

// sendOnce makes one call of send_msg or send_msg_on_event.
func (c *Checker) sendOnce(ctx context.Context, g *grant, path string, body []byte, token string) (id string, code int, errmsg string, err error) {
	query := url.Values{"access_token": {token}}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: g.base + "/cgi-bin/kf/" + path + "?" + query.Encode(), Body: body, MaxBody: 1 << 20, Confined: g.open,
		Header: http.Header{"Content-Type": {"application/json"}},
	})
	switch {
	case err != nil:
		return "", 0, "", fetch.SendError(err)
	case response.Status != http.StatusOK:
		return "", 0, "", fetch.SendStatusError("the API", response)
	}
	var a struct {
		answer
		MsgID string `json:"msgid"`
	}
	if _, err := limits.Check(response.Body); err != nil || !utf8.Valid(response.Body) || json.Unmarshal(response.Body, &a) != nil {
		return "", 0, "", protocolError("is not the expected JSON")
	}
	code, errmsg, ok := a.head()
	if !ok {
		return "", 0, "", protocolError("errcode: missing")
	}
	if len(a.MsgID) > maxID || !printable(a.MsgID) {
		a.MsgID = ""
	}
	return a.MsgID, code, errmsg, nil
}
