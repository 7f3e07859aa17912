package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/poller/span"
)

// Sending is what an account can send, as its kind says.
type Sending struct {
	Types    []string // the types of its sends; empty: it cannot send
	Windowed bool     // its peers may be answered only within windows
	Most     int      // how many answers a window allows; 0: any number
	Fleeting []string // those of Types that take nothing from a window's count
	Files    []string // those of Types that are a file, whose data names it

	// Prepare judges a send and completes it. If the send answers a found message, Prepare
	// fills in what the kind takes from that message, such as the peer. Its error has every
	// fault, each with its field.
	Prepare func(o *Outgoing, answers *circulate.Message) error
}

// Outgoing is a send before it is queued.
type Outgoing struct {
	Peer, Type string
	Data       json.RawMessage
	File       *CarriedFile // that the data names; nil: none
}

// SendRequest is what to send to whom.
type SendRequest struct {
	_       struct{}        `additionalProperties:"false"`
	To      string          `json:"to,omitempty" strict:"to" maxLength:"512" doc:"Whom it is for, in the kind's own form, such as a user or a chat. It may be left out if reply_to names a message."`
	Type    string          `json:"type,omitempty" strict:"type" default:"text" doc:"What it is. Each kind has its own types; every kind that sends has text."`
	Data    json.RawMessage `json:"data,omitempty" strict:"data" doc:"Its content, at most 16 KiB. A text is {\"text\": \"…\"}, an image or another file {\"file\": \"ID\"}, with the id of an uploaded or a kept file."`
	ReplyTo string          `json:"reply_to,omitempty" strict:"reply_to" maxLength:"64" example:"12:1767225600000-0" doc:"The message that it answers: SHARD:POSITION, as the fields shard and position of the message have it, or the handle that a consumer group got. The kind takes from it what it needs, such as whom to answer."`
	Expires string          `json:"expires,omitempty" strict:"expires" format:"date-time" doc:"It is never sent after this time; left out: however long it waits."`
	When    string          `json:"when,omitempty" strict:"when" enum:"now,open" default:"now" doc:"What happens if the third party does not allow an answer now. now: 409. open: it waits for the person's next message."`
}

// SendRetryRequest says how a send is tried again.
type SendRetryRequest struct {
	_        struct{} `additionalProperties:"false"`
	Expires  string   `json:"expires,omitempty" strict:"expires" format:"date-time" doc:"It is never sent after this time; left out: its own expiry stays."`
	Attempts int      `json:"attempts,omitempty" strict:"attempts,given" minimum:"1" doc:"Do it only if the send has had exactly so many attempts, as the caller saw it. Otherwise 409."`
}

// SendResolveRequest says what became of a send.
type SendResolveRequest struct {
	_        struct{} `additionalProperties:"false"`
	State    string   `json:"state" strict:"state" enum:"accepted,rejected" doc:"accepted: it has arrived; rejected: it has not, and is not to be sent."`
	VendorID string   `json:"vendor_id,omitempty" strict:"vendor_id" maxLength:"256" doc:"The third party's id of it, if it was accepted."`
	Reason   string   `json:"reason,omitempty" strict:"reason" maxLength:"512" doc:"How somebody knows, for people."`
	Attempts int      `json:"attempts,omitempty" strict:"attempts,given" minimum:"1" doc:"Do it only if the send has had exactly so many attempts, as the caller saw it. Otherwise 409."`
}

