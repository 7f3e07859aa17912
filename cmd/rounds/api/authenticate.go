package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// errNobody reports a request without a known credential.
var errNobody = errors.New("api: the request shows nothing that lets it in")

// refusal says, in words for the caller, why a credential is refused.
type refusal string

func (r refusal) Error() string { return "api: " + string(r) }

// way is one way to authenticate a request. It returns errNobody if the request has no credential
// of its sort; the next way is then tried. Any other error is final. It is a refusal, or says that
// the credential could not be checked, for example because Redis is unreachable.
type way func(*http.Request) (access.Principal, error)

// authenticator returns a way that tries all ways in order.
func (s *Server) authenticator(t terms) way {
	var ways []way
	if t.token != "" {
		ways = append(ways, byToken(t.token))
	}
	ways = append(ways, byKey(s.options.Keys), s.bySession(t))
	if !s.closedTo(t) {
		ways = append(ways, func(*http.Request) (access.Principal, error) { return access.Local(), nil })
	}
	return func(r *http.Request) (access.Principal, error) {
		for _, try := range ways {
			if principal, err := try(r); !errors.Is(err, errNobody) {
				return principal, err
			}
		}
		return access.Principal{}, errNobody
	}
}

// closedTo reports whether requests without a credential are refused, because a token is
// set or keys are required.
func (s *Server) closedTo(t terms) bool { return t.token != "" || s.options.RequireKey }

// unauthenticated returns the reply for a request that could not be authenticated.
func (s *Server) unauthenticated(r *http.Request, err error) *errorReply {
	var why refusal
	if errors.Is(err, signin.ErrForeign) {
		return foreign()
	}
	if !errors.Is(err, errNobody) && !errors.As(err, &why) {
		return s.errorReply(r.Context(), "authenticate", err)
	}
	detail := "a bearer token is needed: Authorization: Bearer TOKEN, with the token of ROUNDS_API_TOKEN or a key"
	if _, given := bearer(r); given {
		detail = "the token is wrong: it is neither the service's ROUNDS_API_TOKEN nor a key"
	}
	if why != "" {
		detail = string(why)
	}
	return unauthorized(detail)
}

// byKey returns the way that authenticates requests with a key. It leaves a bearer token
// that does not look like a key to the next way.
func byKey(keys *key.Keyring) way {
	return func(r *http.Request) (access.Principal, error) {
		given, ok := bearer(r)
		if !ok || !key.Looks(given) {
			return access.Principal{}, errNobody
		}
		k, err := keys.Authenticate(r.Context(), given)
		switch {
		case errors.Is(err, key.ErrMistyped):
			return access.Principal{}, refusal("this is not a key: it was mistyped or cut off")
		case errors.Is(err, key.ErrUnknown):
			return access.Principal{}, refusal("there is no such key: it was revoked, or belongs to another service")
		case errors.Is(err, key.ErrExpired):
			return access.Principal{}, refusal("the key has expired")
		case err != nil:
			return access.Principal{}, err
		}
		return k.Principal(), nil
	}
}

// byToken returns the way that authenticates requests with the configured token.
func byToken(token string) way {
	return func(r *http.Request) (access.Principal, error) {
		given, ok := bearer(r)
		if !ok || !sameSecret(given, token) {
			return access.Principal{}, errNobody
		}
		return access.Token(), nil
	}
}

// sameSecret reports whether a request's secret is the token. It is false if no token is set. It
// compares hashes, so that the time it takes does not reveal even the token's length.
func sameSecret(given, token string) bool {
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// bearer returns a request's bearer token, or false if it has none.
func bearer(r *http.Request) (string, bool) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(given), strings.EqualFold(scheme, "Bearer")
}
