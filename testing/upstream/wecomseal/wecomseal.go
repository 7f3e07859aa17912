// Package wecomseal makes the callbacks that WeCom sends, for tests.
package wecomseal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
)

const (
	block  = 32 // plaintext is padded to a multiple of it
	random = 16 // bytes in front of the length
)

// Crypt is a Crypt of package wecomcrypt that encrypts too.
type Crypt struct {
	*wecomcrypt.Crypt
	block    cipher.Block
	iv       []byte
	receiver string
}

// New is wecomcrypt.New.
func New(token, encodingAESKey, receiver string) (*Crypt, error) {
	c, err := wecomcrypt.New(token, encodingAESKey, receiver)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(encodingAESKey + "=")
	if err != nil {
		return nil, err
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return &Crypt{c, b, key[:aes.BlockSize], receiver}, nil
}

// Encrypt returns the encrypted text of a message.
func (c *Crypt) Encrypt(message []byte) string {
	var salt [random]byte
	_, _ = rand.Read(salt[:]) // never fails
	text := binary.BigEndian.AppendUint32(salt[:], uint32(len(message)))
	text = append(append(text, message...), c.receiver...)
	pad := block - len(text)%block
	for range pad {
		text = append(text, byte(pad))
	}
	cipher.NewCBCEncrypter(c.block, c.iv).CryptBlocks(text, text)
	return base64.StdEncoding.EncodeToString(text)
}

// Seal returns the callback of an event: the query and the body of a POST.
func (c *Crypt) Seal(e wecomcrypt.Event, nonce string, now time.Time) (query url.Values, body []byte, err error) {
	message, err := xml.Marshal(e)
	if err != nil {
		return nil, nil, fmt.Errorf("wecomseal: %w", err)
	}
	encrypted := c.Encrypt(message)
	body, err = xml.Marshal(struct {
		XMLName    xml.Name `xml:"xml"`
		ToUserName string   `xml:"ToUserName"`
		Encrypt    string   `xml:"Encrypt"`
	}{ToUserName: e.ToUserName, Encrypt: encrypted})
	if err != nil {
		return nil, nil, fmt.Errorf("wecomseal: %w", err)
	}
	return c.query(encrypted, nonce, now), body, nil
}

// SealEcho returns the query of the GET with which WeCom verifies an address.
func (c *Crypt) SealEcho(echo, nonce string, now time.Time) url.Values {
	encrypted := c.Encrypt([]byte(echo))
	query := c.query(encrypted, nonce, now)
	query.Set("echostr", encrypted)
	return query
}

func (c *Crypt) query(encrypted, nonce string, now time.Time) url.Values {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	return url.Values{
		"msg_signature": {c.Sign(timestamp, nonce, encrypted)}, "timestamp": {timestamp}, "nonce": {nonce},
	}
}
