package accounts

import (
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// The ring stores one letter for why an account is due when it is, and one for how each
// of its last checks went. This file has their meanings. Operators see the words, so the
// words never change.

// Rules besides the cadence package's.
const (
	RuleLimit      = "limit"        // a shared limit: it has a promised slot
	RuleOutage     = "outage"       // our own network seems to be down
	RuleDown       = "down"         // what it shares with others, such as its host, is down or pauses
	RuleIsolation  = "isolation"    // its checks may kill replicas: one such account at a time
	RuleRegistered = "registered"   // it was registered, or its record changed
	RuleResumed    = "resumed"      // somebody resumed it
	RuleNudged     = "nudge"        // somebody asked for a check
	RuleProbed     = "probe"        // it was parked and is on probation
	RuleMemory     = "redis-memory" // Redis has no room for messages
	RuleShare      = "share"        // its messages used up its share of bytes
	RuleCrowd      = "crowd"        // what it shares with others, such as its host, has many slow checks under way
)

// Marks besides the kinds of failure.
const (
	MarkOK        = "ok"        // succeeded, with nothing left to fetch
	MarkMore      = "more"      // succeeded, and there is more
	MarkBlameless = "blameless" // failed, but the account is not to blame

	MarkMaintenance = "maintenance" // failed in a maintenance window: the failure counts nowhere
)

func rules() map[circulate.Rule]string {
	return map[circulate.Rule]string{
		circulate.RuleRegistered: RuleRegistered,
		circulate.RuleResumed:    RuleResumed,
		circulate.RuleNudged:     RuleNudged,
		circulate.RuleProbed:     RuleProbed,
		circulate.RuleSlot:       RuleLimit,
		'o':                      RuleOutage,
		'D':                      RuleDown,
		'i':                      RuleIsolation,
		'M':                      RuleMemory,
		'S':                      RuleShare,
		'K':                      RuleCrowd,
		'c':                      "cadence",
		'd':                      "adaptive",
		'P':                      "budget",
		't':                      "cron",
		'a':                      "at",
		'm':                      "more",
		'w':                      "poll-after",
		'h':                      "retry-after",
		'b':                      "backoff",
		'B':                      "retry-budget",
		'A':                      "auth",
		'G':                      "gone",
		'C':                      "config",
		'F':                      "finished",
	}
}

func marks() map[circulate.Mark]string {
	return map[circulate.Mark]string{
		circulate.MarkOK: MarkOK,
		'm':              MarkMore,
		'b':              MarkBlameless,
		'W':              MarkMaintenance,
		't':              "transient",
		'r':              "rate_limited",
		'a':              "auth",
		'g':              "gone",
		'c':              "config",
		'i':              "cursor_invalid",
		'p':              "protocol",
		'h':              "hung",
		'x':              "panic",
	}
}

// ClassOfMark returns the class of a check that ended with a mark. A word that this
// version does not know counts as a failure.
func ClassOfMark(word string) cadence.Class {
	switch word {
	case MarkOK, MarkMore:
		return cadence.Succeeded
	case MarkBlameless, MarkMaintenance:
		return cadence.Blameless
	case "rate_limited":
		return cadence.Throttled
	case "auth":
		return cadence.AuthFailed
	case "gone":
		return cadence.Gone
	case "config":
		return cadence.ConfigInvalid
	}
	return cadence.Transient
}

// Codes translates the words for rules and marks into the letters that the ring stores.
type Codes struct {
	rules map[string]circulate.Rule
	marks map[string]circulate.Mark
}

// NewCodes returns the table.
func NewCodes() *Codes {
	c := &Codes{make(map[string]circulate.Rule), make(map[string]circulate.Mark)}
	for letter, word := range rules() {
		c.rules[word] = letter
	}
	for letter, word := range marks() {
		c.marks[word] = letter
	}
	return c
}

const unnamed = '?' // for a word without a letter

// Known returns the letter of a rule, and whether it has one.
func (c *Codes) Known(word string) (circulate.Rule, bool) {
	letter, ok := c.rules[word]
	return letter, ok
}

// Rule returns the letter of a rule, or '?' for an unknown word.
func (c *Codes) Rule(word string) circulate.Rule {
	if letter, ok := c.Known(word); ok {
		return letter
	}
	return unnamed
}

// Mark returns the letter of a mark, or '?' for an unknown word.
func (c *Codes) Mark(word string) circulate.Mark {
	if letter, ok := c.marks[word]; ok {
		return letter
	}
	return unnamed
}

// RuleWord returns the word for a rule's letter. A letter that this version does not know
// is its own word.
func RuleWord(letter circulate.Rule) string {
	if word, ok := rules()[letter]; ok {
		return word
	}
	return string(rune(letter))
}

// MarkWord returns the word for a mark's letter. A letter that this version does not know
// is its own word.
func MarkWord(letter circulate.Mark) string {
	if word, ok := marks()[letter]; ok {
		return word
	}
	return string(rune(letter))
}
