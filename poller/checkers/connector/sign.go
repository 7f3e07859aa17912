package connector

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

// minKey is the least that Standard Webhooks allows.
const minKey = 24

var errKey = errors.New("must be the base64 of 24 bytes or more, with or without whsec_ before it")

// resolved is what a config is once its secrets are known.
type resolved struct {
	webhook *standardwebhooks.Webhook // nil: not signed
	headers http.Header
	values  []string // of all secrets: none may appear in a text that leaves
}

// resolve finds a config's secrets. An error names one, never its value.
func (c config) resolve(source secrets.Source) (resolved, error) {
	r := resolved{headers: http.Header{}}
	if !c.signing.IsZero() {
		value, err := source.Get(c.signing.Name)
		if err != nil {
			return resolved{}, err
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(value, "whsec_"))
		if err != nil || len(key) < minKey {
			return resolved{}, fmt.Errorf("secret %s: %w", c.signing.Name, errKey)
		}
		if r.webhook, err = standardwebhooks.NewWebhookRaw(key); err != nil {
			return resolved{}, fmt.Errorf("secret %s: %w", c.signing.Name, errKey)
		}
		r.values = append(r.values, value)
	}
	for _, h := range c.headers {
		value := h.value
		if !h.ref.IsZero() {
			var err error
			if value, err = source.Get(h.ref.Name); err != nil {
				return resolved{}, err
			}
			if !fetch.ValidHeaderValue(value) {
				return resolved{}, fmt.Errorf("secret %s: must be one line of at most %d bytes to be a header", h.ref.Name, fetch.MaxHeaderValue)
			}
			r.values = append(r.values, value)
		}
		r.headers.Set(h.name, value)
	}
	return r, nil
}

// header gives a request's header. The webhook id is the check's: it is the same
// for all pages and retries of one claim, and tells a connector which requests
// belong together, not that one came twice.
func (r resolved) header(checkID string, now time.Time, body []byte) (http.Header, error) {
	header := r.headers.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	header.Set(standardwebhooks.HeaderWebhookID, checkID)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if r.webhook == nil {
		return header, nil
	}
	signature, err := r.webhook.Sign(checkID, now, body)
	if err != nil {
		return nil, errKey
	}
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return header, nil
}
