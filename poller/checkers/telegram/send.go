package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
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
	methodEdit = "editMessageText"

	typeText   = "text"
	typeEdit   = "edit"
	replyField = "reply_to_message_id" // of a text's data
	editField  = "message_id"          // of an edit's data
	maxText    = 4096                  // characters of a message
)

var _ poller.Sender = (*Checker)(nil)

// chatPattern is what names a chat: its number, or a channel's name.
var chatPattern = regexp.MustCompile(`^(-?[1-9][0-9]{0,18}|@[A-Za-z0-9_]{1,64})$`)

// Sending is texts, edits of texts that the bot has sent, and files. Telegram knows no idempotency, so an
// unknown end stays unknown. That holds for an edit too: repeated behind a later edit of the same
// message, it would bring an old text back.
func (*Checker) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: append([]string{typeText, typeEdit}, fileTypes()...), Files: fileTypes()}
}

// PrepareSend takes {"text": "…"}, to a chat's id, {"text": "…", "message_id": …} for an edit, and
// {"file": "ID", "caption": "…"}. An answer goes to the chat of the message that it answers. A text or
// a file names that message in reply_to_message_id.
func (c *Checker) PrepareSend(raw json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil {
		chat, number := chatOf(answers.Data)
		switch {
		case chat == "":
			return errors.New("reply_to: is no message of a chat")
		case s.Peer == "":
			s.Peer = chat
		}
		if fields, ok := strict.Members(s.Data); ok && s.Type != typeEdit && s.Peer == chat && len(fields[replyField]) == 0 {
			fields[replyField] = json.RawMessage(strconv.FormatInt(number, 10))
			if data, err := json.Marshal(fields); err == nil {
				s.Data = data
			}
		}
	}
	types := map[string]func(json.RawMessage) error{
		typeText: func(data json.RawMessage) error { _, _, err := contentOf(typeText, data); return err },
		typeEdit: func(data json.RawMessage) error { _, _, err := contentOf(typeEdit, data); return err },
	}
	config, _ := c.form.Read(raw) // without one, no file is too large for now
	for _, name := range fileTypes() {
		types[name] = func(data json.RawMessage) error {
			_, _, err := readFile(fileRule(name, config.base), data, s.File)
			return err
		}
	}
	err := message.Prepare(s, types)
	if !chatPattern.MatchString(s.Peer) {
		err = errors.Join(err, errors.New("to: must be the id of a chat, such as 123456789 or @channel"))
	}
	return err
}

// contentOf returns the text of a send and the number of the message that it answers or edits; 0: none.
func contentOf(kind string, data json.RawMessage) (text string, number int64, err error) {
	field := replyField
	if kind == typeEdit {
		field = editField
	}
	fields, ok := strict.Members(data)
	named := string(fields[field])
	if kind == typeEdit { // it may be a text, as the vendor_id of the send that is edited
		named = strings.Trim(named, `"`)
	}
	if ok {
		delete(fields, field)
		if data, err = json.Marshal(fields); err != nil {
			return "", 0, errors.New("data: cannot be encoded")
		}
	}
	text, err = message.Text(data)
	if utf8.RuneCountInString(text) > maxText {
		err = errors.Join(err, errors.New("data.text: must have at most 4096 characters"))
	}
	if len(named) > 0 || kind == typeEdit {
		var wrong error
		if number, wrong = strconv.ParseInt(named, 10, 64); wrong != nil || number <= 0 {
			number, err = 0, errors.Join(err, errors.New("data."+field+": must be the number of a message"))
		}
	}
	return text, number, err
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

// Send sends one text or one file, or edits a text.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	var text string
	var number int64
	method, _ := methodOf(r.Type)
	isFile := method != ""
	if !isFile {
		if text, number, err = contentOf(r.Type, r.Data); err != nil {
			return poller.Sent{}, poller.Refused("data", err.Error())
		}
	}
	use := secrets.ForURL(kind, config.base)
	token, err := c.secrets.Get(ctx, config.token.Name, use)
	if err != nil {
		return poller.Sent{}, poller.Unsent(secrets.CheckError(err))
	}
	if !tokenPattern.MatchString(token) {
		return poller.Sent{}, poller.Unsent(&poller.CheckError{Kind: poller.AuthFailed, Code: "token", Message: "the secret " + config.token.Name + " is not a bot's token"})
	}
	call := caller{client: c.client, base: config.base, token: token, open: use.Open()}
	if isFile {
		return call.sendFile(ctx, r)
	}
	body := map[string]any{"chat_id": r.Peer, "text": text}
	method = methodSend
	switch {
	case r.Type == typeEdit:
		body["message_id"], method = number, methodEdit
	case number > 0:
		// The message may be gone by now, which is no reason not to send.
		body["reply_parameters"] = map[string]any{"message_id": number, "allow_sending_without_reply": true}
	}
	return call.send(ctx, method, body)
}

func (c *caller) send(ctx context.Context, method string, body map[string]any) (poller.Sent, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", "cannot be encoded")
	}
	return c.sendBody(ctx, method, fetch.Call{Body: raw}, "application/json")
}

// sendBody makes a call that has a body of some Content-Type.
func (c *caller) sendBody(ctx context.Context, method string, call fetch.Call, contentType string) (poller.Sent, error) {
	call.Method, call.URL, call.MaxBody, call.Confined = http.MethodPost, c.base+"/bot"+c.token+"/"+method, 1<<20, c.open
	call.Header = http.Header{"Content-Type": {contentType}}
	response, err := c.client.Do(ctx, call)
	switch {
	case err != nil && call.Stream != nil:
		return poller.Sent{}, fetch.StreamError(call.Stream, err)
	case err != nil:
		return poller.Sent{}, fetch.SendError(err)
	}
	var a answer
	_, err = limits.Check(response.Body)
	own := err == nil && utf8.Valid(response.Body) && json.Unmarshal(response.Body, &a) == nil && a.OK != nil && (*a.OK || a.Code != 0)
	switch {
	case own && !*a.OK && method == methodEdit && a.Code == http.StatusBadRequest && strings.Contains(a.Description, "message is not modified"):
		return poller.Sent{}, nil // the message has this text already, as after an earlier attempt
	case own && *a.OK && method == methodEdit:
		return poller.Sent{}, nil // the message's id is that of the text which was edited
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
