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

// WithUsed returns what an account's cadence keeps with a word in front of it: the time
// until which the account has used up its share of bytes. The share refills evenly and is
// full again then. A zero time adds nothing. WithSkip's word goes in front of this one.
func WithUsed(state string, until time.Time) string {
	if until.IsZero() {
		return state
	}
	return joined(shareLetter+strconv.FormatInt(until.UnixMilli(), 10), state)
}

// UsedUntil returns the time that WithUsed put there, to the millisecond, or the zero time.
func UsedUntil(state string) time.Time {
	for word := range strings.FieldsSeq(state) {
		if at := momentIn(word, shareLetter); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// joined puts a word in front of what else is kept.
func joined(first, rest string) string {
	if first == "" || rest == "" {
		return first + rest
	}
	return first + " " + rest
}

// momentIn returns the time behind a letter, to the millisecond, or the zero time if the
// word is not a letter and a time.
func momentIn(word, letter string) time.Time {
	digits, ok := strings.CutPrefix(word, letter)
	ms, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || ms <= 0 || ms > 1<<53 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// warningLetter begins the word that WithWarning puts into what an account's cadence
// keeps. Versions that do not know it ignore it, and drop it at their next check.
const warningLetter = "w"

// MaxWarning is the most bytes of a warning that are kept.
const MaxWarning = 240

// WithWarning returns what an account's cadence keeps with a word behind it: the warning of
// its last check, which succeeded. An empty text adds nothing. A longer text is cut to
// MaxWarning bytes.
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

// WarningIn returns the text that WithWarning put there, or an empty one.
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
