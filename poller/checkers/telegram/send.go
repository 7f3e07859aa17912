package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	methodSend = "sendMessage"

	replyField = "reply_to_message_id" // of a send's data
	maxText    = 4096                  // characters of a message
)

var _ poller.Sender = (*Checker)(nil)

// chatPattern is what names a chat: its number, or a channel's name.
var chatPattern = regexp.MustCompile(`^(-?[1-9][0-9]{0,18}|@[A-Za-z0-9_]{1,64})$`)

// Sending is text. Telegram knows no idempotency, so an unknown end stays unknown.
func (*Checker) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"text"}}
}

// PrepareSend takes {"text": "…"}, to a chat's id. An answer goes to the chat of the message that it
// answers, and names that message in reply_to_message_id.
func (*Checker) PrepareSend(_ json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil {
		chat, number := chatOf(answers.Data)
		switch {
		case chat == "":
			return errors.New("reply_to: is no message of a chat")
		case s.Peer == "":
			s.Peer = chat
		}
		if fields, ok := strict.Members(s.Data); ok && s.Peer == chat && len(fields[replyField]) == 0 {
			fields[replyField] = json.RawMessage(strconv.FormatInt(number, 10))
			if data, err := json.Marshal(fields); err == nil {
				s.Data = data
			}
		}
	}
	text := *s
	text.Data = withoutReply(s.Data)
	err := message.PrepareText(&text)
	if !chatPattern.MatchString(s.Peer) {
		err = errors.Join(err, errors.New("to: must be the id of a chat, such as 123456789 or @channel"))
	}
	if said, _ := message.Text(text.Data); utf8.RuneCountInString(said) > maxText {
		err = errors.Join(err, errors.New("data.text: must have at most 4096 characters"))
	}
	if _, wrong := replyOf(s.Data); wrong != nil {
		err = errors.Join(err, wrong)
	}
	return err
}

// withoutReply returns the data of a text that answers no message.
func withoutReply(data json.RawMessage) json.RawMessage {
	fields, ok := strict.Members(data)
	if !ok {
		return data
	}
	delete(fields, replyField)
	rest, err := json.Marshal(fields)
	if err != nil {
		return data
	}
	return rest
}

// replyOf returns the number of the message that a send answers; 0: none.
func replyOf(data json.RawMessage) (int64, error) {
	fields, _ := strict.Members(data)
	raw := fields[replyField]
	if len(raw) == 0 {
		return 0, nil
	}
	number, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || number <= 0 {
		return 0, errors.New("data." + replyField + ": must be the number of a message")
	}
	return number, nil
}

// chatOf returns the chat and the number of the message in an update; an empty chat: it has none.
func chatOf(update json.RawMessage) (chat string, number int64) {
	type content struct {
		ID   int64 `json:"message_id"`
		Chat struct {
			ID int64 `json:"id"`
		} `json:"chat"`
	}
	var u struct {
		Message           *content `json:"message"`
		EditedMessage     *content `json:"edited_message"`
		ChannelPost       *content `json:"channel_post"`
		EditedChannelPost *content `json:"edited_channel_post"`
		Callback          struct {
			Message *content `json:"message"`
		} `json:"callback_query"`
	}
	if json.Unmarshal(update, &u) != nil {
		return "", 0
	}
	for _, m := range []*content{u.Message, u.EditedMessage, u.ChannelPost, u.EditedChannelPost, u.Callback.Message} {
		if m != nil && m.Chat.ID != 0 && m.ID > 0 {
			return strconv.FormatInt(m.Chat.ID, 10), m.ID
		}
	}
	return "", 0
}

// Send sends one text.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	text, err := message.Text(withoutReply(r.Data))
	reply, wrong := replyOf(r.Data)
	if err := errors.Join(err, wrong); err != nil {
		return poller.Sent{}, poller.Refused("data", err.Error())
	}
	use := secrets.ForURL(kind, config.base)
	token, err := c.secrets.Get(ctx, config.token.Name, use)
	if err != nil {
		return poller.Sent{}, poller.Unsent(secrets.CheckError(err))
	}
	if !tokenPattern.MatchString(token) {
		return poller.Sent{}, poller.Unsent(&poller.CheckError{Kind: poller.AuthFailed, Code: "token", Message: "the secret " + config.token.Name + " is not a bot's token"})
	}
	body := map[string]any{"chat_id": r.Peer, "text": text}
	if reply > 0 {
		// The message may be gone by now, which is no reason not to send.
		body["reply_parameters"] = map[string]any{"message_id": reply, "allow_sending_without_reply": true}
	}
	call := caller{client: c.client, base: config.base, token: token, open: use.Open()}
	return call.send(ctx, body)
}

func (c *caller) send(ctx context.Context, body map[string]any) (poller.Sent, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", "cannot be encoded")
	}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: c.base + "/bot" + c.token + "/" + methodSend, Body: raw, MaxBody: 1 << 20, Confined: c.open,
		Header: http.Header{"Content-Type": {"application/json"}},
	})
	if err != nil {
		return poller.Sent{}, fetch.SendError(err)
	}
	var a answer
	_, err = limits.Check(response.Body)
	own := err == nil && utf8.Valid(response.Body) && json.Unmarshal(response.Body, &a) == nil && a.OK != nil && (*a.OK || a.Code != 0)
	switch {
	case own && *a.OK:
		var sent struct {
			ID int64 `json:"message_id"`
		}
		if json.Unmarshal(a.Result, &sent) != nil || sent.ID <= 0 {
			return poller.Sent{}, nil
		}
		return poller.Sent{VendorID: strconv.FormatInt(sent.ID, 10)}, nil
	case own:
		return poller.Sent{}, sendError(&a)
	case response.Status != http.StatusOK:
		return poller.Sent{}, fetch.SendStatusError("the API", response)
	}
	return poller.Sent{}, protocolError("is not the expected JSON")
}

// sendError returns the error for an answer that is an error of the API's own.
func sendError(a *answer) error {
	e := &poller.SendError{Final: true, Code: "telegram_" + strconv.Itoa(a.Code), Message: "Telegram refuses the message: the chat does not exist, or its text is not allowed"}
	switch {
	case a.Code >= 500: // it may have taken the message
		return codeError(a)
	case a.Code == http.StatusUnauthorized || a.Code == http.StatusNotFound:
		e.Final, e.Account, e.Message = false, true, "Telegram knows no such token: it was revoked or is wrong"
	case a.Code == http.StatusForbidden:
		e.Message = "Telegram refuses it: the person has blocked the bot or has not written to it, or the bot is not in the chat"
	case a.Code == http.StatusTooManyRequests:
		e.Final, e.Message = false, "the bot sends more than Telegram allows"
		if wait := a.Parameters.RetryAfter; wait > 0 {
			e.After = fetch.ClampRetryAfter(time.Duration(min(wait, 1<<31)) * time.Second)
		}
	}
	return e
}
