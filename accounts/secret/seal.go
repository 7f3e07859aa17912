package secret

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxValue is how many bytes a secret may have.
const MaxValue = 64 << 10

const (
	publicPrefix = "rounds-public-1_"
	sealInfo     = "rounds secret 1"
	keySize      = 32
	checkSize    = 4
)

// Suite is the ciphersuite of all seals.
func Suite() (hpke.KEM, hpke.KDF, hpke.AEAD) {
	return hpke.DHKEM(ecdh.X25519()), hpke.HKDFSHA256(), hpke.ChaCha20Poly1305()
}

// ErrKey reports a text that is no key. It does not quote it.
var ErrKey = errors.New("is not a key: it must be as `rounds secret keygen` prints it")

// PublicKey seals secrets, and opens none.
type PublicKey struct {
	key hpke.PublicKey
	id  string
}

// NewPublicKey is the public part of a key pair.
func NewPublicKey(key hpke.PublicKey) *PublicKey {
	sum := sha256.Sum256(key.Bytes())
	return &PublicKey{key, hex.EncodeToString(sum[:8])}
}

// ParsePublicKey reads a key as String writes it. The error is ErrKey.
func ParsePublicKey(text string) (*PublicKey, error) {
	raw, err := DecodeKey(publicPrefix, text)
	if err != nil {
		return nil, err
	}
	kem, _, _ := Suite()
	key, err := kem.NewPublicKey(raw)
	if err != nil {
		return nil, ErrKey
	}
	return NewPublicKey(key), nil
}

// String writes the key, for a setting.
func (k *PublicKey) String() string { return EncodeKey(publicPrefix, k.key.Bytes()) }

// ID tells keys apart: 16 hexadecimal digits.
func (k *PublicKey) ID() string { return k.id }

// EncodeKey writes a key's bytes behind a prefix, with a checksum.
func EncodeKey(prefix string, raw []byte) string {
	sum := sha256.Sum256([]byte(prefix + string(raw)))
	return prefix + base64.RawURLEncoding.EncodeToString(append(raw[:len(raw):len(raw)], sum[:checkSize]...))
}

// DecodeKey reads what EncodeKey has written with the prefix. The error is ErrKey.
func DecodeKey(prefix, text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), prefix)
	all, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if !ok || err != nil || len(all) != keySize+checkSize {
		return nil, ErrKey
	}
	if EncodeKey(prefix, all[:keySize]) != strings.TrimSpace(text) {
		return nil, ErrKey
	}
	return all[:keySize], nil
}

// Record is a sealed secret as it is kept, in JSON.
type Record struct {
	Binding
	By     string `json:"by,omitempty"` // who put it in
	Key    string `json:"key"`          // the ID of the key that it is sealed for
	Enc    []byte `json:"enc"`          // HPKE's encapsulated key
	Sealed []byte `json:"sealed"`
}

// Seal makes the record of a secret. The binding must be Normalized. It returns ErrName, or
// what is wrong with the value.
func (k *PublicKey) Seal(name string, b Binding, by string, value []byte) (*Record, error) {
	if err := ValidateFullName(name); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if len(value) == 0 || len(value) > MaxValue {
		return nil, fmt.Errorf("secret %s: value: must have 1 to %d bytes, has %d", name, MaxValue, len(value))
	}
	_, kdf, aead := Suite()
	enc, sender, err := hpke.NewSender(k.key, kdf, aead, []byte(sealInfo))
	if err != nil {
		return nil, fmt.Errorf("secret %s: seal: %w", name, err)
	}
	r := &Record{Binding: b, By: by, Key: k.id, Enc: enc}
	if r.Sealed, err = sender.Seal(r.AdditionalData(name), value); err != nil {
		return nil, fmt.Errorf("secret %s: seal: %w", name, err)
	}
	return r, nil
}

// AdditionalData is what a seal holds besides the value: the name and the binding.
func (r *Record) AdditionalData(name string) []byte {
	text, err := json.Marshal(struct {
		Name  string   `json:"name"`
		Hosts []string `json:"hosts"`
		Kinds []string `json:"kinds"`
	}{name, r.Hosts, r.Kinds})
	if err != nil {
		return nil // strings alone can always be written
	}
	return text
}

// Info is HPKE's info of all seals.
func Info() []byte { return []byte(sealInfo) }
