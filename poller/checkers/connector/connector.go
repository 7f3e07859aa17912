// Package connector checks accounts through connectors: programs in any language
// that answer over HTTP. It is the kind "http".
//
// The config has
//
//	url             where to POST to; required
//	signing_secret  {"secret": "NAME"}, base64 with or without whsec_; if there,
//	                requests carry the Standard Webhooks headers
//	headers         name → text, or {"secret": "NAME"}; what looks like a
//	                credential must be the latter
//	hold            for how many seconds the connector holds a request until it has
//	                something to answer: a whole number from 1 to 120; without it,
//	                each request is answered at once
//	remember        ids or content: an account remembers its messages by their ids, or
//	                by their type, time and data, and each is written once however
//	                often the connector gives it; without it, nothing is remembered
//	send_url        where to POST sends to; without it, the account cannot send
//	send_files      true if the connector takes sends of types that are files, with their bytes
//	deduplicates    true if the connector delivers a send once, however often it
//	                comes with the same send_id
//	settings        an object for the connector alone
//
// The whole config is sent to the connector as account.config; references to secrets
// stay references. See request and page for what is sent and returned.
//
// Only an error object or 410 Gone in the connector's answer counts against an account.
// Any other failure is the connector's or its host's.
//
// Sends go to send_url, signed with the send's id. An error object in the answer says for certain
// that the connector has not taken the send. So does a status from 300 to 499. Any other end
// without an answer 2xx is unknown.
//
// A message's data may name files, in files: [{"url", "name", "type", "size", "sha256", "until"}], of
// which only url is required: an address, or a path at the connector's own host. They are fetched from where they are; only requests to the scheme, host
// and port of the config's url carry its headers and a signature.
package connector

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const maxBody = 8 << 20

// Checker checks through connectors. It is safe for concurrent use.
type Checker struct {
	*form
	kept    *form // of stored configs
	client  *fetch.Client
	secrets secrets.Source
}

var (
	_ poller.Checker = (*Checker)(nil)
	_ poller.Holder  = (*Checker)(nil)

	_ poller.Rememberer = (*Checker)(nil)
)

// New returns a checker that calls through client and finds the configs' secrets in
// secrets.
func New(client *fetch.Client, secrets secrets.Source) *Checker {
	return &Checker{form: newForm(client, false), kept: newForm(client, true), client: client, secrets: secrets}
}

// kind is the kind's name in records.
const kind = "http"

// Kind is "http".
func (*Checker) Kind() string { return kind }

// RateKey returns the host of the connector's URL.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, _ := c.kept.Read(raw)
	return fetch.Host(config.url)
}

// Hold returns the config's hold.
func (c *Checker) Hold(raw json.RawMessage) time.Duration {
	config, _ := c.kept.Read(raw)
	return config.hold
}

// Remembers returns what the config asks for.
func (c *Checker) Remembers(raw json.RawMessage) poller.Remember {
	if config, _ := c.kept.Read(raw); config.remember != "" {
		return poller.UsualRemember()
	}
	return poller.Remember{}
}

// Check asks the connector for one page. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config, err := c.kept.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	secret, err := config.resolve(ctx, c.secrets, config.url)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	body, failed := encodeRequest(ctx, r)
	if failed != nil {
		return poller.Result{}, failed
	}
	header, err := secret.header(r.CheckID, time.Now(), body)
	if err != nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "secret", Message: err.Error()}
	}
	answer, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: config.url, Header: header, Body: body, MaxBody: maxBody, Confined: secret.open, Held: r.Hold > 0, Traced: true,
	})
	if err != nil {
		return poller.Result{}, callError(err)
	}
	release, err := c.client.Reserve(ctx, memory*int64(len(answer.Body)))
	if err != nil {
		return poller.Result{}, callError(err)
	}
	defer release()
	result, err := read(answer, r.Limit, secret)
	if err == nil && config.remember == byContent {
		identify(result.Messages)
	}
	return result, err
}

// identify has messages be remembered by what they contain, because their ids change.
func identify(messages []poller.Message) {
	for i := range messages {
		m := &messages[i]
		head, err := json.Marshal([]string{m.Type, m.Time.Format(time.RFC3339Nano)})
		if err == nil {
			m.NoID, m.Content = true, string(head)+message.Content(m.Data, func(string) bool { return false })
		}
	}
}

// callError is fetch.CheckError, except that it never blames the account: only a
// connector's answer does that.
func callError(err error) *poller.CheckError {
	e := fetch.CheckError(err)
	if e.Scope == poller.ScopeAccount {
		e.Scope = poller.ScopeChecker
	}
	return e
}

// read returns the result of an answer to a request that was sent with the given secrets.
func read(answer *fetch.Response, limit int, sent resolved) (poller.Result, error) {
	hidden := sent.values
	switch {
	case answer.Status == http.StatusNoContent:
		return poller.Result{}, nil
	case answer.Status < 200 || answer.Status > 299:
		return poller.Result{}, statusError(answer, sent)
	}
	result, err := decode(answer.Body, limit)
	var reported *reportedError
	if errors.As(err, &reported) {
		return poller.Result{}, reported.checkError(answer, hidden)
	}
	if err != nil {
		return poller.Result{}, protocolError(unreadable(answer, hidden, err))
	}
	for i := range result.Warnings {
		result.Warnings[i].Message = scrub(result.Warnings[i].Message, hidden)
	}
	return result, nil
}

// protocolError returns the error for an answer that breaks the rules. Its scope is the
// connector.
func protocolError(err error) *poller.CheckError {
	return &poller.CheckError{
		Kind: poller.Protocol, Scope: poller.ScopeChecker, Code: "protocol", Message: "the connector's answer: " + err.Error(), Err: err,
	}
}
