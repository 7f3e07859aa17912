package fetch

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

// The limits of headers that a config may add to a request.
const (
	MaxHeaders     = 32
	MaxHeaderValue = 4 << 10 // bytes
)

// HeaderNameFault returns why a config must not add a header of this name, or an empty
// text if it may.
func HeaderNameFault(name string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "is not a header's name"
	case reserved(strings.ToLower(name)):
		return "is set by rounds itself"
	}
	return ""
}

// reserved reports whether a header would break the call or forge a signature.
func reserved(name string) bool {
	switch name {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
		"host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "proxy-")
}

// CredentialHeader reports whether the value of a header with this name looks like a
// secret.
func CredentialHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// ValidHeaderValue reports whether a value is one line of at most MaxHeaderValue bytes.
func ValidHeaderValue(value string) bool {
	return len(value) <= MaxHeaderValue && httpguts.ValidHeaderFieldValue(value)
}
