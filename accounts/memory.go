package accounts

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// maxWarning is the most bytes of a warning that are stored.
const maxWarning = 240

// Memory is what an account's earlier checks left for the next one. The ring stores it as
// a text beside the account. The ring reads only the word of SkipBefore, which outlives a
// change of the record.
type Memory struct {
	// SkipBefore is the time before which messages are dropped, to the millisecond; zero: none
	// are. It stays through claims, failures and changes of the record, until a check leaves
	// nothing to fetch or the account is resumed anew.
	SkipBefore time.Time
	// UsedUntil is the time until which the account has used up its share of bytes, to the
	// millisecond. The share refills evenly and is full again then.
	UsedUntil time.Time
	// PolledUntil is the time until which the account is polled though its third party could hold its
	// calls, because it has refused the account for a limit, to the millisecond.
	PolledUntil time.Time
	// Cadence is what the cadence remembers, without Failures, which the ring stores itself.
	Cadence cadence.State
	// Warning is the warning of the last check, if it succeeded. Encode cuts it to maxWarning
	// bytes.
	Warning string
}

// The letters that begin the words of a memory, besides the letters of cadence.State. A version that
// does not know a word ignores it, and drops it at its next check.
const (
	skipLetter    = "s" // only of the first word
	usedLetter    = "b"
	polledLetter  = "p"
	warningLetter = "w"
)

// Encode returns the memory as the ring stores it: words with spaces between them, empty for
// the zero memory.
func (m Memory) Encode() string {
	var words []string
	for _, at := range []struct {
		letter string
		time   time.Time
	}{{skipLetter, m.SkipBefore}, {usedLetter, m.UsedUntil}, {polledLetter, m.PolledUntil}} {
		if !at.time.IsZero() {
			words = append(words, at.letter+strconv.FormatInt(at.time.UnixMilli(), 10))
		}
	}
	if rhythm := m.Cadence.Encode(); rhythm != "" {
		words = append(words, rhythm)
	}
	if m.Warning != "" {
		words = append(words, warningLetter+base64.RawURLEncoding.EncodeToString([]byte(clip(m.Warning, maxWarning))))
	}
	return strings.Join(words, " ")
}

// ReadMemory reads what Encode wrote. If the cadence's part cannot be read, it returns the rest
// and an error. The account goes on with the zero state of a cadence; the error is only for a
// report. Other words that cannot be read are ignored.
func ReadMemory(text string) (m Memory, err error) {
	if text == "" {
		return m, nil
	}
	first, _, _ := strings.Cut(text, " ")
	m.SkipBefore = momentIn(first, skipLetter)
	warned := false
	for word := range strings.FieldsSeq(text) {
		if m.UsedUntil.IsZero() {
			m.UsedUntil = momentIn(word, usedLetter)
		}
		if m.PolledUntil.IsZero() {
			m.PolledUntil = momentIn(word, polledLetter)
		}
		if encoded, ok := strings.CutPrefix(word, warningLetter); ok && !warned {
			if warning, err := base64.RawURLEncoding.DecodeString(encoded); err == nil && utf8.Valid(warning) && len(warning) <= maxWarning {
				m.Warning, warned = string(warning), true
			}
		}
	}
	m.Cadence, err = cadence.ParseState(text)
	return m, err
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
