// Package key has the API's keys. A caller with a key may do what the key's role allows,
// with the accounts that have the key's labels.
//
// A key is shown once, when it is created. Redis stores only its SHA-256, so nobody can use a key
// after reading Redis. An attacker who writes to Redis can add a key, and can do anything else too.
package key

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// Most is how many keys there may be.
	Most = document.MostKeys
	// MaxName is the most bytes of a key's name.
	MaxName = 64
	// MaxLabels is the most labels that a key may be bound to.
	MaxLabels = 16
	// MaxLabel is the most bytes of a label's name or value.
	MaxLabel = 256
	// MinLife is the shortest life of a key that expires.
	MinLife = time.Minute
	// MaxLife is the longest life of a key that expires.
	MaxLife = 3660 * 24 * time.Hour
	// UsedEvery is the accuracy of a key's last use. The use is stored no more often than that.
	UsedEvery = time.Hour
)

var (
	// ErrTaken reports a name that another key has.
	ErrTaken = document.ErrTaken
	// ErrFull reports that there are Most keys, none of which has expired.
	ErrFull = document.ErrFull
	// ErrNotFound reports a name that no key has.
	ErrNotFound = errors.New("key: no key has this name")
	// ErrMistyped reports a text that is not a key: it was mistyped or cut off.
	ErrMistyped = errors.New("key: the text is not a key: it was mistyped or cut off")
	// ErrUnknown reports a key that was revoked, or is of another service.
	ErrUnknown = errors.New("key: no such key: it was revoked, or belongs to another service")
	// ErrExpired reports a key that has expired.
	ErrExpired = errors.New("key: it has expired")
)

// Key describes a key. It does not have the key's text.
type Key struct {
	Digest  string // of its text; identifies the key without revealing it
	Name    string
	Role    access.Role // none if a later version made the key: here it may do nothing
	Labels  access.Labels
	Created time.Time // by Redis' clock
	By      string    // the name of the principal that created it
	Expires time.Time // by Redis' clock; zero: never
	Used    time.Time // accurate to UsedEvery: it may have been used again later; zero: never
}

// Principal returns the principal of requests with the key.
func (k Key) Principal() access.Principal {
	return access.Principal{Name: k.Name, Role: k.Role, Labels: maps.Clone(k.Labels), Via: access.ViaKey}
}

// Expired reports whether the key has expired at a time.
func (k Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// New describes a key to create.
type New struct {
	Name   string
	Role   access.Role
	Labels access.Labels // only accounts with all of them; empty: all accounts
	Life   time.Duration // 0: until it is revoked
	By     string        // the name of the principal that creates it
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@-]*$`)

// Validate returns every fault as strict.Faults, or nil.
func (n New) Validate() error {
	var faults strict.Faults
	switch {
	case len(n.Name) > MaxName || !goodName.MatchString(n.Name):
		faults.Add("name", fmt.Sprintf("must be 1 to %d letters, digits, dots, dashes, underscores or @, and begin with a letter or a digit", MaxName))
	case slices.Contains([]string{access.TokenName, access.LocalName}, n.Name):
		faults.Add("name", fmt.Sprintf("must not be %s, which names who has no key", n.Name))
	}
	if !n.Role.Valid() {
		faults.Add("role", "must be viewer, sender, operator, editor or admin")
	}
	if len(n.Labels) > MaxLabels {
		faults.Add("labels", fmt.Sprintf("must be at most %d, are %d", MaxLabels, len(n.Labels)))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Labels)) {
		value := n.Labels[name]
		if name == "" || len(name) > MaxLabel || len(value) > MaxLabel || !utf8.ValidString(name+value) {
			faults.Add("labels", fmt.Sprintf("name and value must be UTF-8 of at most %d bytes, the name of at least one", MaxLabel))
		}
	}
	if n.Life != 0 && (n.Life < MinLife || n.Life > MaxLife) {
		faults.Add("expires_in", fmt.Sprintf("must be 1 minute to %d days", int(MaxLife/(24*time.Hour))))
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// recordVersion is the version of the records that this program writes. A record of a later
// version may limit a key in an unknown way, so such a key has no role here.
const recordVersion = 1

// record is what Redis stores about a key besides its digest and its expiry.
type record struct {
	Version int           `json:"v"`
	Name    string        `json:"name"`
	Role    string        `json:"role"`
	Labels  access.Labels `json:"labels,omitempty"`
	Created int64         `json:"created"` // unix ms
	By      string        `json:"by,omitempty"`
}

// keyOf returns the key of an entry. A key with an unreadable record has no role.
func keyOf(e document.Key) Key {
	k := Key{Digest: e.Digest, Expires: e.Expires, Used: e.Used}
	var r record
	err := json.Unmarshal(e.Record, &r)
	k.Name, k.Labels, k.By = r.Name, r.Labels, r.By
	if r.Created > 0 {
		k.Created = time.UnixMilli(r.Created)
	}
	if err == nil && r.Version == recordVersion {
		k.Role, _ = access.ParseRole(r.Role) // none if it is a role of a later version
	}
	return k
}

// ParseLife reads the life of a key: a number of days such as 90d, or a duration such as
// 12h. It does not check MinLife and MaxLife.
func ParseLife(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(digits, 10, 32)
		if err == nil && days > 0 && days < uint64(MaxLife/day)*2 {
			return time.Duration(days) * day, nil
		}
	} else if life, err := time.ParseDuration(text); err == nil && life > 0 {
		return life, nil
	}
	return 0, fmt.Errorf("must be a number of days such as 90d, or a duration such as 12h, is %q", text)
}

// prefix begins every key, so that people and scanners for leaked secrets recognise keys.
// A key is the prefix and 49 letters and digits: rounds_[0-9A-Za-z]{49}.
const prefix = "rounds_"

const (
	secretBytes  = 32 // 256 bits
	secretDigits = 43 // of base 62 that hold them
	sumDigits    = 6  // of base 62 that hold a CRC32
)

// Looks reports whether a text begins like a key.
func Looks(text string) bool { return strings.HasPrefix(text, prefix) }

// newText returns the text of a new key: the prefix, a random number, and the checksum of
// both.
func newText() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // returns no error: if it fails, the program ends
	body := prefix + digits(new(big.Int).SetBytes(secret), secretDigits)
	return body + checksum(body)
}

// wellFormed reports whether a text has the form and the checksum of a key. A key that was
// mistyped or cut off does not, so Redis need not be asked.
func wellFormed(text string) bool {
	if !Looks(text) || len(text) != len(prefix)+secretDigits+sumDigits {
		return false
	}
	body := text[:len(text)-sumDigits]
	return text[len(body):] == checksum(body)
}

func checksum(body string) string {
	return digits(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), sumDigits)
}

// digits returns a number as text of the given number of base-62 digits.
func digits(n *big.Int, width int) string {
	text := n.Text(62)
	return strings.Repeat("0", max(0, width-len(text))) + text
}

// digestOf returns the digest of a key that Redis stores. A key has 256 random bits and cannot be
// guessed, so a plain SHA-256 is enough.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
