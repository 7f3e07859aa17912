package poller

import (
	"bytes"
	"fmt"
	"time"
)

// unmovedPause is the least wait before the next check of an account whose page left the cursor
// unmoved. Without it, an account that is due at once would find the same messages in a hot loop.
const unmovedPause = 30 * time.Second

// Judge judges a page as the pool does before it writes the page: by Result.Validate, and by
// whether the cursor moved. A page with messages and HasMore that leaves the cursor unmoved would
// be found again and again, so Judge returns a *CheckError with the code "cursor_stuck". Without
// HasMore only the next check finds the messages again, and Judge adds a warning to the result. A
// Once needs no cursor. Two messages with one id are only a warning too: a third party may send
// both and never send them again, so a refused page would lose them.
func Judge(c Checker, asked Request, result *Result) error {
	if err := result.Validate(); err != nil {
		return err
	}
	if first, second, twice := result.sameID(); twice {
		result.Warnings = append(result.Warnings, Warning{
			Code: "same_id", Message: fmt.Sprintf("messages[%d] and messages[%d] have the same id: consumers take the second for the first, and may skip it", first, second),
		})
	}
	if givenOnce(c) || !result.unmoved(asked.Cursor) {
		return nil
	}
	found, them := fmt.Sprintf("%d messages", len(result.Messages)), "them"
	if len(result.Messages) == 1 {
		found, them = "one message", "it"
	}
	if result.HasMore {
		return &CheckError{
			Kind: Protocol, Scope: ScopeAccount, Code: "cursor_stuck",
			Message: found + " and more to come, but the cursor has not moved: the next page would be the same",
		}
	}
	result.Warnings = append(result.Warnings, Warning{
		Code: "cursor_stuck", Message: "found " + found + " but its cursor has not moved: the next check finds " + them + " again",
	})
	return nil
}

// logged returns the text of a failure for the log. It uses the same word as the account's history,
// so that a failure that does not count against the account is recognisable in both.
func logged(err *CheckError) string { return err.text(markOf(err)) }

// sameID returns the first two messages of the page that have one id.
func (r *Result) sameID() (first, second int, twice bool) {
	if len(r.Messages) < 2 {
		return 0, 0, false
	}
	at := make(map[string]int, len(r.Messages))
	for i := range r.Messages {
		if first, twice := at[r.Messages[i].ID]; twice {
			return first, i, true
		}
		at[r.Messages[i].ID] = i
	}
	return 0, 0, false
}

// unmoved reports whether a page has messages but leaves the cursor where it was.
func (r *Result) unmoved(cursor []byte) bool {
	return len(r.Messages) > 0 && (r.Cursor == nil || bytes.Equal(r.Cursor, cursor))
}

// judged judges the page of a call. If the next check would find the same messages, an account that
// is due at once waits first.
func (f *flight) judged(asked Request, result *Result) error {
	if err := Judge(f.record.checker, asked, result); err != nil {
		return err
	}
	if f.record.tight && !givenOnce(f.record.checker) && result.unmoved(asked.Cursor) {
		result.NextPollAfter = max(result.NextPollAfter, unmovedPause)
	}
	return nil
}
