package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/access/key"
	"github.com/rounds-dev/rounds/accounts/access/origin"
)

// errNobody reports that a request shows nothing that lets it in.
var errNobody = errors.New("api: the request shows nothing that lets it in")

// refusal is why what a request shows does not let it in, in words for who sent it.
type refusal string

func (r refusal) Error() string { return "api: " + string(r) }

// way is one way to tell on whose behalf a request is. It returns errNobody where the
// request shows nothing that this way knows: the next way is tried then. Any other error
// decides: a refusal, or one that leaves it open, such as that Redis is away.
type way func(*http.Request) (access.Principal, error)

// authenticator returns the way that tries all there are, in order.
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

// closedTo reports whether who shows nothing is refused: a token is set, or keys are
// demanded.
func (s *Server) closedTo(t terms) bool { return t.token != "" || s.options.RequireKey }

// unauthenticated is the problem of a request that is not let in.
func (s *Server) unauthenticated(r *http.Request, err error) *problem {
	var why refusal
	if errors.Is(err, origin.ErrForeign) {
		return foreign()
	}
	if !errors.Is(err, errNobody) && !errors.As(err, &why) {
		return s.problem(r.Context(), "authenticate", err)
	}
	detail := "a bearer token is needed: Authorization: Bearer TOKEN, with the token of ROUNDS_API_TOKEN or a key"
	if why != "" {
		detail = string(why)
	}
	return unauthorized(detail)
}

// byKey is the way of who has a key. What is shown and is no key at all is left to others.
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

// byToken is the way of who knows the token that is set.
func byToken(token string) way {
	return func(r *http.Request) (access.Principal, error) {
		given, ok := bearer(r)
		if !ok || !sameSecret(given, token) {
			return access.Principal{}, errNobody
		}
		return access.Token(), nil
	}
}

// sameSecret compares what is shown with the token that is set; an empty one is nobody's.
// It compares hashes, so that the time tells not even the token's length.
func sameSecret(given, token string) bool {
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// bearer returns what a request shows as its bearer token, and whether it does.
func bearer(r *http.Request) (string, bool) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(given), strings.EqualFold(scheme, "Bearer")
}
