package weixin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	pathSend   = "sendmessage"
	pathTicket = "getconfig"
	pathTyping = "sendtyping"

	windowLasts = 24 * time.Hour // after a person's message
	windowCount = 10             // answers within it

	typeText   = "text"
	typeTyping = "typing"

	ticketLasts = 23 * time.Hour // WeChat's typing tickets live for a day
	mostTickets = 4096           // that a replica remembers

	codeRefused  = -2 // a stale context_token, or too many sends
	refusedPause = 10 * time.Second
	refusedMost  = 3 // attempts that are answered with it
	stalePause   = 5 * time.Minute
)

var _ poller.Sender = (*Checker)(nil)

// Sending is texts, files and typing notices within windows. Whether the server knows a repeated client_id is
// unknown, so an unknown end stays unknown.
func (*Checker) Sending(json.RawMessage) poller.Sending {
	files := []string{typeImage, typeVideo, typeFile}
	return poller.Sending{Types: append([]string{typeText, typeTyping}, files...), Windowed: true, Most: windowCount, Fleeting: []string{typeTyping}, Files: files}
}

// PrepareSend takes {"text": "…"}, {"on": true} for typing, and {"file": "ID"}. The peer of an answer is the person who
// wrote the message.
func (*Checker) PrepareSend(_ json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil && s.Peer == "" {
		if s.Peer = peerOf(answers.Data); s.Peer == "" {
			return errors.New("reply_to: is no message of a person in a direct chat, and only those can be answered")
		}
	}
	file := func(data json.RawMessage) error { _, err := fileRule().Read(data, s.File); return err }
	return message.Prepare(s, map[string]func(json.RawMessage) error{
		typeText:   message.JudgeText,
		typeTyping: func(data json.RawMessage) error { _, err := readTyping(data); return err },
		typeImage:  file, typeVideo: file, typeFile: file,
	})
}

var errTyping = errors.New(`data: must be {"on": true} or {"on": false}`)

// readTyping returns whether a typing notice begins.
func readTyping(data json.RawMessage) (on bool, err error) {
	fields, ok := strict.Members(data)
	if !ok || len(fields) != 1 || string(fields["on"]) != "true" && string(fields["on"]) != "false" {
		return false, errTyping
	}
	return string(fields["on"]) == "true", nil
}

// Send sends one text or one file, which is accepted if the server has given it a message_id, or one
// typing notice. A file goes to the CDN first.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	var text string
	var on bool
	switch r.Type {
	case typeTyping:
		on, err = readTyping(r.Data)
	case typeImage, typeVideo, typeFile:
		_, err = fileRule().Read(r.Data, nil)
	default:
		text, err = message.Text(r.Data)
	}
	switch {
	case err != nil:
		return poller.Sent{}, poller.Refused("data", err.Error())
	case r.Token == "":
		return poller.Sent{}, poller.Refused("no_token", "the person's last message had no context_token, without which WeChat takes no answer")
	}
	use := secrets.ForURL(Kind, config.base)
	token, err := c.secrets.Get(ctx, config.token.Name, use)
	if err != nil {
		return poller.Sent{}, poller.Unsent(secrets.CheckError(err))
	}
	call := caller{client: c.client, config: config, token: token, open: use.Open()}
	switch r.Type {
	case typeTyping:
		return poller.Sent{}, call.typing(ctx, &c.tickets, r, on)
	case typeImage, typeVideo, typeFile:
		file, err := call.upload(ctx, r)
		if err != nil {
			return poller.Sent{}, err
		}
		return call.send(ctx, r, file.item(r.Type))
	}
	return call.send(ctx, r, map[string]any{"type": 1, "text_item": map[string]any{"text": text}})
}

func (c *caller) send(ctx context.Context, r poller.SendRequest, item map[string]any) (poller.Sent, error) {
	fields, err := c.ask(ctx, r, pathSend, map[string]any{
		"msg": map[string]any{
			"from_user_id": "", "to_user_id": r.Peer, "client_id": r.ID, "message_type": typeBot, "message_state": 2,
			"item_list":     []any{item},
			"context_token": r.Token,
		},
		"base_info": c.info(),
	})
	if err != nil {
		return poller.Sent{}, err
	}
	if id := idOf(fields["message_id"]); id != "" {
		return poller.Sent{VendorID: id}, nil
	}
	// Such sends were seen to be dropped, and to arrive late.
	return poller.Sent{}, &poller.CheckError{Code: "no_message_id", Message: "the server answered without a message_id, so it may or may not have the message"}
}

