package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/signing"
)

// maxKey is how many bytes a key may have, as the spec says.
const maxKey = 64

var errKey = errors.New("must be the base64 of 24 to 64 bytes, with or without whsec_ before it")

// signer is what an endpoint's deliveries need of its secrets.
type signer struct {
	keys   []*signing.Key
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
		key, err := signing.ParseKey(value)
		if err != nil || key.Size() > maxKey {
			return nil, fmt.Errorf("secret %s: %w", ref.Name, errKey)
		}
		s.keys = append(s.keys, key)
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

// sign returns the header of an attempt made now.
func (s *signer) sign(id string, now time.Time, body []byte) (http.Header, error) {
	header := s.header.Clone()
	header.Set("Content-Type", "application/json")
	if err := signing.Sign(header, id, now, body, s.keys...); err != nil {
		return nil, errKey
	}
	return header, nil
}
