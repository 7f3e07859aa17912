package connector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// run asks the connector and judges its answers by the rules. Rules that need a right answer are
// judged only if the first answer is right.
func (v *verification) run(ctx context.Context) {
	first := v.ask(ctx, question{})
	v.reachable(first)
	if v.found[ruleReachable].Verdict == Fail {
		return
	}
	advice := `answer a signed POST with 200 and {"messages": [], "next_cursor": …}, or with 204 where nothing is new`
	switch {
	case first.status == http.StatusUnauthorized || first.status == http.StatusForbidden:
		advice = "sign with the secret that the connector has: the request was refused for its signature or its headers"
		if len(v.secret.keys) == 0 {
			advice = "name the secret that requests are signed with, if the connector wants signatures: --secret; or what it wants in a header: --set headers.NAME=…"
		}
	case first.status >= 300 && first.status < 400:
		var failed *poller.CheckError
		if errors.As(first.err, &failed) {
			advice = failed.Message
		}
	case first.blames():
		advice = "verify with --account and --set of an account that the connector knows"
	}
	if first.status != 0 && v.misshapen != "" && first.status < 300 {
		v.judge(ruleAnswer, true, fmt.Sprint(first.status), "")
	} else if v.oversize == "" {
		v.judge(ruleAnswer, first.ok(), first.String(), advice)
	}
	if first.ok() {
		v.signature(ctx)
		v.unknownFields(ctx)
		v.repeatedID(ctx)
		v.judgePages(ctx, first)
		v.strangeCursor(ctx)
		v.unknownAccount(ctx)
		v.malformed(ctx)
		v.held(ctx)
		v.files(ctx)
		v.sends(ctx)
		v.judge(ruleEvery, v.unanswered == "", cmp.Or(v.unanswered, count(v.asked, "request")+", each with an answer"),
			"answer every request, at least with a status: no request may end the process or the connection")
	}
	v.throughout()
}

// throughout judges the rules that every answer must obey.
func (v *verification) throughout() {
	if v.largest > 0 || v.misshapen != "" {
		v.judge(ruleForm, v.misshapen == "", cmp.Or(v.misshapen, "each answer has its form"), "write the field as the schema has it: rounds connector schema")
		v.judge(ruleFields, v.misspelt == "", cmp.Or(v.misspelt, "each field that looks like one of the protocol's is one"), "correct the name; rounds connector schema has them all")
	}
	const caps = "keep an answer under 8 MiB, a message's data under 256 KiB and a cursor under 64 KiB; say has_more for the rest"
	v.judge(ruleSize, v.oversize == "", cmp.Or(v.oversize, fmt.Sprintf("the largest answer had %d bytes of %d", v.largest, maxBody)), caps)
	switch {
	case len(v.secret.values) == 0:
		v.notJudged(ruleSecrets, "no secret was sent", "")
	default:
		v.judge(ruleSecrets, !v.leak, map[bool]string{true: "an answer repeats a secret", false: "no answer repeats a secret"}[v.leak],
			"leave out of messages, cursors and errors what requests carry in their headers")
	}
	v.judge(ruleDeadline, v.late == 0, fmt.Sprintf("%s, the slowest took %v of %v", count(v.asked, "request"), v.slowest.Round(time.Millisecond), v.trial.Deadline),
		"answer before the request's deadline: return the messages found so far and has_more")
}

// reachable judges the first request by whether an answer came at all.
func (v *verification) reachable(first reply) {
	var failed *poller.CheckError
	if !first.none || first.status != 0 || !errors.As(first.err, &failed) || first.code == fetch.CodeTooLarge {
		v.judge(ruleReachable, true, fetch.Host(v.url)+" answers", "")
		return
	}
	advice := map[fetch.Code]string{
		fetch.CodeConnect:        "start the connector, or correct the address",
		fetch.CodeDNS:            "correct the host's name, or add --allow-networks with it, for one in a private network",
		fetch.CodeTLS:            "give the connector a certificate that is trusted, or use http:// where the network is",
		fetch.CodeRefusedAddress: "add --allow-networks with the connector's host, for one on this machine or in a private network",
		fetch.CodeProxy:          "see ROUNDS_PROXY, or leave the connector's host out by ROUNDS_NO_PROXY",
		fetch.CodeReset:          "see the connector's log: it closed the connection without an answer",
		fetch.CodeTimeout:        "see what the connector waits for: nothing came before the deadline",
	}[first.code]
	if errors.Is(first.err, http.ErrSchemeMismatch) {
		advice = "name a port where the connector speaks TLS, or use http:// where the network is private"
	}
	v.judge(ruleReachable, false, fetch.Host(v.url)+": "+failed.Message, cmp.Or(advice, "see that an HTTP server answers there"))
}

