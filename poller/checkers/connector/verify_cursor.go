package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// judgePages judges the rules about pages and cursors. It first asks for one message again,
// and then for all pages.
func (v *verification) judgePages(ctx context.Context, first reply) {
	if len(first.result.Messages) == 0 {
		for _, rule := range []string{ruleLimit, ruleSame, ruleMoves, ruleResumes, ruleTwice} {
			v.notJudged(rule, "the account has no messages", "verify with an account that has some: --account")
		}
		v.readToEnd(ctx, first)
		return
	}
	one := v.ask(ctx, question{name: "one message", limit: 1})
	v.judgeReply(ruleLimit, one, one.ok() && len(one.result.Messages) <= 1 && len(first.result.Messages) <= trialLimit,
		fmt.Sprintf("asked for 1 message: %v, for %d: %v", one, trialLimit, first),
		"return at most as many messages as limit says, the oldest first, and has_more if there are others")
	shown, limit := one, 1
	if !one.ok() || len(one.result.Messages) == 0 { // the other rules are judged by the first page
		shown, limit = first, trialLimit
	}
	again := v.ask(ctx, question{name: "the same cursor again", limit: limit})
	v.judgeReply(ruleSame, again, again.ok() && prefix(shown.ids(), again.ids()), fmt.Sprintf("%s, then %s", some(shown.ids()), some(again.ids())),
		"keep the state in the cursor alone, and give each message an id that never changes")
	rest := reply{none: true}
	if shown.result.Cursor != nil {
		rest = v.ask(ctx, question{name: "the next page", cursor: shown.result.Cursor})
	}
	if v.moves(first, shown, rest) {
		v.resumes(first, one, rest)
	} else {
		v.notJudged(ruleResumes, "the cursor does not move", "")
	}
	v.readToEnd(ctx, first)
}

// moves judges whether the cursor changes after each page of messages.
func (v *verification) moves(first, shown, rest reply) bool {
	advice := "return next_cursor with every page that has messages, and let it name the last of them"
	cursor := shown.result.Cursor
	switch {
	case cursor == nil || first.result.Cursor == nil:
		v.judge(ruleMoves, false, "a page of messages has no next_cursor", advice)
	case len(first.ids()) > len(shown.ids()) && sameJSON(cursor, first.result.Cursor):
		v.judge(ruleMoves, false, fmt.Sprintf("next_cursor is the same behind %s and behind %d", count(len(shown.ids()), "message"), len(first.ids())), advice)
	case rest.ok() && len(rest.ids()) > 0 && (rest.result.Cursor == nil || sameJSON(cursor, rest.result.Cursor)):
		v.judge(ruleMoves, false, fmt.Sprintf("the next page has %s and the next_cursor that it was asked under", count(len(rest.ids()), "message")), advice)
	default:
		v.judge(ruleMoves, true, fmt.Sprintf("a page of messages has a next_cursor of %s, and the next page another", count(len(bytes.TrimSpace(cursor)), "byte")), "")
		return true
	}
	return false
}

// resumes judges whether the page after one message begins with the next one.
func (v *verification) resumes(first, one, rest reply) {
	if !one.ok() || len(one.result.Messages) != 1 {
		v.notJudged(ruleResumes, "there is no page of one message to go on from", "")
		return
	}
	got := append(one.ids(), rest.ids()...)
	want := first.ids()
	switch {
	case rest.none:
		v.notJudged(ruleResumes, rest.String(), "")
	case !rest.ok() || repeats(got) > 0 || !prefix(got, want) && !prefix(want, got):
		v.judge(ruleResumes, false, fmt.Sprintf("1 message, then %v: %s", rest, difference(want, got)),
			"begin with the message right after the one that next_cursor was returned with")
	case len(want) < 2:
		v.notJudged(ruleResumes, "the account has one message", "verify with an account that has some: --account")
	default:
		v.judge(ruleResumes, true, fmt.Sprintf("1 message, then %d more, none twice", len(rest.ids())), "")
	}
}

// readToEnd asks for page after page until there are no more, and once more under the last
// cursor. It judges ruleEnd and ruleTwice.
func (v *verification) readToEnd(ctx context.Context, page reply) {
	cursor, seen, empty, pages := page.result.Cursor, page.ids(), 0, 1
	defer func() { v.last = cursor }()
	for ; page.result.HasMore && pages < trialPages; pages++ {
		page = v.ask(ctx, question{name: fmt.Sprintf("page %d", pages+1), cursor: cursor})
		seen = append(seen, page.ids()...)
		if page.result.Cursor != nil {
			cursor = page.result.Cursor
		}
		if len(page.result.Messages) > 0 {
			empty = 0
		} else {
			empty++
		}
		switch {
		case repeats(seen) > 0:
			v.judge(ruleTwice, false, fmt.Sprintf("page %d: %s came before", pages+1, count(repeats(seen), "message")), "under next_cursor return only what is newer")
			v.notJudged(ruleEnd, "the same messages came again", "")
			return
		case !page.ok():
			v.judgeReply(ruleEnd, page, false, fmt.Sprintf("page %d: %v", pages+1, page), "has_more asks for the next page at once: it must be there")
			v.notJudged(ruleTwice, "there was no next page", "")
			return
		case empty >= trialEmpty:
			v.judge(ruleEnd, false, fmt.Sprintf("%d pages in a row that say has_more and are empty", empty), "say has_more only where the next page has messages, with few exceptions")
			v.notJudged(ruleTwice, "the pages do not end", "")
			return
		}
	}
	if page.result.HasMore {
		for _, rule := range []string{ruleEnd, ruleTwice} {
			v.notJudged(rule, fmt.Sprintf("%d pages, and more to come", pages), "verify with an account that has fewer messages")
		}
		return
	}
	after := v.ask(ctx, question{name: "behind the last page", cursor: cursor})
	known := fmt.Sprintf("%s on %s, and behind them %v", count(len(seen), "message"), count(pages, "page"), after)
	v.judgeReply(ruleEnd, after, after.ok(), known, "under the last cursor answer 204, or no messages, where nothing is new")
	if _, left := v.found[ruleTwice]; left {
		return // there are no messages
	}
	if cursor == nil {
		v.notJudged(ruleTwice, "there is no cursor to ask under", "")
		return
	}
	again := slices.ContainsFunc(after.ids(), func(id string) bool { return slices.Contains(seen, id) })
	v.judgeReply(ruleTwice, after, !again, known, "under the last cursor return only what is newer")
}

// sameJSON reports whether two cursors are the same JSON.
func sameJSON(a, b []byte) bool {
	var first, second bytes.Buffer
	return json.Compact(&first, a) == nil && json.Compact(&second, b) == nil && bytes.Equal(first.Bytes(), second.Bytes())
}

// some returns the first few ids as text.
func some(ids []string) string {
	const most = 3
	names := make([]string, 0, most)
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, fmt.Sprintf("%q", strict.Printable(id)))
	}
	if len(ids) > most {
		return fmt.Sprintf("%v and %d more", names, len(ids)-most)
	}
	return fmt.Sprint(names)
}

// prefix reports whether the long list begins with the short one. The long one may have
// newer messages at its end.
func prefix(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

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

// difference describes the first difference between two lists.
func difference(want, got []string) string {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("message %d is %s, and was %s when all were asked for", i+1, some(got[i:i+1]), some(want[i:i+1]))
		}
	}
	return fmt.Sprintf("%d messages, and %d when all were asked for", len(got), len(want))
}
