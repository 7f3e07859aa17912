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
	used := shareLetter + strconv.FormatInt(until.UnixMilli(), 10)
	if state == "" {
		return used
	}
	return used + " " + state
}

// UsedUntil is the time that WithUsed put there, to the millisecond; zero where there
// is none.
func UsedUntil(state string) time.Time {
	for word := range strings.FieldsSeq(state) {
		digits, ok := strings.CutPrefix(word, shareLetter)
		if !ok {
			continue
		}
		if ms, err := strconv.ParseInt(digits, 10, 64); err == nil && ms > 0 && ms <= 1<<53 {
			return time.UnixMilli(ms)
		}
	}
	return time.Time{}
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
	word := warningLetter + base64.RawURLEncoding.EncodeToString([]byte(text))
	if state == "" {
		return word
	}
	return state + " " + word
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
