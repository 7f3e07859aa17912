package fetch

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// This file signs requests by Standard Webhooks: checks for a connector and
// messages for a webhook. It resolves no secrets, sends nothing, and verifies no
// signatures.
//
// See https://www.standardwebhooks.com.

// The headers of a signed request.
const (
	HeaderID        = standardwebhooks.HeaderWebhookID
	HeaderTimestamp = standardwebhooks.HeaderWebhookTimestamp
	HeaderSignature = standardwebhooks.HeaderWebhookSignature
)

// MinKey is the least number of bytes of a key.
const MinKey = 24

// ErrKey reports a text that is not a key.
var ErrKey = errors.New("must be the base64 of 24 bytes or more, with or without whsec_ before it")

// SigningKey is the secret that both ends of a request share.
type SigningKey struct {
	webhook *standardwebhooks.Webhook
	raw     []byte
}

// ParseSigningKey reads the base64 of a key, with or without whsec_ before it. The error is
// ErrKey.
func ParseSigningKey(text string) (*SigningKey, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil {
		return nil, ErrKey
	}
	return NewSigningKey(raw)
}

// NewSigningKey returns a key with the given bytes. The error is ErrKey.
func NewSigningKey(raw []byte) (*SigningKey, error) {
	if len(raw) < MinKey {
		return nil, ErrKey
	}
	webhook, err := standardwebhooks.NewWebhookRaw(raw)
	if err != nil {
		return nil, ErrKey
	}
	return &SigningKey{webhook: webhook, raw: bytes.Clone(raw)}, nil
}

// Size returns the key's length in bytes.
func (k *SigningKey) Size() int { return len(k.raw) }

// Sign sets the headers of a request: its id, its time, to the second, and one signature
// for each key. Without keys it sets no signature.
func Sign(header http.Header, id string, at time.Time, body []byte, keys ...*SigningKey) error {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		var err error
		if signatures[i], err = key.webhook.Sign(id, at, body); err != nil {
			return err
		}
	}
	setSigned(header, id, at, signatures)
	return nil
}

// SignStream is Sign for a body that is read while it is sent. It reads the body once. Its error is the
// body's.
func SignStream(ctx context.Context, header http.Header, id string, at time.Time, body *Stream, keys ...*SigningKey) error {
	sums := make([]hash.Hash, len(keys))
	to := make([]io.Writer, len(keys))
	for i, key := range keys {
		sums[i] = hmac.New(sha256.New, key.raw)
		to[i] = sums[i]
		_, _ = fmt.Fprintf(sums[i], "%s.%d.", id, at.Unix()) // a hash never fails
	}
	if len(keys) > 0 {
		from, err := body.Open(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was only read
		switch n, err := io.Copy(io.MultiWriter(to...), from); {
		case err != nil:
			return err
		case n != body.Length:
			return io.ErrUnexpectedEOF
		}
	}
	signatures := make([]string, len(keys))
	for i, sum := range sums {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	}
	setSigned(header, id, at, signatures)
	return nil
}

func setSigned(header http.Header, id string, at time.Time, signatures []string) {
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(signatures) > 0 {
		header.Set(HeaderSignature, strings.Join(signatures, " "))
	}
}