// Send is one answer in the name of an account, and what became of it.
type Send struct {
	ID      string          `json:"id"`
	Account string          `json:"account"`
	Kind    string          `json:"kind,omitempty"`
	To      string          `json:"to,omitempty" doc:"Whom it is for."`
	Type    string          `json:"type,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	ReplyTo string          `json:"reply_to,omitempty" doc:"The message that it answers."`
	When    string          `json:"when,omitempty" enum:"now,open" doc:"open: it waits until the third party allows an answer."`
	Expires time.Time       `json:"expires,omitzero" doc:"It is never sent after this time; left out: however long it waits."`

	State    string    `json:"state" enum:"queued,attempting,accepted,rejected,unknown,failed,canceled,expired,forgotten" doc:"queued: it waits for its turn. attempting: it may be on its way. accepted: the third party has it. rejected: the third party refused it, or it could not be sent. unknown: nobody knows whether the third party has it, and it is not repeated unless somebody says so. failed: the third party accepted it and could not deliver it. canceled and expired: it was not sent. forgotten: it has ended, and its outcome is no longer stored."`
	Queued   time.Time `json:"queued,omitzero" doc:"When it was taken over, by Redis' clock."`
	Since    time.Time `json:"since,omitzero" doc:"Since when it is in this state."`
	Attempts int       `json:"attempts" doc:"How often it was tried, the attempt under way included."`
	Code     string    `json:"code,omitempty" doc:"The third party's code, or a short one of ours, for the outcome or the last refusal."`
	Reason   string    `json:"reason,omitempty" doc:"The same in words."`
	VendorID string    `json:"vendor_id,omitempty" doc:"The third party's id of it."`
	Replica  string    `json:"replica,omitempty" doc:"The replica that made the last attempt."`
	File     *File     `json:"file,omitempty" doc:"The file that it sends, when sends are read and the server keeps files."`
}

// SendList is a page of sends.
type SendList struct {
	Sends []Send `json:"sends" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page with a filter may be short, even empty, and not be the last."`
}

// SendRef is the send in a path. It is exported because huma ignores unexported embedded fields.
type SendRef struct {
	ID string `path:"id" maxLength:"64" doc:"The id of the send."`
}

type sendInput struct {
	SendRef
	RawBody []byte `contentType:"application/json"`
}

type createSendRequest struct {
	AccountID
	Key     string `header:"Idempotency-Key" required:"true" minLength:"1" maxLength:"255" doc:"A name of the caller's for this send, different for each send of the account. A request with the same key and body within 48 hours returns the same send, so that repeating it after a lost reply is safe."`
	Trace   string `header:"Traceparent" maxLength:"256" doc:"W3C Trace Context: if the service records traces, and this one is recorded, attempts of the send and events about it belong to it."`
	RawBody []byte `contentType:"application/json"`
}

// queuedReply is the reply for a send that was taken over.
type queuedReply struct {
	Location string `header:"Location" doc:"The address of the send."`
	Body     Send
}

type sendsRequest struct {
	Limit   int      `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"The most sends on the page."`
	Cursor  string   `query:"cursor" doc:"The previous page's next, with the same other parameters."`
	Account string   `query:"account" doc:"Only sends of this account."`
	State   []string `query:"state,explode" enum:"queued,attempting,accepted,rejected,unknown,failed,canceled,expired" doc:"Only sends in this state, or in one of several."`
}

