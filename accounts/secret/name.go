package secret

import (
	"errors"
	"strings"
)

// ServicePrefix begins the names of the service's own secrets, for callbacks and
// webhooks. No account's record can refer to one, because names in records have no dot.
const ServicePrefix = "service."

// ErrName reports a text that cannot be a secret's name. It does not quote the text, which
// may be the secret itself.
var ErrName = errors.New("is not a name: only A-Z a-z 0-9 _ - are allowed, 1 to 64 of them")

// ValidateName checks a name to which a record, a webhook or a callback refers. The error is
// ErrName.
func ValidateName(name string) error {
	if len(name) < 1 || len(name) > 64 {
		return ErrName
	}
	for _, char := range []byte(name) {
		switch {
		case 'a' <= char && char <= 'z', 'A' <= char && char <= 'Z', '0' <= char && char <= '9', char == '_', char == '-':
		default:
			return ErrName
		}
	}
	return nil
}

// ValidateFullName is ValidateName for a name that may begin with ServicePrefix.
func ValidateFullName(name string) error {
	return ValidateName(strings.TrimPrefix(name, ServicePrefix))
}
