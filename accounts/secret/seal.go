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

// MaxValue is the most bytes of a secret.
const MaxValue = 64 << 10

const (
	publicPrefix = "rounds-public-1_"
	sealInfo     = "rounds secret 1"
	keySize      = 32
	checkSize    = 4
)

// Suite returns the ciphersuite of all seals.
func Suite() (hpke.KEM, hpke.KDF, hpke.AEAD) {
	return hpke.DHKEM(ecdh.X25519()), hpke.HKDFSHA256(), hpke.ChaCha20Poly1305()
}

// ErrKey reports a text that is not a key. It does not quote the text.
var ErrKey = errors.New("is not a key: it must be as `rounds secret keygen` prints it")

// PublicKey seals secrets. It cannot open them.
type PublicKey struct {
	key hpke.PublicKey
	id  string
}

// NewPublicKey returns a PublicKey for the public part of a key pair.
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

// String returns the key as a text for a setting.
func (k *PublicKey) String() string { return EncodeKey(publicPrefix, k.key.Bytes()) }

// ID returns 16 hexadecimal digits that identify the key.
func (k *PublicKey) ID() string { return k.id }

// EncodeKey returns a key as text: the prefix, then the key's bytes and a checksum.
func EncodeKey(prefix string, raw []byte) string {
	sum := sha256.Sum256([]byte(prefix + string(raw)))
	return prefix + base64.RawURLEncoding.EncodeToString(append(raw[:len(raw):len(raw)], sum[:checkSize]...))
}

// DecodeKey returns the bytes of a key from the text that EncodeKey has returned for the
// prefix. The error is ErrKey.
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

// Record is the stored form of a sealed secret, as JSON.
type Record struct {
	Binding
	By     string `json:"by,omitempty"` // the name of the principal that stored it
	Key    string `json:"key"`          // the ID of the public key that sealed it
	Enc    []byte `json:"enc"`          // HPKE's encapsulated key
	Sealed []byte `json:"sealed"`
}

// Seal returns the record of a secret. The binding must be Normalized. The error is ErrName,
// or says what is wrong with the value.
func (k *PublicKey) Seal(name string, b Binding, by string, value []byte) (*Record, error) {
	if err := ValidateFullName(name); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if len(value) == 0 || len(value) > MaxValue {
		return nil, fmt.Errorf("secret %s: value: must have 1 to %d bytes, has %d", name, MaxValue, len(value))
	}
	r := &Record{Binding: b, By: by, Key: k.id}
	var err error
	if r.Enc, r.Sealed, err = k.seal(sealInfo, r.AdditionalData(name), value); err != nil {
		return nil, fmt.Errorf("secret %s: seal: %w", name, err)
	}
	return r, nil
}

// seal seals a value by HPKE: about is the additional data.
func (k *PublicKey) seal(info string, about, value []byte) (enc, sealed []byte, err error) {
	_, kdf, aead := Suite()
	enc, sender, err := hpke.NewSender(k.key, kdf, aead, []byte(info))
	if err != nil {
		return nil, nil, err
	}
	sealed, err = sender.Seal(about, value)
	return enc, sealed, err
}

// AdditionalData returns the additional data of the seal: the name and the binding.
func (r *Record) AdditionalData(name string) []byte {
	text, err := json.Marshal(struct {
		Name  string   `json:"name"`
		Hosts []string `json:"hosts"`
		Kinds []string `json:"kinds"`
	}{name, r.Hosts, r.Kinds})
	if err != nil {
		return nil // never happens: strings can always be encoded
	}
	return text
}

// Info returns the info parameter of HPKE for all seals.
func Info() []byte { return []byte(sealInfo) }
