package connector

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/signing"
)

// Verdict is what a verification makes of one rule.
type Verdict string

// The verdicts.
const (
	Pass     Verdict = "pass"
	Fail     Verdict = "fail"
	NotShown Verdict = "not shown" // nothing that the connector did tells
)

// Finding is one rule of the protocol, held against a connector.
type Finding struct {
	Rule    string  `json:"rule"`             // short and stable
	Verdict Verdict `json:"verdict"`          //
	Seen    string  `json:"seen"`             // what it did; never a secret
	Advice  string  `json:"advice,omitempty"` // what to do about it; empty where it passes
}

// Trial is what to verify.
type Trial struct {
	// Config is that of an account, which decides where the connector is and how
	// requests are signed.
	Config json.RawMessage
	// Account is the id that it is asked about. It should have some messages.
	Account string
	// Deadline is how long the connector has for an answer; 0: 30 s.
	Deadline time.Duration
}

const (
	trialPages = 20 // followed at most
	trialLimit = 50 // messages asked for on a page
	trialSkew  = 10 * time.Minute
)

// Verify asks a connector in every way that the protocol has and returns a finding
// for each rule, in a fixed order. It asks for messages as a check does, a few
// dozen times, and changes nothing. The error is that of a config or secret that
// cannot be used; a connector that cannot be reached is a finding.
func (c *Checker) Verify(ctx context.Context, t Trial) ([]Finding, error) {
	config, err := c.parse(t.Config)
	if err != nil {
		return nil, err
	}
	secret, err := config.resolve(c.secrets)
	if err != nil {
		return nil, err
	}
	if t.Deadline <= 0 {
		t.Deadline = 30 * time.Second
	}
	v := &verification{client: c.client, trial: t, url: config.url, secret: secret}
	v.run(ctx)
	return v.findings, nil
}

// verification is one run of Verify.
type verification struct {
	client   *fetch.Client
	trial    Trial
	url      string
	secret   resolved
	findings []Finding
	slowest  time.Duration
	largest  int  // bytes of an answer
	tooLarge bool // one was over the cap
	asked    int
}

// question is one request, and in what it differs from an ordinary one.
type question struct {
	cursor json.RawMessage
	limit  int
	extra  bool              // fields that no connector knows
	tamper bool              // a byte more than was signed
	body   []byte            // in place of the request
	key    *resolved         // what to sign with, in place of the config's
	signed func() time.Time  // when, in place of now
	header func(http.Header) // what else to do to the header
}

// reply is what came.
type reply struct {
	status int
	result poller.Result
	err    error // a *poller.CheckError, or what is wrong with the answer
}

// ids are those of the reply's messages.
func (r reply) ids() []string {
	ids := make([]string, 0, len(r.result.Messages))
	for _, m := range r.result.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// ok reports whether the reply is a page or nothing new.
func (r reply) ok() bool { return r.err == nil && r.status >= 200 && r.status < 300 }

// String says what came, in a few words.
func (r reply) String() string {
	var failed *poller.CheckError
	switch {
	case r.ok() && r.status == http.StatusNoContent:
		return "204"
	case r.ok():
		return fmt.Sprintf("%d with %s", r.status, count(len(r.result.Messages), "message"))
	case errors.As(r.err, &failed) && r.status != 0:
		return fmt.Sprintf("%d, %s: %s", r.status, failed.Kind, failed.Message)
	case errors.As(r.err, &failed):
		return failed.Code + ": " + failed.Message
	}
	return fmt.Sprintf("%d", r.status)
}

// ask puts a question, within the deadline that it names.
func (v *verification) ask(ctx context.Context, q question) reply {
	ctx, cancel := context.WithTimeout(ctx, v.trial.Deadline)
	defer cancel()
	v.asked++
	checkID := fmt.Sprintf("verify-%s-%d", rand.Text(), v.asked)
	limit := q.limit
	if limit == 0 {
		limit = trialLimit
	}
	body, failed := encodeRequest(ctx, poller.Request{
		Account: v.trial.Account, CheckID: checkID, Config: orEmptyObject(v.trial.Config), Cursor: q.cursor, Limit: limit, Attempt: 1,
	})
	if failed != nil {
		return reply{err: failed}
	}
	if q.extra {
		body = withExtra(body)
	}
	if q.body != nil {
		body = q.body
	}
	key, at := v.secret, time.Now()
	if q.key != nil {
		key = *q.key
	}
	if q.signed != nil {
		at = q.signed()
	}
	header, err := key.header(checkID, at, body)
	if err != nil {
		return reply{err: err}
	}
	if q.header != nil {
		q.header(header)
	}
	if q.tamper {
		body = append(body, ' ')
	}
	began := time.Now()
	answer, err := v.client.Do(ctx, fetch.Call{Method: http.MethodPost, URL: v.url, Header: header, Body: body, MaxBody: maxBody})
	v.slowest = max(v.slowest, time.Since(began))
	if err != nil {
		v.tooLarge = v.tooLarge || errors.Is(err, fetch.ErrTooLarge)
		return reply{err: callError(err)}
	}
	v.largest = max(v.largest, len(answer.Body))
	result, err := read(answer, limit, v.secret.values)
	return reply{status: answer.Status, result: result, err: err}
}

// note adds a finding.
func (v *verification) note(rule string, verdict Verdict, seen, advice string) {
	if verdict == Pass {
		advice = ""
	}
	v.findings = append(v.findings, Finding{Rule: rule, Verdict: verdict, Seen: seen, Advice: advice})
}

// judge adds a finding that passes or fails.
func (v *verification) judge(rule string, passes bool, seen, advice string) {
	verdict := Fail
	if passes {
		verdict = Pass
	}
	v.note(rule, verdict, seen, advice)
}

// withExtra adds fields that no version of the protocol has.
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

// wrongKey signs as somebody would who does not know the secret.
func wrongKey(like resolved) (*resolved, error) {
	raw := make([]byte, signing.MinKey)
	if _, err := rand.Read(raw); err != nil {
		return nil, err
	}
	key, err := signing.NewKey(raw)
	if err != nil {
		return nil, err
	}
	like.keys = []*signing.Key{key}
	return &like, nil
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
