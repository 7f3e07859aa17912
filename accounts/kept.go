package accounts

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// shareLetter begins the word that WithUsed puts into what an account's cadence keeps.
const shareLetter = "b"

// WithUsed notes, in front of what an account's cadence keeps, until when what the
// account brought uses up its share of bytes: a share that refills evenly is full
// again then. A zero time notes nothing. WithSkip goes in front of it.
func WithUsed(state string, until time.Time) string {
	if until.IsZero() {
		return state
	}
	return joined(shareLetter+strconv.FormatInt(until.UnixMilli(), 10), state)
}

// UsedUntil is the time that WithUsed put there, to the millisecond; zero where there
// is none.
func UsedUntil(state string) time.Time {
	for word := range strings.FieldsSeq(state) {
		if at := momentIn(word, shareLetter); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// joined puts what is kept in front of what else is.
func joined(first, rest string) string {
	if first == "" || rest == "" {
		return first + rest
	}
	return first + " " + rest
}

// momentIn is the time behind a letter, to the millisecond; zero where a word is no such one.
func momentIn(word, letter string) time.Time {
	digits, ok := strings.CutPrefix(word, letter)
	ms, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || ms <= 0 || ms > 1<<53 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// warningLetter begins the word that WithWarning puts into what an account's cadence
// keeps. Versions that do not know it pass over it, and drop it at their next check.
const warningLetter = "w"

// MaxWarning is how many bytes of a warning are kept.
const MaxWarning = 240

// WithWarning notes, behind what an account's cadence keeps, what was wrong at its last
// check though that succeeded; an empty text notes nothing. It is cut to MaxWarning
// bytes.
func WithWarning(state, text string) string {
	if text == "" {
		return state
	}
	if len(text) > MaxWarning {
		cut := MaxWarning
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return joined(state, warningLetter+base64.RawURLEncoding.EncodeToString([]byte(text)))
}

// WarningIn is the text that WithWarning put there; empty where there is none.
func WarningIn(state string) string {
	for word := range strings.FieldsSeq(state) {
		encoded, ok := strings.CutPrefix(word, warningLetter)
		if !ok {
			continue
		}
		if text, err := base64.RawURLEncoding.DecodeString(encoded); err == nil && utf8.Valid(text) && len(text) <= MaxWarning {
			return string(text)
		}
	}
	return ""
}
