package circulate

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Priority is the lane of message_queue that an account waits in. Urgent ones
// are taken before normal ones, and those before low ones; but of each sixteen
// accounts that a shard gives out while several lanes wait, at least one is of
// the low lane and three are of the normal one. So an account with k others
// before it in its lane is taken after at most 16(k+1) of its shard.
//
// Inside a lane it is first in, first out, by due time. Under overload every
// account of a lane is then checked equally often, whatever its interval: those
// that ask for more do not push the others back, and a lane needs no more than
// the two ends of a list.
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

// Rule is a letter for what decided when an account is due. Those of the ring
// are below; what others there are is their users' affair.
type Rule byte

// The rules of the ring.
const (
	RuleRegistered Rule = 'r' // it was registered, or its record changed
	RuleResumed    Rule = 'e' // it was resumed
	RuleNudged     Rule = 'g' // a check was asked for; it waits with the urgent ones
	RuleProbed     Rule = 'p' // it was parked, and is tried again
	RuleSlot       Rule = 'l' // its turn in a limit's line was promised; a nudge does not change it
)

// Mark is a letter for how a check went. MarkOK is that of the ring; what others
// there are is their users' affair.
type Mark byte

// The marks of the ring.
const (
	MarkOK Mark = '+' // it succeeded and had no more to fetch
	noMark Mark = '-'
)

// MaxError is the most bytes that are kept of what went wrong with a check: it
// is kept for each account whose last check failed.
const MaxError = 120

func clip(text string) string {
	if len(text) <= MaxError {
		return text
	}
	cut := MaxError
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// History is how the last checks of an account went.
type History struct {
	// Succeeded is when a check last succeeded completely or, where none ever
	// did, when the account was registered; Redis' clock, cut to seconds.
	Succeeded time.Time
	// Marks are those of the last eight checks at most, the newest first; of the last
	// seven while no check has ever succeeded completely.
	Marks []Mark
}

// NeverSucceeded reports that the account was checked, and that no check has ever
// succeeded completely.
func (h History) NeverSucceeded() bool {
	return len(h.Marks) > 0 && len(h.Marks) < marksKept && !slices.Contains(h.Marks, MarkOK)
}

const (
	historyWidth = 16
	marksKept    = 8
)

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
