package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// maxKey is the most bytes of a key, by the specification.
const maxKey = 64

var errKey = errors.New("must be the base64 of 24 to 64 bytes, with or without whsec_ before it")

// signer has an endpoint's resolved secrets.
type signer struct {
	keys   []*fetch.SigningKey
	header http.Header
	kind   string // of the body
	open   bool   // some secrets are sent, and not over TLS

	hidden []string // what no text may show: the values of its secrets, and what its URL has behind the host
}

// resolve finds an endpoint's secrets. An error names a secret, never its value. All of them are
// needed: a receiver that verifies with the missing one would refuse messages that only the others
// signed.
func resolve(ctx context.Context, e Endpoint, source secrets.Source) (*signer, error) {
	use := secrets.ForURL(secrets.KindWebhook, e.URL)
	s := &signer{header: make(http.Header), kind: e.Format.ContentType()}
	if at, err := url.Parse(e.URL); err == nil {
		s.hidden = append(s.hidden, e.URL, at.RequestURI(), at.Path, at.RawQuery)
	}
	for _, ref := range e.Secrets {
		value, err := source.Get(ctx, ref.Name, use.Staying())
		if err != nil {
			return nil, err
		}
		key, err := fetch.ParseSigningKey(value)
		if err != nil || key.Size() > maxKey {
			return nil, fmt.Errorf("secret %s: %w", ref.Name, errKey)
		}
		s.keys, s.hidden = append(s.keys, key), append(s.hidden, value, strings.TrimPrefix(value, "whsec_"))
	}
	for _, h := range e.Headers {
		value := h.Value
		if !h.Secret.IsZero() {
			var err error
			if value, err = source.Get(ctx, h.Secret.Name, use); err != nil {
				return nil, err
			}
			s.open = use.Open()
			s.hidden = append(s.hidden, value)
			if _, bare, scheme := strings.Cut(value, " "); scheme { // Bearer TOKEN
				s.hidden = append(s.hidden, bare)
			}
			if !fetch.ValidHeaderValue(value) {
				return nil, fmt.Errorf("secret %s: must be one line of at most %d bytes to be a header", h.Secret.Name, fetch.MaxHeaderValue)
			}
		}
		s.header.Set(h.Name, value)
	}
	return s, nil
}

// Misplaced returns an error for each of the endpoints' references to a secret that is stored where
// any record could name it; see secrets.ErrMisplaced. Each error has its field, as in
// endpoints[0].secrets[1]. A secret that is missing altogether is no fault: it may come later.
func Misplaced(ctx context.Context, endpoints []Endpoint, source secrets.Source) error {
	var errs []error
	for i, e := range endpoints {
		at := secrets.ForURL(secrets.KindWebhook, e.URL)
		for _, u := range e.Uses() {
			use := at
			if !u.Sent {
				use = use.Staying()
			}
			if _, err := source.Get(ctx, u.Name, use); errors.Is(err, secrets.ErrMisplaced) {
				errs = append(errs, fmt.Errorf("endpoints[%d].%s: %w", i, u.Field, err))
			}
		}
	}
	return errors.Join(errs...)
}

// sign returns the header of an attempt made now. about are further headers.
func (s *signer) sign(id string, now time.Time, body []byte, about map[string]string) (http.Header, error) {
	header := s.header.Clone()
	for name, value := range about {
		header.Set(name, value)
	}
	header.Set("Content-Type", s.kind)
	if err := fetch.Sign(header, id, now, body, s.keys...); err != nil {
		return nil, errKey
	}
	return header, nil
}
