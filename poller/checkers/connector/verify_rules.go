package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/signing"
)

// The rules, in the order of their findings.
const (
	ruleAnswer    = "answer"         // the first check brings a page, or 204
	ruleSignature = "signature"      // a request that is not signed as agreed is refused
	ruleReplay    = "replay"         // so is one that was signed long ago
	ruleFields    = "unknown fields" // they are tolerated
	ruleLimit     = "limit"          // no more messages than asked for
	ruleRepeat    = "same cursor"    // brings the same messages
	ruleResume    = "cursor resumes" // the next cursor goes on where the page ended
	ruleCursor    = "cursor moves"   // messages come with a cursor behind them
	ruleEnd       = "end"            // the pages end, and behind them is nothing new
	ruleStrange   = "unknown cursor" // is told: cursor_invalid or cursor_reset
	ruleMalformed = "malformed"      // a request that is not JSON is refused as such
	ruleSize      = "size"           // answers keep to the caps
	ruleDeadline  = "deadline"       // and to the time
)

func (v *verification) run(ctx context.Context) {
	first := v.ask(ctx, question{})
	advice := `answer a signed POST with 200 and {"messages": [], "next_cursor": …}, or with 204 where nothing is new`
	if isRefusal(first) {
		advice = "sign with the secret that the connector has: the request was refused for its signature or its headers"
	}
	v.judge(ruleAnswer, first.ok(), first.String(), advice)
	if !first.ok() {
		for _, rule := range []string{ruleSignature, ruleReplay, ruleFields, ruleLimit, ruleRepeat, ruleResume, ruleCursor, ruleEnd, ruleStrange, ruleMalformed} {
			v.note(rule, NotShown, "there was no answer to go by", "")
		}
	} else {
		v.signature(ctx)
		v.unknownFields(ctx, first)
		v.cursors(ctx, first)
		v.strangeCursor(ctx)
		v.malformed(ctx)
	}
	v.sizes()
	v.judge(ruleDeadline, v.slowest < v.trial.Deadline, fmt.Sprintf("%s, the slowest answer took %v of %v", count(v.asked, "request"), v.slowest.Round(time.Millisecond), v.trial.Deadline),
		"answer before the request's deadline: nobody waits longer; give what there is and say has_more")
}

// signature tries what somebody without the secret could send.
func (v *verification) signature(ctx context.Context) {
	const advice = "verify webhook-signature as Standard Webhooks says, over the bytes as they came and before anything else, and answer 401"
	if len(v.secret.keys) == 0 {
		v.note(ruleSignature, NotShown, "requests are not signed", "name the secret that requests are signed with")
		v.note(ruleReplay, NotShown, "requests are not signed", "name the secret that requests are signed with")
		return
	}
	wrong, err := wrongKey(v.secret)
	if err != nil {
		v.note(ruleSignature, NotShown, "no other key could be made", "")
		return
	}
	var seen []string
	refused := true
	for _, try := range []struct {
		name string
		q    question
	}{
		{"another key", question{key: wrong}},
		{"no signature", question{header: func(h http.Header) { h.Del(signing.HeaderSignature) }}},
		{"another body", question{tamper: true}},
		{"another id", question{header: func(h http.Header) { h.Set(signing.HeaderID, "verify-other") }}},
	} {
		got := v.ask(ctx, try.q)
		refused = refused && isRefusal(got)
		seen = append(seen, try.name+": "+statusText(got))
	}
	v.judge(ruleSignature, refused, strings.Join(seen, ", "), advice)
	old := v.ask(ctx, question{signed: func() time.Time { return time.Now().Add(-trialSkew) }})
	v.judge(ruleReplay, isRefusal(old), fmt.Sprintf("signed %v ago: %s", trialSkew, statusText(old)),
		"refuse a webhook-timestamp that is more than five minutes off, with 401: whoever copied a request could send it again for ever")
}

// isRefusal reports whether a request was refused for its signature.
func isRefusal(r reply) bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden
}

func statusText(r reply) string {
	if r.status == 0 {
		return r.String()
	}
	return fmt.Sprint(r.status)
}

func (v *verification) unknownFields(ctx context.Context, first reply) {
	got := v.ask(ctx, question{extra: true})
	v.judge(ruleFields, got.ok() && prefix(first.ids(), got.ids()), got.String(),
		"pass over fields of the request that you do not know: later versions have more")
}

// cursors goes through all pages, one message at a time at first.
func (v *verification) cursors(ctx context.Context, first reply) {
	if len(first.result.Messages) == 0 {
		const seen, advice = "the account has no messages", "verify with an account that has some"
		for _, rule := range []string{ruleLimit, ruleRepeat, ruleResume, ruleCursor} {
			v.note(rule, NotShown, seen, advice)
		}
		v.end(ctx, first)
		return
	}
	one := v.ask(ctx, question{limit: 1})
	v.judge(ruleLimit, one.ok() && len(one.result.Messages) == 1, fmt.Sprintf("asked for 1 message: %v", one),
		"give at most as many messages as limit says, the oldest first, and has_more where there are others")
	shown, limit := one, 1
	if !one.ok() { // that was told; the other rules have the first page to go by
		shown, limit = first, trialLimit
	}
	again := v.ask(ctx, question{limit: limit})
	v.judge(ruleRepeat, again.ok() && prefix(shown.ids(), again.ids()), fmt.Sprintf("%s, then %s", some(shown.ids()), some(again.ids())),
		"keep the state in the cursor alone: a page that was not written is asked for again under the same cursor")
	v.judge(ruleCursor, first.result.Cursor != nil && shown.result.Cursor != nil, "a page of messages has "+cursorText(shown.result.Cursor),
		"give next_cursor with every page that has messages: under the same cursor they come again for ever")
	v.resume(ctx, first, one)
	v.end(ctx, first)
}

