// Package signing signs requests as Standard Webhooks says: checks that go to a
// connector, and messages that go to a webhook. It reads no secret and sends nothing,
// and what comes back is for others to verify.
//
// See https://www.standardwebhooks.com.
package signing

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The headers of a signed request.
const (
	HeaderID        = standardwebhooks.HeaderWebhookID
	HeaderTimestamp = standardwebhooks.HeaderWebhookTimestamp
	HeaderSignature = standardwebhooks.HeaderWebhookSignature
)

// MinKey is how many bytes a key has at least.
const MinKey = 24

// ErrKey reports a text that is no key.
var ErrKey = errors.New("must be the base64 of 24 bytes or more, with or without whsec_ before it")

// Key is what both ends of a request share.
type Key struct {
	webhook *standardwebhooks.Webhook
	size    int
}

// ParseKey reads the base64 of a key, with or without whsec_ before it. The error is
// ErrKey.
func ParseKey(text string) (*Key, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil {
		return nil, ErrKey
	}
	return NewKey(raw)
}

// NewKey makes a key of its bytes. The error is ErrKey.
func NewKey(raw []byte) (*Key, error) {
	if len(raw) < MinKey {
		return nil, ErrKey
	}
	webhook, err := standardwebhooks.NewWebhookRaw(raw)
	if err != nil {
		return nil, ErrKey
	}
	return &Key{webhook: webhook, size: len(raw)}, nil
}

// Size is how many bytes the key has.
func (k *Key) Size() int { return k.size }

// Sign sets a request's id, its time and one signature of each key. Without a key it
// sets no signature.
func Sign(header http.Header, id string, at time.Time, body []byte, keys ...*Key) error {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		var err error
		if signatures[i], err = key.webhook.Sign(id, at, body); err != nil {
			return err
		}
	}
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(signatures) > 0 {
		header.Set(HeaderSignature, strings.Join(signatures, " "))
	}
	return nil
}
