package wecomkf

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// grant holds what an access token is fetched with, and sealed with.
//
// The key is derived from the secret by HKDF-SHA-256 (RFC 5869), for this corp and
// base URL alone. The seal is AES-256-GCM with a random nonce in front. A reader of
// Redis without the secret can neither read a token nor replace it by another. The
// credential's name is derived in the same way. It tells nothing about the secret,
// and another secret has another credential.
type grant struct {
	base, corp string
	secretName string // for people
	secret     string
	open       bool // requests are sent without TLS
	ref        credential.Ref
	aead       cipher.AEAD
}

func newGrant(c config, secret string) (*grant, error) {
	g := &grant{base: c.baseURL, corp: c.corp, secretName: c.secret.Name, secret: secret, open: secrets.ForURL(Kind, c.baseURL).Open()}
	g.ref.Owner = Kind + "|" + c.corp + "|" + c.baseURL
	derive := func(use string) ([]byte, error) {
		return hkdf.Key(sha256.New, []byte(secret), []byte("rounds "+Kind+" 1"), use+"|"+g.ref.Owner, 32)
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
	if g.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	g.ref.Name = hex.EncodeToString(name)
	return g, nil
}

func (g *grant) seal(token string) []byte {
	nonce := make([]byte, g.aead.NonceSize(), g.aead.NonceSize()+len(token)+g.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return g.aead.Seal(nonce, nonce, []byte(token), []byte(g.ref.Name))
}

func (g *grant) unseal(sealed []byte) (string, error) {
	size := g.aead.NonceSize()
	if len(sealed) < size {
		return "", errors.New("too short to be sealed")
	}
	token, err := g.aead.Open(nil, sealed[:size], sealed[size:], []byte(g.ref.Name))
	return string(token), err
}
