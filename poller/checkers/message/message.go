// Package message has what kinds share when they turn a third party's data into messages.
package message

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unicode/utf8"
)

// lastMS is the last millisecond of the year 9999: RFC 3339 has no later time.
const lastMS = 253402300799_999

// ID returns an id for a message without an id of its own: "sha256:" and the digest of its data.
func ID(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Time returns the time of a number of milliseconds since 1970. It is the zero time, for unknown,
// if RFC 3339 cannot express it, or if it is not after 1970.
func Time(ms int64) time.Time {
	if ms <= 0 || ms > lastMS {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// TimeOfSeconds is Time for a number of seconds.
func TimeOfSeconds(seconds int64) time.Time {
	if seconds > lastMS/1000 {
		return time.Time{}
	}
	return Time(seconds * 1000)
}

// Usable returns a time in UTC, or the zero time, for unknown, if RFC 3339 cannot express it in every
// time zone.
func Usable(at time.Time) time.Time {
	if at = at.UTC(); at.Year() < 1 || at.Year() > 9998 {
		return time.Time{}
	}
	return at
}

// Cut shortens a text to at most the given number of bytes, at the start of a rune.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Limit returns how many messages to ask of a third party that sends at most most: the wanted
// number, or most if none is given.
func Limit(wanted, most int) int {
	if wanted < 1 {
		return most
	}
	return min(wanted, most)
}
