package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

const (
	sealedToken = "sealed-1." // begins a sealed token; the id of the key and the sealed text follow
	tokenInfo   = "rounds window token 1"
)

// SealToken seals a token that the outbox keeps with the window of an account's peer. It is
// kept for a day or two, and there is one for each message, so a key derived from the newest
// private key seals it. Without a key it stays as it is.
func (o *Opener) SealToken(account, token string) (string, error) {
	keys := *o.keys.Load()
	if len(keys) == 0 {
		return token, nil
	}
	aead, err := keys[0].tokenCipher()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(token)+aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return sealedToken + keys[0].public.ID() + "." + base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(token), []byte(account))), nil
}

// OpenToken returns the token that SealToken has sealed. A token that is not sealed stays as it is.
// The error says that no key opens it, or that somebody has changed it.
func (o *Opener) OpenToken(account, sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, sealedToken)
	if !ok {
		return sealed, nil
	}
	id, text, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", errSeal
	}
	for _, key := range *o.keys.Load() {
		if key.public.ID() != id {
			continue
		}
		aead, err := key.tokenCipher()
		if err != nil {
			return "", err
		}
		if len(raw) < aead.NonceSize() {
			return "", errSeal
		}
		token, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(account))
		if err != nil {
			return "", errSeal
		}
		return string(token), nil
	}
	return "", errNoKey
}

// tokenCipher returns what seals tokens under the key.
func (k *Key) tokenCipher() (cipher.AEAD, error) {
	private, err := k.private.Bytes()
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	derived, err := hkdf.Key(sha256.New, private, nil, tokenInfo, 32)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return cipher.NewGCM(block)
}
