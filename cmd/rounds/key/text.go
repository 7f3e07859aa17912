package key

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"
)

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
