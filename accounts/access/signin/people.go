package signin

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/access/idp"
	"github.com/rounds-dev/rounds/accounts/access/origin"
	"github.com/rounds-dev/rounds/accounts/access/session"
)

// maxSaid is how many characters of a provider's message are shown.
const maxSaid = 200

// stateCookie returns the cookie of a sign-in under way. If the state is empty, the cookie
// makes the browser delete it. A browser sends the cookie when it comes back from the
// provider, because it is SameSite=Lax.
func stateCookie(r *http.Request, state string) *http.Cookie {
	c := &http.Cookie{Name: "rounds_signin", Value: state, Path: "/", MaxAge: int(idp.Within.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if state == "" {
		c.MaxAge = -1
	}
	if r.TLS != nil || !origin.Loopback(r.Host) {
		c.Name, c.Secure = "__Host-"+c.Name, true
	}
	return c
}

// start begins a sign-in and redirects the browser to the provider.
func (p *Pages) start(w http.ResponseWriter, r *http.Request) {
	v := view{Next: p.next(r.URL.Query().Get("next"))}
	if p.options.People == nil {
		v.Problem = textFor(r).NoProvider
		p.write(w, r, http.StatusNotFound, v)
		return
	}
	if err := p.options.Door.Wait(r); err != nil {
		p.fail(w, r, v, err)
		return
	}
	address, state, err := p.options.People.Begin(r.Context(), session.AddressOf(r), v.Next)
	if err != nil {
		p.fail(w, r, v, err)
		return
	}
	http.SetCookie(w, stateCookie(r, state))
	http.Redirect(w, r, address, http.StatusFound)
}

// callback ends a sign-in when the browser comes back from the provider.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request) {
	v, t, q := view{Next: p.next("")}, textFor(r), r.URL.Query()
	if p.options.People == nil {
		v.Problem = t.NoProvider
		p.write(w, r, http.StatusNotFound, v)
		return
	}
	door := p.options.Door
	if err := door.Wait(r); err != nil {
		p.fail(w, r, v, err)
		return
	}
	state := q.Get("state")
	cookie, err := r.Cookie(stateCookie(r, "-").Name)
	http.SetCookie(w, stateCookie(r, ""))
	if err != nil || state == "" || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(state)) != 1 {
		door.Refuse(r, "the browser did not begin this sign-in")
		p.fail(w, r, v, idp.ErrStale)
		return
	}
	if said := q.Get("error"); said != "" {
		v.Problem = fmt.Sprintf(t.ProviderSays, shown(said+" "+q.Get("error_description")))
		p.write(w, r, http.StatusForbidden, v)
		return
	}
	who, err := p.options.People.End(r.Context(), state, q.Get("code"), q.Get("iss"))
	switch {
	case errors.Is(err, idp.ErrNoGrant):
		door.Refuse(r, "none of the groups of "+who.Name+" has a role")
		v.Problem = fmt.Sprintf(t.NoGrant, who.Name)
		p.write(w, r, http.StatusForbidden, v)
		return
	case errors.Is(err, idp.ErrStale), errors.Is(err, idp.ErrRefused):
		door.Refuse(r, err.Error())
	}
	if err != nil {
		p.fail(w, r, v, err)
		return
	}
	if err := door.Begin(w, r, who.Holder, who.Principal, ""); err != nil {
		p.fail(w, r, v, err)
		return
	}
	v = named(v, who.Principal)
	v.Onward = p.next(who.Next)
	p.write(w, r, http.StatusOK, v)
}

// shown returns a provider's message as one printable line of at most maxSaid characters.
func shown(said string) string {
	said = strings.TrimSpace(strings.ToValidUTF8(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, said), "?"))
	if runes := []rune(said); len(runes) > maxSaid {
		said = string(runes[:maxSaid]) + "…"
	}
	return said
}
