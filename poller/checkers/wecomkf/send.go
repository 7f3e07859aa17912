package wecomkf

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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

	originCustomer = 3
	eventSendFail  = "msg_send_fail"

	codeTooMany = 95001 // more messages than a window allows
	codeServed  = 95018 // a servicer has the session
)

var _ poller.Sender = (*Checker)(nil)

// Sending is text within windows. WeCom does not promise that it refuses a repeated msgid, so an unknown
// end stays unknown.
func (*Checker) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"text"}, Windowed: true, Most: windowCount}
}

// PrepareSend takes {"text": "…"}. An answer goes to the customer who wrote the message.
func (*Checker) PrepareSend(_ json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil && s.Peer == "" {
		var e element
		if json.Unmarshal(answers.Data, &e) != nil || e.Customer == "" {
			return errors.New("reply_to: is no message of a customer")
		}
		s.Peer = e.Customer
	}
	return message.PrepareText(s)
}

// answerable returns the window that a message opens; nil: nobody can be answered.
func (e *element) answerable(written, now time.Time) *poller.Answerable {
	if e.Origin != originCustomer || e.MsgType == "event" || !message.Peer(e.Customer) {
		return nil
	}
	left := windowLasts
	if !written.IsZero() {
		left = min(left, windowLasts-now.Sub(written))
	}
	if left <= 0 {
		return nil
	}
	return &poller.Answerable{Peer: e.Customer, For: left, Count: windowCount}
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

// Send sends one text. Its msgid is the send's id, by which a later msg_send_fail names it.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	text, err := message.Text(r.Data)
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
	body, err := json.Marshal(map[string]any{
		"touser": r.Peer, "open_kfid": config.openKfID, "msgid": r.ID, "msgtype": "text", "text": map[string]any{"content": text},
	})
	if err != nil {
		return poller.Sent{}, poller.Refused("data", "cannot be encoded")
	}
	done, failed := c.crowds.enter(ctx, g.ref.Owner)
	if failed != nil {
		return poller.Sent{}, poller.Unsent(failed)
	}
	defer done()
	return c.send(ctx, g, body)
}

// send sends a message. If WeCom refuses the access token, it has not taken the message, which is sent
// again with another token.
func (c *Checker) send(ctx context.Context, g *grant, body []byte) (poller.Sent, error) {
	var refused int64 // the version of a refused token
	for {
		token, failed := c.broker.token(ctx, g, refused)
		if failed != nil {
			return poller.Sent{}, poller.Unsent(failed)
		}
		id, code, errmsg, err := c.sendOnce(ctx, g, body, token.value)
		if err != nil {
			return poller.Sent{}, err
		}
		switch code {
		case codeOK:
			return poller.Sent{VendorID: id}, nil
		case codeBusy: // it may have taken the message
			return poller.Sent{}, codeError(code)
		case codeBadToken, codeTokenExpired, codeBadSecret, codeBadCorp:
			if refused == 0 && c.broker.drop(ctx, g, token.version) {
				refused = token.version
				continue
			}
			return poller.Sent{}, again(g.failure(code, ""))
		case codeConcurrency:
			c.crowds.lower(g.ref.Owner)
			return poller.Sent{}, again(codeError(code))
		case codeRate:
			return poller.Sent{}, again(c.broker.pause(ctx, g))
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

// sendOnce makes one call of send_msg.
func (c *Checker) sendOnce(ctx context.Context, g *grant, body []byte, token string) (id string, code int, errmsg string, err error) {
	query := url.Values{"access_token": {token}}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: g.base + "/cgi-bin/kf/send_msg?" + query.Encode(), Body: body, MaxBody: 1 << 20, Confined: g.open,
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
