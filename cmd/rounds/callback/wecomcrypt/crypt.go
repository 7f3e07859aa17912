// Package wecomcrypt reads the encrypted callbacks of WeCom (企业微信): the
// signature, the encryption, and the events inside.
//
// The protocol is WeCom's own, "Encryption and decryption scheme" and "Callback
// configuration" (https://developer.work.weixin.qq.com/document/path/90968 and
// path/90930). A callback has msg_signature, timestamp and nonce in its query and
// an encrypted text, base64, in its body or, when the address is verified, in
// the query's echostr.
//
//	signature  SHA-1, in hexadecimal, of token, timestamp, nonce and encrypted text, sorted and joined
//	encrypted  AES-256-CBC of random(16) | length of message(4, big-endian) | message | receiver,
//	           padded as in PKCS #7 but to 32 bytes; the IV is the key's first 16 bytes
//	key        the 43 characters of EncodingAESKey, base64 without its padding
//
// The signature covers the encrypted text and is checked first. So a caller that does not
// know the token learns nothing about the result of the decryption.
package wecomcrypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

const (
	// MaxEncrypted is the most bytes that an encrypted text may have, in base64.
	MaxEncrypted = 64 << 10

	keyLength = 43 // of an EncodingAESKey
	block     = 32 // plaintext is padded to a multiple of it
	random    = 16 // bytes in front of the length
	maxToken  = 32
)

var (
	// ErrSignature reports a callback that was not signed with the token.
	ErrSignature = errors.New("wecomcrypt: the signature is wrong")
	// ErrText reports an encrypted text that is signed but cannot be read: it was encrypted
	// with another key, or is malformed.
	ErrText = errors.New("wecomcrypt: the encrypted text cannot be read")
	// ErrReceiver reports a callback that is meant for another corporation.
	ErrReceiver = errors.New("wecomcrypt: it is meant for another receiver")

	// ErrToken reports a text that cannot be one of WeCom's tokens.
	ErrToken = errors.New("must be 1 to 32 letters and digits")
	// ErrKey reports a text that cannot be one of WeCom's keys.
	ErrKey = errors.New("must be an EncodingAESKey: 43 letters and digits")
)

// Crypt has the secrets that a callback address shares with WeCom. It is safe for concurrent
// use.
type Crypt struct {
	token    string
	block    cipher.Block
	iv       []byte
	receiver string
}

// New returns a Crypt from a token, an EncodingAESKey, and the corp id that callbacks are
// meant for. It returns ErrToken or ErrKey, which never have the value.
func New(token, encodingAESKey, receiver string) (*Crypt, error) {
	if err := ValidateToken(token); err != nil {
		return nil, err
	}
	key, err := decodeKey(encodingAESKey)
	if err != nil {
		return nil, err
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, ErrKey
	}
	return &Crypt{token: token, block: b, iv: key[:aes.BlockSize], receiver: receiver}, nil
}

// ValidateToken returns ErrToken for a text that cannot be one of WeCom's tokens.
func ValidateToken(token string) error {
	if len(token) < 1 || len(token) > maxToken || strings.ContainsFunc(token, notAlphanumeric) {
		return ErrToken
	}
	return nil
}

// ValidateKey returns ErrKey for a text that cannot be an EncodingAESKey.
func ValidateKey(encodingAESKey string) error {
	_, err := decodeKey(encodingAESKey)
	return err
}

// decodeKey ignores the two surplus bits of 43 characters, because WeCom's own keys set them.
func decodeKey(text string) ([]byte, error) {
	if len(text) != keyLength || strings.ContainsFunc(text, notAlphanumeric) {
		return nil, ErrKey
	}
	key, err := base64.StdEncoding.DecodeString(text + "=")
	if err != nil || len(key) != 32 {
		return nil, ErrKey
	}
	return key, nil
}

func notAlphanumeric(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// Sign returns the signature of an encrypted text.
func (c *Crypt) Sign(timestamp, nonce, encrypted string) string {
	parts := []string{c.token, timestamp, nonce, encrypted}
	slices.Sort(parts)
	sum := sha1.Sum([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(sum[:])
}

// Open verifies a callback and returns the message in its encrypted text. It returns
// ErrSignature for a possible forgery, and otherwise ErrText or ErrReceiver.
func (c *Crypt) Open(signature, timestamp, nonce, encrypted string) ([]byte, error) {
	want := c.Sign(timestamp, nonce, encrypted)
	if subtle.ConstantTimeCompare([]byte(want), []byte(signature)) != 1 {
		return nil, ErrSignature
	}
	return c.Decrypt(encrypted)
}

// Decrypt returns the message in an encrypted text without checking a signature. Call Open
// for texts that come from outside. It returns ErrText or ErrReceiver.
func (c *Crypt) Decrypt(encrypted string) ([]byte, error) {
	// The decoder would ignore line ends. A signed text has none.
	if len(encrypted) > MaxEncrypted || strings.ContainsAny(encrypted, "\r\n") {
		return nil, ErrText
	}
	text, err := base64.StdEncoding.Strict().DecodeString(encrypted)
	if err != nil || len(text) == 0 || len(text)%aes.BlockSize != 0 {
		return nil, ErrText
	}
	cipher.NewCBCDecrypter(c.block, c.iv).CryptBlocks(text, text)
	pad := int(text[len(text)-1])
	if pad < 1 || pad > block || pad > len(text) {
		return nil, ErrText
	}
	for _, b := range text[len(text)-pad:] {
		if int(b) != pad {
			return nil, ErrText
		}
	}
	text = text[:len(text)-pad]
	if len(text) < random+4 {
		return nil, ErrText
	}
	length, rest := binary.BigEndian.Uint32(text[random:]), text[random+4:]
	if uint64(length) > uint64(len(rest)) {
		return nil, ErrText
	}
	if subtle.ConstantTimeCompare(rest[length:], []byte(c.receiver)) != 1 {
		return nil, ErrReceiver
	}
	return rest[:length:length], nil
}