// signature sends requests that somebody without the secret could send.
func (v *verification) signature(ctx context.Context) {
	rules := []string{ruleSignature, ruleRefusal, ruleReplay, ruleAhead, ruleRotation}
	wrong, err := wrongKey()
	if err != nil || len(v.secret.keys) == 0 {
		for _, rule := range rules {
			v.notJudged(rule, "requests are not signed", "name the secret that requests are signed with: --secret")
		}
		return
	}
	forged := []question{
		{name: "another key", keys: []*fetch.SigningKey{wrong}},
		{name: "no signature", header: func(h http.Header) { h.Del(fetch.HeaderSignature) }},
		{name: "another body", tamper: true},
		{name: "another id", header: func(h http.Header) { h.Set(fetch.HeaderID, "verify-other") }},
	}
	var seen []string
	refused, served, none := []reply{}, false, false
	for _, q := range forged {
		r := v.ask(ctx, q)
		seen = append(seen, q.name+": "+r.brief())
		served, none = served || r.ok(), none || r.none
		refused = append(refused, r)
	}
	const verify = "verify webhook-signature as Standard Webhooks says, over the bytes as they came and before anything else"
	if none && !served {
		v.notJudged(ruleSignature, strings.Join(seen, ", "), "")
	} else {
		v.judge(ruleSignature, !served, strings.Join(seen, ", "), verify)
	}
	for _, dated := range []struct {
		rule, way string
		by        time.Duration
	}{{ruleReplay, "ago", -trialSkew}, {ruleAhead, "ahead", trialSkew}} {
		r := v.ask(ctx, question{name: "signed " + dated.way, signed: dated.by})
		refused = append(refused, r)
		v.judgeReply(dated.rule, r, !r.ok(), fmt.Sprintf("signed %v %s: %s", trialSkew, dated.way, r.brief()), "refuse a webhook-timestamp that is more than five minutes off, either way, with 401")
	}
	v.refusal(refused)
	r := v.ask(ctx, question{name: "two signatures", keys: append([]*fetch.SigningKey{wrong}, v.secret.keys...)})
	v.judgeReply(ruleRotation, r, r.ok(), "two signatures, of which the second fits: "+r.brief(), "take webhook-signature apart at its spaces and accept the request if any of them fits")
}

// refusal judges how requests were refused.
func (v *verification) refusal(replies []reply) {
	const advice = "answer 401 without an error object: a wrong signature is the deployment's fault, never the account's"
	judged := 0
	for _, r := range replies {
		if r.none || r.ok() {
			continue
		}
		judged++
		if r.blames() || r.status != http.StatusUnauthorized && r.status != http.StatusForbidden {
			seen := r.String()
			if r.blames() {
				seen += ", which counts against the account"
			}
			v.judge(ruleRefusal, false, seen, advice)
			return
		}
	}
	if judged == 0 {
		v.notJudged(ruleRefusal, "nothing was refused", "")
		return
	}
	v.judge(ruleRefusal, true, "401 or 403, and no error object", "")
}

func (v *verification) unknownFields(ctx context.Context) {
	got := v.ask(ctx, question{name: "unknown fields", extra: true})
	v.judgeReply(ruleUnknown, got, got.ok(), got.String(), "ignore unknown fields of the request")
}

// repeatedID asks twice with one id, as if for two pages of a check.
func (v *verification) repeatedID(ctx context.Context) {
	id := fmt.Sprintf("verify-again-%d", time.Now().UnixNano())
	for n := range 2 {
		got := v.ask(ctx, question{name: "the same id again", id: id})
		v.judgeReply(ruleRepeatedID, got, got.ok(), fmt.Sprintf("request %d of one id: %s", n+1, got.brief()), "do not refuse a webhook-id that came before: no request changes anything")
		if !got.ok() {
			return
		}
	}
}

// strangeCursor sends a cursor that the connector cannot have returned.
func (v *verification) strangeCursor(ctx context.Context) {
	got := v.ask(ctx, question{name: "an unknown cursor", cursor: json.RawMessage(`{"x_verify":["no such cursor"]}`)})
	var failed *poller.CheckError
	invalid := errors.As(got.err, &failed) && failed.Kind == poller.CursorInvalid
	v.judgeReply(ruleStrange, got, invalid || got.ok() && got.result.CursorReset, got.String(),
		`answer 200 with {"error": {"kind": "cursor_invalid"}}, or begin anew and say "cursor_reset": true`)
}

// unknownAccount asks about an account that does not exist. A connector that uses only
// the config answers as usual.
func (v *verification) unknownAccount(ctx context.Context) {
	got := v.ask(ctx, question{name: "an unknown account", account: "verify-no-such-account"})
	v.judgeReply(ruleNobody, got, got.ok() || got.blames(), got.String(),
		`answer 200 with {"error": {"kind": "gone"}}, or 410`)
}

// held sends a request that may be held, where nothing is new.
func (v *verification) held(ctx context.Context) {
	if v.hold == 0 {
		v.notJudged(ruleHold, "the config has no hold", "")
		return
	}
	v.judgeHold(v.ask(ctx, question{name: "held", cursor: v.last, hold: v.hold}))
}

// heldAWhile is the longest time for which a connector must hold an empty answer. Pollers call a
// connector that answers sooner less often.
const heldAWhile = 5 * time.Second

// judgeHold judges the answer to a request that may be held.
func (v *verification) judgeHold(r reply) {
	const advice = "keep a request with hold open until there is a message, and answer 204 when its seconds are over"
	after := fmt.Sprintf("%s after %v of %v", r.brief(), r.took.Round(time.Millisecond), v.hold)
	switch {
	case r.code == fetch.CodeTimeout:
		v.judge(ruleHold, false, fmt.Sprintf("no answer within %v", v.hold+trialMargin), advice)
	case r.none || !r.ok():
		v.notJudged(ruleHold, r.String(), "")
	case len(r.result.Messages) > 0:
		v.notJudged(ruleHold, after, "verify with an account that gets no messages meanwhile")
	default:
		v.judge(ruleHold, r.took >= min(v.hold/4, heldAWhile), after, advice)
	}
}

func (v *verification) malformed(ctx context.Context) {
	got := v.ask(ctx, question{name: "what is not JSON", body: []byte(`{"version":1,`)})
	v.judgeReply(ruleMalformed, got, got.status >= 400 && got.status < 500 && !got.blames(), got.brief(), "answer 400, without an error object, to what is not JSON")
}
