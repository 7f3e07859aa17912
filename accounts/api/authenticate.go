package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/rounds-dev/rounds/accounts/access"
)

// errNobody reports that a request shows nothing that lets it in.
var errNobody = errors.New("api: the request shows nothing that lets it in")

// way is one way to tell on whose behalf a request is. It returns errNobody where the
// request shows nothing that this way knows: the next way is tried then. Any other error
// decides.
type way func(*http.Request) (access.Principal, error)

// authenticator returns the way that tries all there are, in order.
func authenticator(token string) way {
	if token == "" {
		return func(*http.Request) (access.Principal, error) { return access.Local(), nil }
	}
	ways := []way{byToken(token)}
	return func(r *http.Request) (access.Principal, error) {
		for _, try := range ways {
			if principal, err := try(r); !errors.Is(err, errNobody) {
				return principal, err
			}
		}
		return access.Principal{}, errNobody
	}
}

// byToken is the way of who knows the token that is set.
func byToken(token string) way {
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) (access.Principal, error) {
		given, ok := bearer(r)
		got := sha256.Sum256([]byte(given))
		// Of hashes, so that the time tells not even the token's length.
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return access.Principal{}, errNobody
		}
		return access.Token(), nil
	}
}

// bearer returns what a request shows as its bearer token, and whether it does.
func bearer(r *http.Request) (string, bool) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(given), strings.EqualFold(scheme, "Bearer")
}
