package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/rounds-dev/rounds/circulate/credential"
)

// Key seals the access tokens of one secret.
//
// The key is derived from the secret by HKDF-SHA-256 (RFC 5869), for one owner alone. The seal is
// AES-256-GCM with a random nonce in front. Without the secret, a reader of Redis can neither read
// a token nor replace it. The credential's name is derived in the same way. It reveals nothing
// about the secret, and another secret has another credential.
type Key struct {
	ref  credential.Ref
	aead cipher.AEAD
}

// NewKey returns the key for an owner's secret. The salt separates the uses of a secret.
func NewKey(secret, salt, owner string) (*Key, error) {
	derive := func(use string) ([]byte, error) {
		return hkdf.Key(sha256.New, []byte(secret), []byte(salt), use+"|"+owner, 32)
	}
	name, err := derive("name")
	if err != nil {
		return nil, err
	}
	key, err := derive("seal")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	k := &Key{ref: credential.Ref{Owner: owner, Name: hex.EncodeToString(name)}}
	k.aead, err = cipher.NewGCM(block)
	return k, err
}

// Ref names the token for all replicas.
func (k *Key) Ref() credential.Ref { return k.ref }

// Seal seals a token.
func (k *Key) Seal(token string) []byte {
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(token)+k.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return k.aead.Seal(nonce, nonce, []byte(token), []byte(k.ref.Name))
}

// Unseal returns the token that Seal has sealed.
func (k *Key) Unseal(sealed []byte) (string, error) {
	size := k.aead.NonceSize()
	if len(sealed) < size {
		return "", errors.New("too short to be sealed")
	}
	token, err := k.aead.Open(nil, sealed[:size], sealed[size:], []byte(k.ref.Name))
	return string(token), err
}
