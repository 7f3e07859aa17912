package secrets

import (
	"crypto/hpke"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/secret"
)

// This file opens secrets that are stored sealed in Redis, with a private key. The API does not
// import this package.

const (
	privatePrefix = "rounds-private-1_"
	maxKeys       = 16
)

var (
	// errSeal reports a seal that does not open: the value, the name or the binding was
	// changed after it was sealed.
	errSeal = errors.New("its seal is broken: somebody else has changed it in Redis; set it again")
	// errNoKey reports a secret that is sealed for a key that this process does not have.
	errNoKey = errors.New("is sealed for a key that this process does not have in ROUNDS_SECRETS_KEY")
)

// Key is a private key.
type Key struct {
	private hpke.PrivateKey
	public  *secret.PublicKey
}

// Generate returns a new random key.
func Generate() (*Key, error) {
	kem, _, _ := secret.Suite()
	private, err := kem.GenerateKey()
	if err != nil {
		return nil, err
	}
	return keyOf(private), nil
}

func keyOf(private hpke.PrivateKey) *Key {
	return &Key{private, secret.NewPublicKey(private.PublicKey())}
}

// Public returns the public key that seals secrets for this key.
func (k *Key) Public() *secret.PublicKey { return k.public }

// Text returns the key as text for a setting. The text must stay secret.
func (k *Key) Text() (string, error) {
	raw, err := k.private.Bytes()
	if err != nil {
		return "", err
	}
	return secret.EncodeKey(privatePrefix, raw), nil
}

// Keys are the private keys of a process, the newest first.
type Keys []*Key

// ParseKeys reads keys in the form of Text, separated by commas or white space. The error says
// which key is wrong, and quotes none.
func ParseKeys(text string) (Keys, error) {
	fields := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r' })
	if len(fields) > maxKeys {
		return nil, fmt.Errorf("must be at most %d keys", maxKeys)
	}
	kem, _, _ := secret.Suite()
	var keys Keys
	for i, field := range fields {
		raw, err := secret.DecodeKey(privatePrefix, field)
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, err)
		}
		private, err := kem.NewPrivateKey(raw)
		if err != nil {
			return nil, fmt.Errorf("key %d %w", i+1, secret.ErrKey)
		}
		keys = append(keys, keyOf(private))
	}
	return keys, nil
}

// Newest returns the key for which secrets are sealed from now on, or nil if there is none.
func (k Keys) Newest() *secret.PublicKey {
	if len(k) == 0 {
		return nil
	}
	return k[0].public
}

// Opens reports whether one of the keys opens secrets sealed for a public key.
func (k Keys) Opens(public *secret.PublicKey) bool {
	return k.Has(public.ID())
}

// open returns the secret in the record of a name.
func (k Keys) open(name string, r *secret.Record) ([]byte, error) {
	return k.openWith(r.Key, r.Enc, secret.Info(), r.AdditionalData(name), r.Sealed)
}

// OpenBox returns what a box holds that was sealed with the same about. The error is errSeal or
// errNoKey.
func (k Keys) OpenBox(about string, b *secret.Box) ([]byte, error) {
	return k.openWith(b.Key, b.Enc, secret.BoxInfo(), []byte(about), b.Sealed)
}

// Has reports whether one of the keys has an id.
func (k Keys) Has(id string) bool {
	return slices.ContainsFunc(k, func(key *Key) bool { return key.public.ID() == id })
}

// openWith opens something that was sealed for the key with an id.
func (k Keys) openWith(id string, enc, info, additional, sealed []byte) ([]byte, error) {
	for _, key := range k {
		if key.public.ID() != id {
			continue
		}
		_, kdf, aead := secret.Suite()
		recipient, err := hpke.NewRecipient(enc, key.private, kdf, aead, info)
		if err != nil {
			return nil, errSeal
		}
		value, err := recipient.Open(additional, sealed)
		if err != nil {
			return nil, errSeal
		}
		return value, nil
	}
	return nil, errNoKey
}
