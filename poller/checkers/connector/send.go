package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	maxSent     = 64 << 10 // bytes of an answer to a send
	maxVendorID = 256      // bytes
)

var _ poller.Sender = (*Checker)(nil)

// sendRequest is the body of a request to a connector's send_url.
type sendRequest struct {
	Version  int             `json:"version"` // 1
	SendID   string          `json:"send_id"` // the same for all attempts of one send, and for no other
	Account  account         `json:"account"`
	To       string          `json:"to"`
	Type     string          `json:"type"` // "text", or one of fileTypes
	Data     json.RawMessage `json:"data"`
	Deadline *time.Time      `json:"deadline"` // after which nobody waits for the answer; null: unknown
	Attempt  int             `json:"attempt"`  // 1 at first
	File     *sentFile       `json:"file,omitempty"`
}

// Sending is text, if the config has a send_url, and files, if it says so.
func (c *Checker) Sending(raw json.RawMessage) poller.Sending {
	config, err := c.kept.Read(raw)
	if err != nil || config.send == "" {
		return poller.Sending{}
	}
	sending := poller.Sending{Types: []string{"text"}}
	if config.files {
		sending.Types, sending.Files = append(sending.Types, fileTypes()...), fileTypes()
	}
	if config.once {
		sending.Doubt = poller.DoubtRepeats
	}
	return sending
}

// PrepareSend takes {"text": "…"}, and {"file": "ID", "caption": "…"}. An answer to a message whose data has a text "from" is for that.
func (c *Checker) PrepareSend(raw json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	config, err := c.kept.Read(raw)
	if err != nil || config.send == "" {
		return poller.ErrCannotSend
	}
	if answers != nil && s.Peer == "" {
		fields, _ := strict.Members(answers.Data)
		if len(fields["from"]) > 0 {
			s.Peer, _ = strict.Text(fields["from"])
		}
		if s.Peer == "" {
			return errors.New("to: must be given, because the message's data has no text named from")
		}
	}
	types := map[string]func(json.RawMessage) error{"text": message.JudgeText}
	if config.files {
		for _, name := range fileTypes() {
			types[name] = func(data json.RawMessage) error { return judgeFile(data, s.File) }
		}
	}
	return message.Prepare(s, types)
}

// Send makes one request to the connector.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.kept.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	if config.send == "" {
		return poller.Sent{}, poller.Refused("send_url", "the account's config has no send_url")
	}
	secret, err := config.resolve(ctx, c.secrets, config.send)
	if err != nil {
		return poller.Sent{}, poller.Unsent(secrets.CheckError(err))
	}
	call := fetch.Call{Method: http.MethodPost, URL: config.send, MaxBody: maxSent, Confined: secret.open, Traced: true}
	if isFile(r.Type) {
		err = setFile(ctx, &call, r, secret)
	} else {
		err = setText(ctx, &call, r, secret)
	}
	if err != nil {
		return poller.Sent{}, err
	}
	answer, err := c.client.Do(ctx, call)
	switch {
	case err != nil && call.Stream != nil:
		return poller.Sent{}, fetch.StreamError(call.Stream, err)
	case err != nil:
		return poller.Sent{}, fetch.SendError(err)
	}
	return sentOf(answer, secret.values)
}

// setText gives a call the body of a text, and signs it.
func setText(ctx context.Context, call *fetch.Call, r poller.SendRequest, secret resolved) (err error) {
	if _, err := message.Text(r.Data); err != nil {
		return poller.Refused("data", err.Error())
	}
	if call.Body, err = encodeSend(ctx, r); err != nil {
		return poller.Refused("data", "the send cannot be encoded")
	}
	if call.Header, err = secret.header(r.ID, time.Now(), call.Body); err != nil {
		return poller.Unsent(&poller.CheckError{Code: "secret", Message: err.Error()})
	}
	return nil
}

