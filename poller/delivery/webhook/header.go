package webhook

import (
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/rounds-dev/rounds/poller/checkers/secrets"
)

const (
	maxHeaders     = 32
	maxHeaderValue = 4 << 10 // bytes
)

// Header is sent with each delivery. It has a value or refers to a secret; what
// looks like a credential must do the latter.
type Header struct {
	Name   string
	Value  string
	Secret secrets.Ref
}

func checkHeaders(f *faults, headers []Header) {
	if len(headers) > maxHeaders {
		f.add("headers", "must be at most "+strconv.Itoa(maxHeaders))
		return
	}
	seen := make(map[string]bool)
	for _, h := range headers {
		lower := strings.ToLower(h.Name)
		field := "headers." + printable(h.Name)
		switch {
		case !httpguts.ValidHeaderFieldName(h.Name):
			f.add(field, "is not a header's name")
		case reserved(lower):
			f.add(field, "is set by rounds itself")
		case seen[lower]:
			f.add(field, "is there twice")
		case h.Secret.IsZero() && credential(lower):
			f.add(field, secrets.ErrNotReference.Error())
		case !h.Secret.IsZero() && h.Value != "":
			f.add(field, "must have a value or refer to a secret, not both")
		case !validValue(h.Value):
			f.add(field, "must be one line of at most "+strconv.Itoa(maxHeaderValue)+" bytes")
		}
		seen[lower] = true
	}
}

func validValue(value string) bool {
	return len(value) <= maxHeaderValue && httpguts.ValidHeaderFieldValue(value)
}

// reserved reports headers that would break the call or forge a signature.
func reserved(name string) bool {
	switch name {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
		"host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "proxy-")
}

// credential reports headers whose values are secrets by all appearance.
func credential(name string) bool {
	for _, part := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