// sendRoutes adds the routes of sends.
func (s *Server) sendRoutes(api huma.API) {
	register(s, api, "queue send", takesBody(huma.Operation{
		OperationID: "create-send", Method: http.MethodPost, Path: "/v1/accounts/{id}/sends", Tags: []string{"sends"},
		Summary: "Send something in the name of an account",
		Description: "It is queued, and a poller sends it soon. Sends to one peer go out in the order in which they were queued, one at a time. " +
			"409 if the key was used for another send, or if the third party does not allow an answer now; 422 if the account's kind cannot send it; 429 if too many sends wait.",
		DefaultStatus: http.StatusAccepted, Errors: []int{400, 401, 404, 409, 413, 422, 429, 503, 507},
	}), s.createSend)
	answer(s, api, "list sends", huma.Operation{
		OperationID: "list-sends", Method: http.MethodGet, Path: "/v1/sends", Tags: []string{"sends"},
		Summary: "List sends",
		Description: "Unknown ones first, then those that are being sent, that wait, and that have ended. In each of these, the sends of all accounts are oldest first, by when they were queued, or when they ended. " +
			"The last 256 sends of an account that have ended are stored, for a week.",
		Errors: []int{401, 404, 422, 503},
	}, s.listSends)
	answer(s, api, "get send", huma.Operation{
		OperationID: "get-send", Method: http.MethodGet, Path: "/v1/sends/{id}", Tags: []string{"sends"},
		Summary: "Get a send, and what became of it", Errors: []int{401, 404, 503},
	}, s.getSend)
	answer(s, api, "cancel send", huma.Operation{
		OperationID: "cancel-send", Method: http.MethodPost, Path: "/v1/sends/{id}/cancel", Tags: []string{"sends"},
		Summary: "Cancel a send that waits", Description: "409 if it is being sent, or has ended. A canceled one stays as it is.",
		Errors: []int{401, 404, 409, 503},
	}, s.cancelSend)
	answer(s, api, "retry send", takesBody(huma.Operation{
		OperationID: "retry-send", Method: http.MethodPost, Path: "/v1/sends/{id}/retry", Tags: []string{"sends"},
		Summary: "Send a rejected or unknown send again",
		Description: "As the last one to its peer. An unknown one may have arrived: it is then sent twice, unless the third party drops repetitions. " +
			"409 if it is in another state, or has expired and no other time is given. The body may be left out.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.retrySend)
	answer(s, api, "resolve send", takesBody(huma.Operation{
		OperationID: "resolve-send", Method: http.MethodPost, Path: "/v1/sends/{id}/resolve", Tags: []string{"sends"},
		Summary: "Say what became of an unknown send", Description: "409 if it is in another state.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.resolveSend)
}

var (
	sendDecoder    = strict.NewDecoder[SendRequest]("a send")
	retryDecoder   = strict.NewDecoder[SendRetryRequest]("a retry")
	resolveDecoder = strict.NewDecoder[SendResolveRequest]("a resolution")
)

// expiry reads when a send expires.
func expiry(faults *accounts.Faults, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		faults.Add("expires", "must be a time such as 2030-12-01T09:00:00Z")
	}
	return at
}

// readSend reads the body of a request to send, apart from what only the account's kind can judge.
func readSend(text []byte) (SendRequest, time.Time, accounts.Faults) {
	body, faults := sendDecoder.Decode(text)
	if len(faults) > 0 && faults[0].Field == accounts.RecordField {
		return body, time.Time{}, faults
	}
	body.Type = cmp.Or(body.Type, "text")
	if body.When = cmp.Or(body.When, "now"); body.When != "now" && body.When != "open" {
		faults.Add("when", "must be now or open")
	}
	if len(body.Data) > circulate.MaxSendData {
		faults.Add("data", fmt.Sprintf("must be at most %d bytes, has %d", circulate.MaxSendData, len(body.Data)))
	}
	return body, expiry(&faults, body.Expires), faults
}

// digest identifies what a caller asks for, however its JSON is spaced.
func (r *SendRequest) digest() string {
	var data bytes.Buffer
	_ = json.Compact(&data, r.Data) // it was read from JSON, or is empty
	text, _ := json.Marshal([]string{r.To, r.Type, data.String(), r.ReplyTo, r.Expires, r.When})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (s *Server) createSend(ctx context.Context, r *createSendRequest) (_ *queuedReply, err error) {
	view, err := s.registry(ctx).Get(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	body, expires, faults := readSend(r.RawBody)
	if len(faults) > 0 {
		return nil, faults
	}
	sends := s.options.Ring.Sends()
	known, repeated, err := sends.Repeated(ctx, view.ID, r.Key, body.digest())
	if err != nil {
		return nil, sendReply(err)
	}
	if repeated {
		trail.Of(ctx).LookOnly()
		return queuedAs(view.ID, &known), nil
	}
	send := circulate.Send{
		ID: circulate.NewSendID(view.ID), Account: view.ID, Kind: view.Kind, Expires: expires, Waits: body.When == "open", ReplyTo: body.ReplyTo, Request: body.digest(),
	}
	recorded := s.recordSend(&send, r.Trace)
	defer func() { endSend(recorded, err) }()
	named, err := s.prepareSend(ctx, &view, &body, &send)
	if err != nil {
		return nil, err
	}
	if named != nil {
		if err := s.holdFile(ctx, &send, named); err != nil {
			return nil, err
		}
	}
	queued, isNew, err := sends.Queue(ctx, send, r.Key, s.options.SendBounds)
	if named != nil && (err == nil && !isNew || refusedSend(err)) {
		s.letFileGo(ctx, &send)
	}
	if err != nil {
		return nil, s.queueReply(ctx, view.ID, err)
	}
	if draft := trail.Of(ctx); isNew {
		draft.Subject("send", queued.ID)
	} else {
		draft.LookOnly()
	}
	return queuedAs(view.ID, &queued), nil
}

// recordSend begins the span of a send that is taken over, and names it in the send. It returns nil if
// the trace is not recorded.
func (s *Server) recordSend(send *circulate.Send, parent string) span.Span {
	if s.options.Spans == nil {
		return nil
	}
	recorded := s.options.Spans.Begin(span.Producer, "queue "+span.Outbox, time.Now(), parent)
	if recorded == nil {
		return nil
	}
	recorded.Set(span.MessagingSystem, span.System)
	recorded.Set(span.MessagingOperation, "queue")
	recorded.Set(span.MessagingType, span.Send)
	recorded.Set(span.MessagingDestination, span.Outbox)
	recorded.Set(span.MessagingMessage, send.ID)
	recorded.Set(span.AccountID, send.Account)
	recorded.Set(span.AccountKind, send.Kind)
	send.Trace = recorded.Traceparent()
	return recorded
}

// endSend ends the span of a send, which may be nil.
func endSend(recorded span.Span, err error) {
	if recorded == nil {
		return
	}
	if err != nil {
		recorded.Fail("refused")
	}
	recorded.End(time.Now())
}

// refusedSend reports whether an error of Queue says that the send is not queued, for certain.
func refusedSend(err error) bool {
	var busy *circulate.SendsBusyError
	var window *circulate.WindowError
	return errors.As(err, &busy) || errors.As(err, &window) || err != nil && !circulate.Unknown(err)
}

func queuedAs(account string, send *circulate.Send) *queuedReply {
	send.Account = account // an old one is known by its id alone
	return &queuedReply{Location: "/v1/sends/" + send.ID, Body: sendOf(send)}
}

// prepareSend has the account's kind judge and complete a send. It returns the file that the send
// names, or nil.
func (s *Server) prepareSend(ctx context.Context, view *accounts.View, body *SendRequest, send *circulate.Send) (*circulate.File, error) {
	var sending Sending
	if s.options.Sending != nil {
		sending = s.options.Sending(view.Kind, view.Config)
	}
	if len(sending.Types) == 0 {
		return nil, newErrorReply(http.StatusUnprocessableEntity, fmt.Sprintf("the account cannot send: its kind is %s", view.Kind))
	}
	var faults accounts.Faults
	if !slices.Contains(sending.Types, body.Type) {
		faults.Add("type", fmt.Sprintf("must be one of %s", strings.Join(sending.Types, ", ")))
	}
	var answers *circulate.Message
	if body.ReplyTo != "" {
		found, err := s.messages.Answered(ctx, "reply_to", view.ID, body.ReplyTo)
		var wrong accounts.Faults
		switch {
		case errors.Is(err, message.ErrNoMessage):
			faults.Add("reply_to", "must be a message of the account that is still stored")
		case errors.As(err, &wrong):
			faults = append(faults, wrong...)
		case err != nil:
			return nil, err
		default:
			answers = &found.Message
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	o := Outgoing{Peer: body.To, Type: body.Type, Data: body.Data}
	var named *circulate.File
	if slices.Contains(sending.Files, body.Type) {
		var err error
		if named, err = s.namedFile(ctx, view.ID, body.Data); err != nil {
			return nil, err
		}
		if named != nil {
			o.File = &CarriedFile{Name: named.Name, Type: named.Type, Size: named.Size}
		}
	}
	if err := sending.Prepare(&o, answers); err != nil {
		return nil, accounts.SendFaults(err)
	}
	switch {
	case o.Peer == "":
		faults.Add("to", "missing: say whom it is for, or which message it answers")
	case len(o.Peer) > circulate.MaxPeer || strings.ContainsFunc(o.Peer, func(r rune) bool { return r < ' ' }):
		faults.Add("to", fmt.Sprintf("must be at most %d bytes without control characters", circulate.MaxPeer))
	}
	if len(o.Data) > circulate.MaxSendData {
		faults.Add("data", fmt.Sprintf("must be at most %d bytes, has %d", circulate.MaxSendData, len(o.Data)))
	}
	send.Peer, send.Type, send.Data = o.Peer, o.Type, o.Data
	send.Windowed, send.Free = sending.Windowed, slices.Contains(sending.Fleeting, o.Type)
	return named, faults.Err()
}

// sendReply returns the reply to an error of the outbox, or the error as it is.
func sendReply(err error) error {
	switch {
	case errors.Is(err, circulate.ErrNoSend):
		return newErrorReply(http.StatusNotFound, "there is no such send; it may have ended long ago")
	case errors.Is(err, circulate.ErrSendConflict):
		return newErrorReply(http.StatusConflict, "another send of the account has this key",
			&huma.ErrorDetail{Location: "header.Idempotency-Key", Message: "must be another one for another send"})
	case errors.Is(err, circulate.ErrSendExpired):
		return accounts.Faults{{Field: "expires", Reason: "must not be past"}}
	}
	return err
}

// queueReply is sendReply for a send that was not queued.
func (s *Server) queueReply(ctx context.Context, account string, err error) error {
	var busy *circulate.SendsBusyError
	var window *circulate.WindowError
	switch {
	case errors.As(err, &busy):
		detail := "too many sends of the account wait: try again later"
		if busy.All {
			detail = "too many sends wait: try again later"
		}
		reply := newErrorReply(http.StatusTooManyRequests, detail)
		reply.headers = http.Header{"Retry-After": {strconv.Itoa(int(max(time.Second, busy.After).Seconds()))}}
		return reply
	case errors.As(err, &window):
		return s.windowReply(ctx, account, window)
	case errors.Is(err, circulate.ErrNotRegistered):
		return accounts.ErrNotFound
	}
	return sendReply(err)
}

// windowReply says why a peer may not be answered now, and what to do.
func (s *Server) windowReply(ctx context.Context, account string, w *circulate.WindowError) error {
	detail := "the third party allows answers only after a message of the person, and none is known: send it with when = open, and it goes out after the next one"
	if !w.Until.IsZero() {
		now, err := s.options.Ring.Account(account).Now(ctx)
		if err != nil {
			return err
		}
		until := inUTC(w.Until).Format(time.RFC3339)
		detail = fmt.Sprintf("the person could be answered until %s: send it with when = open, and it goes out after their next message", until)
		if w.Until.After(now) {
			detail = fmt.Sprintf("the person was answered as often as the third party allows until %s: send it with when = open, and it goes out after their next message", until)
		}
	}
	return newErrorReply(http.StatusConflict, detail, &huma.ErrorDetail{Location: "body.when", Message: "must be open for a send that waits"})
}

func (s *Server) listSends(ctx context.Context, r *sendsRequest) (SendList, error) {
	q := accounts.SendQuery{Limit: r.Limit, Account: r.Account}
	for _, word := range r.State {
		state, _ := circulate.ParseSendState(word) // the parameter allows no other word
		q.States = append(q.States, state)
	}
	cursor, err := s.reveal(ctx, r.Cursor)
	var page accounts.SendPage
	if err == nil {
		q.Cursor = cursor
		page, err = s.registry(ctx).Sends(ctx, q)
	}
	if err == nil {
		page.Next, err = s.conceal(ctx, page.Next)
	}
	list := SendList{Sends: each(page.Sends, sendOf), Next: page.Next}
	if err == nil {
		err = s.tellSendFiles(ctx, each(list.Sends, func(send *Send) *Send { return send })...)
	}
	return list, err
}

func (s *Server) getSend(ctx context.Context, r *SendRef) (Send, error) {
	send, err := s.registry(ctx).Send(ctx, r.ID)
	out := sendOf(&send)
	if err == nil {
		err = s.tellSendFiles(ctx, &out)
	}
	return out, sendReply(err)
}

func (s *Server) cancelSend(ctx context.Context, r *SendRef) (Send, error) {
	send, err := s.registry(ctx).CancelSend(ctx, r.ID)
	return changedSend(ctx, &send, err, newErrorReply(http.StatusConflict, fmt.Sprintf("the send is %s, and only a queued one can be canceled", send.State)))
}

// changedSend returns the reply for a send that somebody changed, or unfit if its state did not
// allow that.
func changedSend(ctx context.Context, send *circulate.Send, err error, unfit *errorReply) (Send, error) {
	if send.ID != "" {
		trail.Of(ctx).Account(send.Account)
		trail.Of(ctx).Subject("send", send.ID)
	}
	if errors.Is(err, circulate.ErrSendState) {
		return Send{}, unfit
	}
	return sendOf(send), sendReply(err)
}

func (s *Server) retrySend(ctx context.Context, r *sendInput) (Send, error) {
	body, faults := retryDecoder.Decode(strict.OrEmpty(r.RawBody))
	expires := expiry(&faults, body.Expires)
	send, err := s.seenSend(ctx, r.ID, body.Attempts, faults)
	if err != nil {
		return Send{}, err
	}
	now, err := s.options.Ring.Account(send.Account).Now(ctx)
	if err != nil {
		return Send{}, err
	}
	if expires.IsZero() {
		expires = send.Expires
	}
	if !expires.IsZero() && !expires.After(now) {
		return Send{}, newErrorReply(http.StatusConflict, "the send has expired: say in expires until when it may be sent", &huma.ErrorDetail{Location: "body.expires", Message: "must not be past"})
	}
	send, err = s.registry(ctx).ResolveSend(ctx, send, circulate.Resolution{To: circulate.SendQueued, Expires: expires})
	return changedSend(ctx, &send, err, newErrorReply(http.StatusConflict, fmt.Sprintf("the send is %s, and only a rejected or unknown one can be sent again", send.State)))
}

func (s *Server) resolveSend(ctx context.Context, r *sendInput) (Send, error) {
	body, faults := resolveDecoder.Decode(r.RawBody)
	to, _ := circulate.ParseSendState(body.State)
	if to != circulate.SendAccepted && to != circulate.SendRejected && (len(faults) == 0 || faults[0].Field != accounts.RecordField) {
		faults.Add("state", "must be accepted or rejected")
	}
	send, err := s.seenSend(ctx, r.ID, body.Attempts, faults)
	if err != nil {
		return Send{}, err
	}
	send, err = s.registry(ctx).ResolveSend(ctx, send, circulate.Resolution{To: to, Code: "resolved", Text: body.Reason, VendorID: body.VendorID})
	if err == nil {
		trail.Of(ctx).Count(send.State.String(), 1)
	}
	return changedSend(ctx, &send, err, newErrorReply(http.StatusConflict, fmt.Sprintf("the send is %s, and only an unknown one can be resolved", send.State)))
}

// seenSend returns the send that an order is about, as the caller saw it. Faults are those of the
// order.
func (s *Server) seenSend(ctx context.Context, id string, attempts int, faults accounts.Faults) (circulate.Send, error) {
	if len(faults) > 0 {
		return circulate.Send{}, faults
	}
	send, err := s.registry(ctx).Send(ctx, id)
	if err != nil {
		return circulate.Send{}, sendReply(err)
	}
	draft := trail.Of(ctx)
	draft.Account(send.Account)
	draft.Subject("send", send.ID)
	if attempts != 0 && attempts != send.Attempts {
		return circulate.Send{}, newErrorReply(http.StatusConflict, fmt.Sprintf("the send has had %d attempts by now: look at it again", send.Attempts),
			&huma.ErrorDetail{Location: "body.attempts", Message: "must be the number of attempts that the send has had"})
	}
	return send, nil
}

func sendOf(send *circulate.Send) Send {
	when := "now"
	if send.Waits {
		when = "open"
	}
	out := Send{
		ID: send.ID, Account: send.Account, Kind: send.Kind, To: send.Peer, Type: send.Type, ReplyTo: send.ReplyTo, When: when, Expires: inUTC(send.Expires),
		State: send.State.String(), Queued: inUTC(send.Queued), Since: inUTC(send.Since), Attempts: send.Attempts,
		Code: send.Code, Reason: send.Text, VendorID: send.VendorID, Replica: send.Replica, Data: shown(send.Data),
	}
	if send.State == 0 {
		out.State, out.When = "forgotten", ""
	}
	return out
}
