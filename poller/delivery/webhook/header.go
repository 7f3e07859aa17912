package webhook

import (
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// Header is sent with each delivery. It has a value or refers to a secret. A header that looks
// like a credential must refer to a secret.
type Header struct {
	Name   string
	Value  string
	Secret secrets.Ref
}

func checkHeaders(r *strict.Reader, headers []Header) {
	if len(headers) > fetch.MaxHeaders {
		r.Fault("headers", "must be at most "+strconv.Itoa(fetch.MaxHeaders))
		return
	}
	seen := make(map[string]bool)
	for _, h := range headers {
		lower := strings.ToLower(h.Name)
		field, name := "headers."+strict.Printable(h.Name), fetch.HeaderNameFault(h.Name)
		switch {
		case name != "":
			r.Fault(field, name)
		case seen[lower]:
			r.Fault(field, "comes twice")
		case h.Secret.IsZero() && fetch.CredentialHeader(lower):
			r.Fault(field, refFault(secrets.ErrNotReference))
		case !h.Secret.IsZero() && h.Value != "":
			r.Fault(field, "must have a value or refer to a secret, not both")
		case !fetch.ValidHeaderValue(h.Value):
			r.Fault(field, "must be one line of at most "+strconv.Itoa(fetch.MaxHeaderValue)+" bytes")
		}
		seen[lower] = true
	}
}
