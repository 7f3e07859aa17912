package signin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxSaid is how many characters of a provider's message are shown.
const maxSaid = 200

// maxStarts is how many sign-ins under way a browser keeps. The oldest is forgotten for a
// new one.
const maxStarts = 5

// startCookie returns the cookie of the sign-in with this state. If the value is empty, the
// cookie makes the browser delete it. Each sign-in has a cookie of its own, so that several
// can be under way in several tabs. A browser sends the cookie when it comes back from the
// provider, because it is SameSite=Lax.
func startCookie(r *http.Request, state, value string) *http.Cookie {
	c := &http.Cookie{Name: startPrefix(r) + state, Value: value, Path: "/", MaxAge: int(within.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	c.Secure = bound(r)
	return c
}

// startPrefix is what the names of all such cookies begin with.
func startPrefix(r *http.Request) string {
	if bound(r) {
		return "__Host-rounds_signin_"
	}
	return "rounds_signin_"
}

// bound reports whether a cookie must be sent over TLS only, and to this host alone.
func bound(r *http.Request) bool { return r.TLS != nil || !Loopback(r.Host) }

// start begins a sign-in and redirects the browser to the provider.
func (p *Pages) start(w http.ResponseWriter, r *http.Request) {
	v := view{Next: p.next(r.URL.Query().Get("next"))}
	if p.options.People == nil {
		v.Problem = textFor(r).NoProvider
		p.write(w, r, http.StatusNotFound, v)
		return
	}
	begun, err := p.options.People.Begin(r.Context(), v.Next)
	if err != nil {
		p.fail(w, r, v, err)
		return
	}
	forgetStarts(w, r)
	http.SetCookie(w, startCookie(r, begun.State, begun.Sealed))
	http.Redirect(w, r, begun.Address, http.StatusFound)
}

// forgetStarts makes the browser delete the cookies of its oldest sign-ins, so that one more
// has room. A browser sends cookies of one path in the order of their creation.
func forgetStarts(w http.ResponseWriter, r *http.Request) {
	var states []string
	for _, c := range r.Cookies() {
		if state, ok := strings.CutPrefix(c.Name, startPrefix(r)); ok {
			states = append(states, state)
		}
	}
	for len(states) >= maxStarts {
		http.SetCookie(w, startCookie(r, states[0], ""))
		states = states[1:]
	}
}

// callback ends a sign-in when the browser comes back from the provider.
//
// Anybody can forge such a request, and make the browsers of others send it. Without the
// cookie of its state it does nothing, and counts as nothing.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request) {
	v, t, q := view{Next: p.next("")}, textFor(r), r.URL.Query()
	if p.options.People == nil {
		v.Problem = t.NoProvider
		p.write(w, r, http.StatusNotFound, v)
		return
	}
	state := q.Get("state")
	cookie, err := r.Cookie(startPrefix(r) + state)
	if err != nil || state == "" {
		p.fail(w, r, v, errStale)
		return
	}
	http.SetCookie(w, startCookie(r, state, "")) // it is used once
	if said := q.Get("error"); said != "" {
		v.Problem = fmt.Sprintf(t.ProviderSays, oneLine(said+" "+q.Get("error_description"), maxSaid))
		p.write(w, r, http.StatusForbidden, v)
		return
	}
	who, err := p.options.People.End(r.Context(), state, cookie.Value, q.Get("code"), q.Get("iss"))
	switch {
	case errors.Is(err, errNoGrant):
		p.options.Door.Refuse(r, "none of the groups of "+who.Name+" has a role")
		v.Problem = fmt.Sprintf(t.NoGrant, who.Name)
		p.write(w, r, http.StatusForbidden, v)
		return
	case errors.Is(err, errRefused):
		p.options.Door.Refuse(r, err.Error())
	}
	if err != nil {
		p.fail(w, r, v, err)
		return
	}
	if err := p.options.Door.Begin(w, r, who.Holder, who.Principal, who.IDToken); err != nil {
		p.fail(w, r, v, err)
		return
	}
	v = named(v, who.Principal)
	v.Onward = p.next(who.Next)
	p.write(w, r, http.StatusOK, v)
}
