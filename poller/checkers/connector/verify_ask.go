package connector

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// question is one request, described by how it differs from an ordinary one.
type question struct {
	name    string // for people
	account string // instead of the trial's
	cursor  json.RawMessage
	limit   int
	id      string              // of the check; empty: a new one
	extra   bool                // with fields that no connector knows
	tamper  bool                // with one more byte than was signed
	body    []byte              // instead of the request
	keys    []*fetch.SigningKey // to sign with, instead of the config's
	signed  time.Duration       // the timestamp's distance from now
	header  func(http.Header)   // changes the header
	hold    time.Duration       // for how long the answer may be held
}

// reply is the outcome of a question.
type reply struct {
	status int
	result poller.Result
	err    error // a *poller.CheckError, or the answer's error
	none   bool  // no answer came by which a rule could be judged
	code   fetch.Code
	took   time.Duration
}

// ids returns the ids of the reply's messages.
func (r reply) ids() []string {
	ids := make([]string, 0, len(r.result.Messages))
	for _, m := range r.result.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// ok reports whether the reply is a page or says that nothing is new.
func (r reply) ok() bool { return r.err == nil && r.status >= 200 && r.status < 300 }

// blames reports whether the reply counts against the account.
func (r reply) blames() bool {
	var failed *poller.CheckError
	return !r.none && errors.As(r.err, &failed) && failed.Scope == poller.ScopeAccount
}

// String describes the reply in a few words.
func (r reply) String() string {
	var failed *poller.CheckError
	switch {
	case r.ok() && r.status == http.StatusNoContent:
		return "204"
	case r.ok():
		return fmt.Sprintf("%d with %s", r.status, count(len(r.result.Messages), "message"))
	case errors.As(r.err, &failed) && r.none:
		return "no answer: " + failed.Message
	case errors.As(r.err, &failed) && failed.Scope == poller.ScopeAccount:
		return fmt.Sprintf("%d with error.kind %s: %s", r.status, failed.Kind, failed.Message)
	case errors.As(r.err, &failed) && failed.Code == "protocol":
		return fmt.Sprintf("%d, but %s", r.status, failed.Message)
	}
	return fmt.Sprintf("%d", r.status)
}

// brief is String without the text of the connector's error.
func (r reply) brief() string {
	var failed *poller.CheckError
	switch {
	case r.none || r.ok():
		return r.String()
	case r.blames() && errors.As(r.err, &failed) && r.status != http.StatusGone:
		return fmt.Sprintf("%d with error.kind %s", r.status, failed.Kind)
	}
	return fmt.Sprintf("%d", r.status)
}

// ask sends a question, and repeats it once if no answer comes.
func (v *verification) ask(ctx context.Context, q question) reply {
	if v.late >= trialLate {
		return reply{none: true, code: fetch.CodeTimeout, err: &poller.CheckError{Message: "not asked, because earlier answers took too long"}}
	}
	r := v.try(ctx, q)
	if !r.none || r.code == fetch.CodeTimeout || r.code == fetch.CodeTooLarge || v.asked == 1 || ctx.Err() != nil {
		return r
	}
	if r = v.try(ctx, q); r.none && v.unanswered == "" {
		v.unanswered = cmp.Or(q.name, "an ordinary request") + ": " + r.String()
	}
	return r
}

// try sends a question and waits until the deadline that the request names.
func (v *verification) try(ctx context.Context, q question) reply {
	deadline := v.trial.Deadline
	if q.hold > 0 {
		deadline = q.hold + trialMargin
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	v.asked++
	header, body, err := v.request(ctx, q)
	if err != nil {
		return reply{err: err, none: true}
	}
	began := time.Now()
	answer, err := v.client.Do(ctx, fetch.Call{Method: http.MethodPost, URL: v.url, Header: header, Body: body, MaxBody: maxBody, Held: q.hold > 0})
	took := time.Since(began)
	if q.hold == 0 {
		v.slowest = max(v.slowest, took)
	}
	if err != nil {
		r := reply{err: callError(err), none: true, took: took}
		var failed *fetch.Error
		if errors.As(err, &failed) {
			r.code = failed.Code
		}
		switch {
		case r.code == fetch.CodeTimeout && q.hold == 0:
			v.late++
		case r.code == fetch.CodeTooLarge:
			v.oversize = cmp.Or(v.oversize, fmt.Sprintf("an answer of more than %d bytes", maxBody))
		}
		return r
	}
	r := v.look(answer)
	r.took = took
	return r
}

// look reads an answer, and notes what it shows about other rules. The limit has a rule
// of its own and is not judged here.
func (v *verification) look(answer *fetch.Response) reply {
	v.largest = max(v.largest, len(answer.Body))
	v.leak = v.leak || leaks(answer.Body, v.secret.values)
	result, err := read(answer, 0, v.secret)
	v.noteFiles(result.Messages)
	r := reply{status: answer.Status, result: result, err: err}
	if v.misspelt == "" && (answer.Status >= 200 && answer.Status < 300 || hasKind(answer.Body)) {
		v.misspelt = scrub(misspelt(answer.Body), v.secret.values)
	}
	var failed *poller.CheckError
	if errors.As(err, &failed) && failed.Kind == poller.Protocol {
		if overCap(failed.Err) {
			v.oversize = cmp.Or(v.oversize, failed.Message)
		} else {
			v.misshapen = cmp.Or(v.misshapen, failed.Message)
		}
		r.none = answer.Status < 300 // the answer is not a page, so no other rule can be judged by it
	}
	return r
}

// request returns the header and the body for a question.
func (v *verification) request(ctx context.Context, q question) (http.Header, []byte, error) {
	id := cmp.Or(q.id, fmt.Sprintf("verify-%s-%d", rand.Text(), v.asked))
	body, failed := encodeRequest(ctx, poller.Request{
		Account: cmp.Or(q.account, v.trial.Account), CheckID: id, Config: orEmptyObject(v.trial.Config),
		Cursor: q.cursor, Limit: cmp.Or(q.limit, trialLimit), Attempt: 1, Hold: q.hold,
	})
	if failed != nil {
		return nil, nil, failed
	}
	if q.extra {
		body = withExtra(body)
	}
	if q.body != nil {
		body = q.body
	}
	key := v.secret
	if q.keys != nil {
		key.keys = q.keys
	}
	header, err := key.header(id, time.Now().Add(q.signed), body)
	if err != nil {
		return nil, nil, err
	}
	if q.header != nil {
		q.header(header)
	}
	if q.tamper {
		body = append(body, ' ')
	}
	return header, body, nil
}

// leaks reports whether an answer repeats a secret. Near its start, where secrets
// appear by accident, it searches for every form of a secret. After that it searches
// only for the unchanged secret.
func leaks(body []byte, hidden []string) bool {
	for _, secret := range hidden {
		if len(secret) >= 8 && bytes.Contains(body, []byte(secret)) {
			return true
		}
	}
	text := string(body[:min(len(body), 32<<10)])
	return secrets.Scrub(text, hidden) != text
}

// overCap reports whether an answer was refused because of its size.
func overCap(err error) bool {
	var over *capError
	var values *strict.LimitError
	return errors.As(err, &over) || errors.As(err, &values)
}

// withExtra returns a request with fields that no version of the protocol has.
func withExtra(body []byte) []byte {
	var request map[string]json.RawMessage
	if json.Unmarshal(body, &request) != nil {
		return body
	}
	request["x_unknown"] = json.RawMessage(`{"nested":[1,null,"x"]}`)
	request["hint"] = json.RawMessage(`{"x_unknown":true}`)
	extended, err := json.Marshal(request)
	if err != nil {
		return body
	}
	return extended
}

// wrongKey returns a random key, which stands for somebody who does not know the secret.
func wrongKey() (*fetch.SigningKey, error) {
	raw := make([]byte, fetch.MinKey)
	if _, err := rand.Read(raw); err != nil {
		return nil, err
	}
	return fetch.NewSigningKey(raw)
}

func orEmptyObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func count(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}
