package access

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Via is how somebody came in.
type Via string

// The ways in.
const (
	ViaToken   Via = "token"   // ROUNDS_API_TOKEN
	ViaKey     Via = "key"     // a key of its own
	ViaSession Via = "session" // a page's, after signing in
	ViaOIDC    Via = "oidc"    // a person whom an identity provider knows
	ViaLocal   Via = "local"   // from this machine, where nothing is demanded
)

// The names of principals that are nobody's in particular.
const (
	TokenName = "token" // whoever knows ROUNDS_API_TOKEN
	LocalName = "local" // whoever is on this machine, where nothing is demanded
)

// Labels are names and values that an account must have, all of them.
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

// In reports whether another set of labels has all of these.
func (l Labels) In(all map[string]string) bool {
	for name, value := range l {
		if has, ok := all[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// Principal is on whose behalf something is done. The zero Principal is nobody, who may
// do nothing.
type Principal struct {
	Name   string // of the key or the person, TokenName or LocalName
	Role   Role
	Labels Labels // only accounts with all of them; empty: all accounts
	Via    Via
}

// Token returns the principal of whoever knows ROUNDS_API_TOKEN: an admin.
func Token() Principal { return Principal{Name: TokenName, Role: Admin, Via: ViaToken} }

// Local returns the principal of whoever is on this machine, where nothing is demanded:
// an admin.
func Local() Principal { return Principal{Name: LocalName, Role: Admin, Via: ViaLocal} }

// May reports whether the principal may do what the role may.
func (p Principal) May(role Role) bool { return p.Role.Includes(role) }

// Bound reports whether only some accounts are the principal's: those with its labels.
func (p Principal) Bound() bool { return len(p.Labels) > 0 }

// Sees reports whether an account with these labels is one of the principal's. Nobody
// sees none.
func (p Principal) Sees(labels map[string]string) bool { return p.Role.Valid() && p.Labels.In(labels) }

type principalKey struct{}

// With returns a context of what is done on the principal's behalf.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns on whose behalf something is done. It is false, and the principal nobody,
// where no edge has said so.
func From(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