// setFile gives a call the body of a file, which is read once for its signature and once when it is
// sent.
func setFile(ctx context.Context, call *fetch.Call, r poller.SendRequest, secret resolved) error {
	if err := judgeFile(r.Data, nil); err != nil {
		return poller.Refused("data", err.Error())
	}
	if err := fileRule().Fits(r.File); err != nil {
		return err
	}
	raw, err := encodeSend(ctx, r)
	if err == nil {
		call.Stream, err = fileBody(raw, r.File)
	}
	if err != nil {
		return poller.Refused("data", "the send cannot be encoded")
	}
	if call.Header, err = secret.streamHeader(ctx, r.ID, time.Now(), call.Stream); err != nil {
		return poller.Unsent(err)
	}
	return nil
}

// encodeSend returns the body of a request to a send_url.
func encodeSend(ctx context.Context, r poller.SendRequest) ([]byte, error) {
	q := sendRequest{
		Version: 1, SendID: r.ID, Account: account{ID: r.Account, Config: r.Config}, To: r.Peer, Type: r.Type, Data: orNull(r.Data), Attempt: r.Attempt,
	}
	if deadline, ok := ctx.Deadline(); ok {
		deadline = deadline.UTC()
		q.Deadline = &deadline
	}
	if f := r.File; f != nil {
		q.File = &sentFile{Name: message.FileName(&f.File), Type: f.Type, Size: f.Size, SHA256: f.SHA256}
	}
	return json.Marshal(q)
}

// sentOf reads the answer to a send.
func sentOf(answer *fetch.Response, hidden []string) (poller.Sent, error) {
	fields, err := decodeSent(answer.Body)
	if err == nil && len(fields["error"]) > 0 && !strict.IsNull(fields["error"]) {
		if refused := refusal(answer, fields, hidden); refused != nil {
			return poller.Sent{}, refused
		}
		err = errors.New("error: is no object with a kind of sends")
	}
	switch {
	case answer.Status < 200 || answer.Status > 299:
		return poller.Sent{}, sendStatusError(answer)
	case len(answer.Body) == 0:
		return poller.Sent{}, nil
	case err != nil: // it may have taken the send
		return poller.Sent{}, protocolError(err)
	}
	id, err := fields.text("id")
	if err != nil {
		return poller.Sent{}, protocolError(err)
	}
	if len(id) > maxVendorID || strings.ContainsFunc(id, unicode.IsControl) || scrub(id, hidden) != id {
		id = ""
	}
	return poller.Sent{VendorID: id}, nil
}

// decodeSent reads the object of an answer to a send.
func decodeSent(body []byte) (fields object, err error) {
	if _, err := limits.Check(body); err != nil {
		return nil, err
	}
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil, errors.New("is not a JSON object")
	}
	return fields, nil
}

// refusal returns the error for an error object: the connector has not taken the send. It is nil if
// the object has no kind that sends have.
func refusal(answer *fetch.Response, fields object, hidden []string) *poller.SendError {
	var said struct {
		Kind    string `json:"kind"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(fields["error"], &said) != nil {
		return nil
	}
	e := &poller.SendError{Code: said.Kind, Message: "the connector reports an error"}
	switch said.Kind {
	case "rejected", "config":
		e.Final = true
	case "gone":
		e.Final, e.Account = true, true
	case "auth":
		e.Account = true
	case "rate_limited", "transient":
	default:
		return nil
	}
	if code := cleanCode(scrub(said.Code, hidden)); code != "" {
		e.Code = code
	}
	if text := scrub(said.Message, hidden); text != "" {
		e.Message = text
	}
	if wait, named, err := fields.seconds("retry_after"); err == nil && named {
		e.After = fetch.ClampRetryAfter(wait)
	} else {
		e.After = answer.RetryAfter()
	}
	return e
}

// sendStatusError returns the error for an unsuccessful answer without an error object. Where
// a wrong signature or a bad deploy may be the cause, the send is tried again.
func sendStatusError(answer *fetch.Response) error {
	err := fetch.SendStatusError("the connector", answer)
	var refused *poller.SendError
	if !errors.As(err, &refused) {
		return err
	}
	switch {
	case answer.Status < 400:
		refused.Final, refused.Message = false, fmt.Sprintf("redirects are not followed: set the account's send_url to the address that answers (the connector answered %d)", answer.Status)
	case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden, answer.Status == http.StatusNotFound, answer.Status == http.StatusMethodNotAllowed:
		refused.Final = false
	}
	return refused
}
