package connector

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// Verdict is the result of a verification for one rule.
type Verdict string

// The verdicts.
const (
	Pass      Verdict = "pass"
	Fail      Verdict = "fail"
	NotJudged Verdict = "not judged" // no answer shows whether the connector obeys the rule
)

// Rule is one rule of the protocol.
type Rule struct {
	Name string `json:"rule"` // short and stable
	Why  string `json:"why"`  // one sentence
}

// Finding says how well a connector obeys one rule.
type Finding struct {
	Rule
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`             // what the connector did; never holds a secret
	Advice  string  `json:"advice,omitempty"` // how to mend it; empty if the rule passes
}

// Trial describes a verification.
type Trial struct {
	// Config is an account's config. It says where the connector is and how requests
	// are signed.
	Config json.RawMessage
	// Account is the id of the account that requests ask about. It should have some
	// messages.
	Account string
	// SendTo is who gets a test message by the config's send_url; empty: nothing is sent.
	SendTo string
	// Deadline is how long the connector may take for an answer; 0: 30 s.
	Deadline time.Duration
}

// The names of the rules.
const (
	ruleReachable  = "reachable"
	ruleAnswer     = "answer"
	ruleForm       = "form"
	ruleFields     = "field names"
	ruleSignature  = "signature"
	ruleRefusal    = "refusal"
	ruleReplay     = "replay"
	ruleAhead      = "ahead"
	ruleRotation   = "rotation"
	ruleRepeatedID = "repeated id"
	ruleUnknown    = "unknown fields"
	ruleLimit      = "limit"
	ruleSame       = "same cursor"
	ruleMoves      = "cursor moves"
	ruleResumes    = "cursor resumes"
	ruleEnd        = "end"
	ruleTwice      = "nothing twice"
	ruleStrange    = "unknown cursor"
	ruleNobody     = "unknown account"
	ruleMalformed  = "malformed"
	ruleSecrets    = "secrets"
	ruleEvery      = "every request"
	ruleSize       = "size"
	ruleDeadline   = "deadline"
	ruleHold       = "hold"
	ruleFiles      = "files"

	ruleSend          = "send"
	ruleSendSigned    = "send signature"
	ruleSendRepeated  = "send repeated"
	ruleSendMalformed = "send malformed"
)

// Rules returns all rules, in the order in which Verify reports them.
func Rules() []Rule {
	return []Rule{
		{ruleReachable, "A connector that cannot be reached is down, and nothing else can be said about it."},
		{ruleAnswer, "A check succeeds with 200 and a page, or with 204 if nothing is new."},
		{ruleForm, "An answer with one wrong field is dropped whole, and none of its messages is reported."},
		{ruleFields, "A field that rounds does not know is ignored, so a misspelt one does nothing and nobody learns of it."},
		{ruleSignature, "Anybody who finds the address could read the messages of every account."},
		{ruleRefusal, "An error object is about the account: with error.kind auth for a wrong signature, the next rotation of the secret would park every account."},
		{ruleReplay, "Anybody with a copy of a request could send it again for ever."},
		{ruleAhead, "A request with a date in the future could be sent again until that date."},
		{ruleRotation, "While secrets are changed, a request has one signature for each, and one valid signature is enough."},
		{ruleRepeatedID, "The id is the check's, the same on every page and every retry, so refusing known ids stops the account."},
		{ruleUnknown, "Later versions of the protocol send more fields."},
		{ruleLimit, "A page with more messages than the request's limit is refused whole."},
		{ruleSame, "An answer may be lost on its way, and the same page is then asked for again."},
		{ruleMoves, "Under a cursor that does not move, the same messages are found again for ever."},
		{ruleResumes, "Messages between two pages are lost, or found twice, unless a page begins right after the previous one."},
		{ruleEnd, "While has_more is true, the next page is asked for at once: endless pages keep a poller busy."},
		{ruleTwice, "A message that is also on a second page is reported a second time."},
		{ruleStrange, "If the connector accepts an unknown cursor silently, nobody learns that messages may be missing."},
		{ruleNobody, "An account that no longer exists is parked only if the answer says so; a 404 or 500 looks like a broken connector."},
		{ruleMalformed, "A 5xx or a broken connection for a bad request looks as if the connector were down."},
		{ruleSecrets, "Reported messages are stored and delivered, and so would be a secret in them."},
		{ruleEvery, "A request without an answer looks like an outage, which holds up all accounts of the connector's host."},
		{ruleSize, "An answer over a size limit is refused whole, and the next one is as large."},
		{ruleDeadline, "Nobody waits for an answer after the request's deadline."},
		{ruleHold, "A request that may be held is repeated at once after an empty answer at once; an answer that comes too late counts as none."},
		{ruleFiles, "A file is fetched from where its message says that it is, and is lost if it is not there."},
		{ruleSend, "A send is accepted by a 2xx; after any other answer, except a refusal, nobody knows whether it was sent."},
		{ruleSendSigned, "Anybody who finds the address could send in the name of every account."},
		{ruleSendRepeated, "If the connector deduplicates, a send whose answer was lost comes again with its send_id, and must not be delivered twice."},
		{ruleSendMalformed, "A 5xx for a bad request leaves a send in doubt that nobody sent."},
	}
}

const (
	trialPages = 20 // pages at most
	trialLimit = 50 // messages asked for on a page
	trialSkew  = 10 * time.Minute
	trialEmpty = 10 // empty pages in a row at most
	trialLate  = 2  // answers after the deadline, before the verification stops asking

	// trialMargin is how much later than its hold a held request's deadline is, as in a poller.
	trialMargin = 10 * time.Second
)

// Verify sends a connector requests of every form that the protocol has. It returns a
// finding for each of Rules, in their order. It asks for messages like a check, a few
// dozen times, and changes nothing. Only if the trial names somebody who may get it, it sends a
// message, and under a send_id that begins with "verify-". A time-out or a broken connection does not show
// whether the connector obeys a rule. The rule is then not judged, and the failure
// shows under the rules "every request" and "deadline". The error reports an unusable
// config or secret. A connector that cannot be reached is a finding, not an error.
func (c *Checker) Verify(ctx context.Context, t Trial) ([]Finding, error) {
	config, err := c.form.Read(t.Config)
	if err != nil {
		return nil, err
	}
	secret, err := config.resolve(ctx, c.secrets, config.url)
	if err != nil {
		return nil, err
	}
	if t.Deadline <= 0 {
		t.Deadline = 30 * time.Second
	}
	v := &verification{client: c.client, trial: t, url: config.url, hold: config.hold, secret: secret, sendURL: config.send, once: config.once, found: make(map[string]Finding)}
	if config.send != "" {
		if v.sending, err = config.resolve(ctx, c.secrets, config.send); err != nil {
			return nil, err
		}
	}
	v.fetch = func(ctx context.Context, m *poller.Message) (*poller.FileBody, error) {
		return c.FetchFile(ctx, poller.FileRequest{Account: t.Account, Config: t.Config, Message: m})
	}
	v.run(ctx)
	return v.findings(), ctx.Err()
}

// verification is one run of Verify.
type verification struct {
	client *fetch.Client
	trial  Trial
	url    string
	hold   time.Duration // the config's; 0: none
	secret resolved
	found  map[string]Finding // by rule, once it is judged

	sendURL string // empty: the config has none
	sending resolved
	once    bool // the config says that the connector deduplicates

	last       json.RawMessage // the cursor after all pages that were read
	asked      int
	slowest    time.Duration
	largest    int    // bytes of the largest answer
	oversize   string // the first answer over a cap
	late       int    // answers after the deadline
	unanswered string // the first request that twice had no answer
	misshapen  string // the first answer of a wrong form
	misspelt   string // the first misspelt field
	leak       bool   // an answer held a secret

	fetch     func(context.Context, *poller.Message) (*poller.FileBody, error) // a message's first file
	filed     *poller.Message                                                  // the first message with a file
	fileFault string                                                           // what is wrong with the first wrong file
}

// findings returns one finding for each rule.
func (v *verification) findings() []Finding {
	all := make([]Finding, 0, len(Rules()))
	for _, rule := range Rules() {
		f, judged := v.found[rule.Name]
		if !judged {
			f = Finding{Verdict: NotJudged, Seen: "there was no page to judge"}
			if v.found[ruleReachable].Verdict == Fail {
				f.Seen = "the connector could not be reached"
			}
		}
		f.Rule, f.Seen = rule, secrets.Scrub(f.Seen, v.secret.values)
		all = append(all, f)
	}
	return all
}

// judge records that a rule passes or fails.
func (v *verification) judge(rule string, passes bool, seen, advice string) {
	if passes {
		v.found[rule] = Finding{Verdict: Pass, Seen: seen}
		return
	}
	v.found[rule] = Finding{Verdict: Fail, Seen: seen, Advice: advice}
}

// notJudged records that a rule cannot be judged. The advice may be empty.
func (v *verification) notJudged(rule, seen, advice string) {
	v.found[rule] = Finding{Verdict: NotJudged, Seen: seen, Advice: advice}
}

// judgeReply judges a rule by a reply, if a reply came.
func (v *verification) judgeReply(rule string, r reply, passes bool, seen, advice string) {
	if r.none {
		v.notJudged(rule, r.String(), "")
		return
	}
	v.judge(rule, passes, seen, advice)
}
