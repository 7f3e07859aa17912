package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/poller/checkers/fetch"
	"github.com/rounds-dev/rounds/poller/checkers/secrets"
)

// The sizes of a key that the spec allows, in bytes.
const (
	minKey = 24
	maxKey = 64
)

var errKey = errors.New("must be the base64 of 24 to 64 bytes, with or without whsec_ before it")

// signer is what an endpoint's deliveries need of its secrets.
type signer struct {
	keys   []*standardwebhooks.Webhook
	header http.Header
}

// resolve finds an endpoint's secrets. An error names one, never its value. It
// takes all or none: who verifies with the one that is missing would refuse
// what the others signed.
func resolve(e Endpoint, source secrets.Source) (*signer, error) {
	s := &signer{header: make(http.Header)}
	for _, ref := range e.Secrets {
		value, err := source.Get(ref.Name)
		if err != nil {
			return nil, err
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(value, "whsec_"))
		if err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("secret %s: %w", ref.Name, errKey)
		}
		webhook, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", ref.Name, errKey)
		}
		s.keys = append(s.keys, webhook)
	}
	for _, h := range e.Headers {
		value := h.Value
		if !h.Secret.IsZero() {
			var err error
			if value, err = source.Get(h.Secret.Name); err != nil {
				return nil, err
			}
			if !fetch.ValidHeaderValue(value) {
				return nil, fmt.Errorf("secret %s: must be one line of at most %d bytes to be a header", h.Secret.Name, fetch.MaxHeaderValue)
			}
		}
		s.header.Set(h.Name, value)
	}
	return s, nil
}

// sign gives the header of an attempt made now.
func (s *signer) sign(id string, now time.Time, body []byte) (http.Header, error) {
	signatures := make([]string, len(s.keys))
	for i, key := range s.keys {
		var err error
		if signatures[i], err = key.Sign(id, now, body); err != nil {
			return nil, errKey
		}
	}
	header := s.header.Clone()
	header.Set("Content-Type", "application/json")
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return header, nil
}