func (v *verification) resume(ctx context.Context, first, one reply) {
	if !one.ok() || one.result.Cursor == nil || len(one.result.Messages) != 1 {
		v.note(ruleResume, NotShown, "there is no page of one message to go on from", "")
		return
	}
	rest := v.ask(ctx, question{cursor: one.result.Cursor})
	got := append(one.ids(), rest.ids()...)
	want := first.ids()
	switch {
	case !rest.ok() || twice(got) || !prefix(got, want) && !prefix(want, got):
		v.note(ruleResume, Fail, fmt.Sprintf("1 message, then %v: %s", rest, difference(want, got)),
			"begin right behind the message that next_cursor was given with, neither before nor after it")
	case len(want) < 2:
		v.note(ruleResume, NotShown, "the account has one message", "verify with an account that has some")
	default:
		v.note(ruleResume, Pass, fmt.Sprintf("1 message, then %d more, none twice", len(rest.ids())), "")
	}
}

// end follows the pages until there are no more.
func (v *verification) end(ctx context.Context, page reply) {
	cursor, seen, empty := page.result.Cursor, page.ids(), 0
	pages := 1
	for ; page.result.HasMore && pages < trialPages; pages++ {
		page = v.ask(ctx, question{cursor: cursor})
		seen = append(seen, page.ids()...)
		if page.result.Cursor != nil {
			cursor = page.result.Cursor
		}
		if empty++; len(page.result.Messages) > 0 {
			empty = 0
		}
		if !page.ok() || twice(seen) || empty >= 10 {
			v.note(ruleEnd, Fail, fmt.Sprintf("page %d: %v, %d messages twice, %d empty pages in a row", pages+1, page, repeats(seen), empty),
				"has_more asks for the next page at once: it must bring what is new, and end")
			return
		}
	}
	if page.result.HasMore {
		v.note(ruleEnd, NotShown, fmt.Sprintf("%d pages, and more to come", pages), "verify with an account that has fewer messages")
		return
	}
	after := v.ask(ctx, question{cursor: cursor})
	again := slices.ContainsFunc(after.ids(), func(id string) bool { return slices.Contains(seen, id) })
	if cursor == nil {
		again = false // of an account without a cursor nothing is known
	}
	v.judge(ruleEnd, after.ok() && !again, fmt.Sprintf("%s on %s, and behind them %v", count(len(seen), "message"), count(pages, "page"), after),
		"under the last cursor give only what is newer, and 204 or no messages where nothing is")
}

// strangeCursor sends a cursor that the connector cannot have given out.
func (v *verification) strangeCursor(ctx context.Context) {
	got := v.ask(ctx, question{cursor: json.RawMessage(`{"x_verify":["no such cursor"]}`)})
	var failed *poller.CheckError
	invalid := errors.As(got.err, &failed) && failed.Kind == poller.CursorInvalid
	v.judge(ruleStrange, invalid || got.ok() && got.result.CursorReset, got.String(),
		`answer 200 with {"error": {"kind": "cursor_invalid"}}, or begin anew and say "cursor_reset": true: otherwise nobody learns that messages may be missing`)
}

func (v *verification) malformed(ctx context.Context) {
	got := v.ask(ctx, question{body: []byte(`{"version":1,`)})
	v.judge(ruleMalformed, got.status >= 400 && got.status < 500, statusText(got),
		"answer 400 to what is not JSON; a 5xx or a broken connection looks as if the connector was down")
}

// sizes judges what was seen on the way. A message or cursor over its cap is a
// fault of the answer that had it.
func (v *verification) sizes() {
	v.judge(ruleSize, !v.tooLarge, fmt.Sprintf("the largest answer had %d bytes of %d", v.largest, maxBody),
		"keep an answer under 8 MiB, a message under 256 KiB and a cursor under 64 KiB; say has_more for the rest")
}

func cursorText(cursor []byte) string {
	if cursor == nil {
		return "no next_cursor"
	}
	return fmt.Sprintf("a next_cursor of %d bytes", len(bytes.TrimSpace(cursor)))
}

// some names a few ids.
func some(ids []string) string {
	if len(ids) > 3 {
		return fmt.Sprintf("%q and %d more", ids[:3], len(ids)-3)
	}
	return fmt.Sprintf("%q", ids)
}

// prefix reports whether a list begins another: there may be newer messages by then.
func prefix(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

func twice(ids []string) bool { return repeats(ids) > 0 }

func repeats(ids []string) (n int) {
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			n++
		}
		seen[id] = true
	}
	return n
}

// difference says where two lists part.
func difference(want, got []string) string {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("message %d is %q, and was %q when all were asked for", i+1, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d messages, and %d when all were asked for", len(got), len(want))
}
