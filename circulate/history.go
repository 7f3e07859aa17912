package circulate

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Priority is the lane of message_queue that an account waits in. Urgent accounts are
// claimed before normal ones, and normal ones before low ones. But while several lanes
// wait, of every sixteen accounts claimed from a shard at least one is from the low lane
// and three are from the normal one. So an account with k others before it in its lane is
// claimed within the next 16(k+1) accounts of its shard.
//
// Within a lane the order is first in, first out, by due time. Under overload every
// account of a lane is then checked equally often, whatever its interval: accounts with
// short intervals do not push the others back. A lane needs only the two ends of a list.
type Priority byte

// The priorities. The zero value is Normal.
const (
	Urgent Priority = 'u'
	Normal Priority = 'n'
	Low    Priority = 'l'
)

func (p Priority) lane() string {
	if p == 0 {
		p = Normal
	}
	return string(p)
}

// Rule is a letter for why an account is due when it is. The ring's own rules are below;
// callers define others.
type Rule byte

// The rules of the ring.
const (
	RuleRegistered Rule = 'r' // it was registered, or its record changed
	RuleResumed    Rule = 'e' // it was resumed
	RuleNudged     Rule = 'g' // a check was asked for; the account waits in the urgent lane
	RuleProbed     Rule = 'p' // it was parked and is on probation
	RuleSlot       Rule = 'l' // a limit's line gave it this time; a nudge does not change that
)

// Mark is a letter for how a check went. MarkOK is the ring's own; callers define others.
type Mark byte

// The marks of the ring.
const (
	MarkOK Mark = '+' // it succeeded and left nothing to fetch
	noMark Mark = '-'
)

// MaxError is the most bytes of an error that are stored. An error is stored for each
// account whose last check failed.
const MaxError = 120

func clip(text string) string {
	if len(text) <= MaxError {
		return text
	}
	cut := MaxError - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// History is how the last checks of an account went.
type History struct {
	// Succeeded is when a check last succeeded completely, by Redis' clock, cut to
	// seconds. If none ever did, it is when the account was registered.
	Succeeded time.Time
	// Marks are the marks of the last eight checks at most, newest first. Until a check
	// has succeeded completely, there are at most seven.
	Marks []Mark
}

// NeverSucceeded reports that the account was checked, but no check has ever succeeded
// completely.
func (h History) NeverSucceeded() bool {
	return len(h.Marks) > 0 && len(h.Marks) < marksKept && !slices.Contains(h.Marks, MarkOK)
}

const (
	historyWidth = 16
	marksKept    = 8
)

// ReadHistory reads the rule and the history from an account's tickets field: the text
// between ticket and cursor. It is for the packages below this one.
func ReadHistory(behind string) (Rule, History) {
	if len(behind) <= 2 {
		return 0, History{}
	}
	return Rule(behind[1]), readHistory(behind[2:])
}

func readHistory(text string) History {
	if len(text) != historyWidth {
		return History{}
	}
	var h History
	if s, err := strconv.ParseInt(text[:8], 16, 64); err == nil {
		h.Succeeded = time.Unix(s, 0)
	}
	for _, mark := range []byte(text[8:]) {
		if Mark(mark) != noMark {
			h.Marks = append(h.Marks, Mark(mark))
		}
	}
	return h
}

// readError reads a field of the errors HASH: why an account's last check failed, and when.
// An empty text is of an account whose check did not fail.
func readError(field []byte) (why string, at time.Time) {
	if len(field) <= stampWidth {
		return "", time.Time{}
	}
	ms, err := digits(string(field[:stampWidth]))
	if err != nil {
		return "", time.Time{}
	}
	return string(field[stampWidth+1:]), time.UnixMilli(ms)
}