// typing shows a person that somebody types, or that nobody does any more.
func (c *caller) typing(ctx context.Context, all *tickets, r poller.SendRequest, on bool) error {
	ticket := all.of(c.token, r.Peer)
	if ticket == "" {
		fields, err := c.ask(ctx, r, pathTicket, map[string]any{"ilink_user_id": r.Peer, "context_token": r.Token, "base_info": c.info()})
		if err != nil {
			return err
		}
		if ticket, _ = textOf(fields["typing_ticket"]); ticket == "" {
			return poller.Refused("no_ticket", "the server gave no typing_ticket")
		}
		all.add(c.token, r.Peer, ticket)
	}
	status := 2
	if on {
		status = 1
	}
	_, err := c.ask(ctx, r, pathTyping, map[string]any{"ilink_user_id": r.Peer, "typing_ticket": ticket, "status": status, "base_info": c.info()})
	if err != nil {
		all.drop(c.token, r.Peer)
	}
	return err
}

// tickets are the typing tickets that a replica has got. They are lost with it, and got again.
type tickets struct {
	mu  sync.Mutex
	all map[ticketKey]ticket
}

type ticketKey struct{ token, peer string }

type ticket struct {
	value string
	until time.Time
}

func (t *tickets) of(token, peer string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.all[ticketKey{token, peer}]; time.Now().Before(known.until) {
		return known.value
	}
	return ""
}

func (t *tickets) add(token, peer, value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil || len(t.all) >= mostTickets {
		t.all = make(map[ticketKey]ticket)
	}
	t.all[ticketKey{token, peer}] = ticket{value, time.Now().Add(ticketLasts)}
}

func (t *tickets) drop(token, peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, ticketKey{token, peer})
}

// ask makes a call for a send, and returns the members of an answer that refuses nothing.
func (c *caller) ask(ctx context.Context, r poller.SendRequest, path string, body map[string]any) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, poller.Refused("data", "cannot be encoded")
	}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: c.config.base + "/ilink/bot/" + path, Header: c.header(), Body: raw, MaxBody: 1 << 20, Confined: c.open,
	})
	switch {
	case err != nil:
		return nil, fetch.SendError(err)
	case response.Status == http.StatusUnauthorized:
		return nil, staleError(r, "http_401")
	case response.Status != http.StatusOK:
		return nil, fetch.SendStatusError("the server", response)
	}
	return answerOf(r, response.Body)
}

// answerOf reads the answer to a call for a send.
func answerOf(r poller.SendRequest, body []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if _, err := limits.Check(body); err != nil || json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil, protocolError("is no object that can be read")
	}
	code, _ := number(fields["errcode"])
	if code == 0 {
		code, _ = number(fields["ret"])
	}
	switch {
	case code == codeStale:
		return nil, staleError(r, "weixin_-14")
	case code == codeRefused && r.Attempt < refusedMost:
		return nil, &poller.SendError{After: refusedPause, Code: "weixin_-2", Message: "the server refuses it for now"}
	case code == codeRefused:
		return nil, poller.Refused("weixin_-2", "the server refuses it: there were too many answers, or the person must write again first")
	case code != 0:
		return nil, poller.Refused("weixin_"+strconv.FormatInt(code, 10), "the server refuses it")
	}
	return fields, nil
}

// staleError is the error for a token that the server does not take now. The account's check calls
// notifystart, or parks the account.
func staleError(r poller.SendRequest, code string) error {
	e := &poller.SendError{Code: code, Message: "the server does not take the account's token: bound elsewhere, signed out, or idle for long", Account: true}
	if r.Attempt > 1 {
		e.After = stalePause
	}
	return e
}

// answerable returns the window that a message opens: its sender may be answered for a day after
// writing. It is nil if nobody can be answered.
func answerable(fields map[string]json.RawMessage, written time.Time, now time.Time) *poller.Answerable {
	peer, ok := textOf(fields["from_user_id"])
	token, has := textOf(fields["context_token"])
	group, _ := textOf(fields["group_id"])
	kind, _ := number(fields["message_type"])
	if !ok || !has || peer == "" || token == "" || group != "" || kind == typeBot || !message.Peer(peer) {
		return nil
	}
	left := windowLasts
	if !written.IsZero() {
		left = min(left, windowLasts-now.Sub(written))
	}
	if left <= 0 {
		return nil
	}
	return &poller.Answerable{Peer: peer, For: left, Count: windowCount, Token: token}
}

// peerOf returns whom an answer to a found message is for; empty: nobody can be answered.
func peerOf(data json.RawMessage) string {
	fields, _ := strict.Members(data)
	peer, _ := textOf(fields["from_user_id"])
	group, _ := textOf(fields["group_id"])
	if kind, _ := number(fields["message_type"]); kind == typeBot || group != "" || !message.Peer(peer) {
		return ""
	}
	return peer
}
