package access

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Via is how a principal was authenticated.
type Via string

// The ways of authentication.
const (
	ViaToken   Via = "token"   // ROUNDS_API_TOKEN
	ViaKey     Via = "key"     // a key of its own
	ViaSession Via = "session" // a session of the pages, after signing in
	ViaOIDC    Via = "oidc"    // a person who signed in with an identity provider
	ViaLocal   Via = "local"   // from this machine, where no authentication is needed
)

// The names of principals that are not one certain key or person.
const (
	TokenName = "token" // anybody with ROUNDS_API_TOKEN
	LocalName = "local" // anybody on this machine, where no authentication is needed
)

// Labels are names and values. An account must have all of them.
type Labels map[string]string

// String returns the labels as NAME=VALUE, in order, with commas between them. It is for
// people: values are not escaped.
func (l Labels) String() string {
	pairs := make([]string, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		pairs = append(pairs, name+"="+l[name])
	}
	return strings.Join(pairs, ",")
}

// Principal is a caller on whose behalf something is done. The zero Principal is nobody,
// and may do nothing.
type Principal struct {
	Name   string // of the key or the person, TokenName or LocalName
	Role   Role
	Labels Labels // only accounts with all of them; empty: all accounts
	Via    Via
}

// Token returns the principal of callers with ROUNDS_API_TOKEN: an admin.
func Token() Principal { return Principal{Name: TokenName, Role: Admin, Via: ViaToken} }

// Local returns the principal of callers on this machine, where no authentication is
// needed: an admin.
func Local() Principal { return Principal{Name: LocalName, Role: Admin, Via: ViaLocal} }

// May reports whether the principal may do what the role allows.
func (p Principal) May(role Role) bool { return p.Role.Includes(role) }

// Bound reports whether the principal is limited to accounts with its labels.
func (p Principal) Bound() bool { return len(p.Labels) > 0 }

type principalKey struct{}

// With returns a context that carries the principal.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the principal that a context carries. If there is none, it returns the zero
// Principal and false.
func From(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
