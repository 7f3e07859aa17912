package oidctest

import (
	"crypto/rand"
	"net/http"
	"time"
)

// Offline is how a provider issues refresh tokens.
type Offline struct {
	User    string        // whose tokens they are
	Devices bool          // there are device codes (RFC 8628)
	Rotates bool          // each refresh token is used once
	Forgets bool          // with Rotates: using one again ends the whole sign-in
	Keeps   bool          // with Rotates: the old ones stay valid
	Life    time.Duration // of access tokens; 0: an hour
}

// offline is what a provider knows of its tokens.
type offline struct {
	Offline
	refresh map[string]string // refresh token -> its sign-in
	used    map[string]string // the same of those that were rotated
	access  map[string]string // access token -> its sign-in
	devices map[string]string // device code -> pending, or its end
	issued  int
}

// Offline has the provider issue refresh tokens from now on.
func (p *Provider) Offline(o Offline) {
	p.set(func() {
		p.offline = &offline{Offline: o, refresh: make(map[string]string), used: make(map[string]string), access: make(map[string]string), devices: make(map[string]string)}
	})
}

func (p *Provider) isOffline() (is bool) {
	p.set(func() { is = p.offline != nil })
	return is
}

// Decide ends all sign-ins with a device code: with nothing a person has consented, otherwise the
// provider answers with that reason.
func (p *Provider) Decide(reason string) {
	p.set(func() {
		for code := range p.offline.devices {
			p.offline.devices[code] = reason
		}
	})
}

// Grant returns a refresh token as if somebody had signed in.
func (p *Provider) Grant() (refresh string) {
	refresh = rand.Text()
	p.set(func() { p.offline.refresh[refresh] = rand.Text() })
	return refresh
}

// Revoke ends all sign-ins, and with access only their access tokens.
func (p *Provider) Revoke(access bool) {
	p.set(func() {
		clear(p.offline.access)
		if !access {
			clear(p.offline.refresh)
		}
	})
}

// Valid reports whether a refresh token may be used.
func (p *Provider) Valid(refresh string) (is bool) {
	p.set(func() { _, is = p.offline.refresh[refresh] })
	return is
}

// Active reports whether an access token is valid.
func (p *Provider) Active(access string) (is bool) {
	p.set(func() { _, is = p.offline.access[access] })
	return is
}

// Issued returns how many access tokens were issued.
func (p *Provider) Issued() (n int) {
	p.set(func() { n = p.offline.issued })
	return n
}

// issue answers with new tokens of a sign-in. The caller holds the lock.
func (o *offline) issue(w http.ResponseWriter, signIn string) {
	access, life := "access-"+rand.Text(), o.Life
	if life == 0 {
		life = time.Hour
	}
	o.issued++
	o.access[access] = signIn
	answer := Claims{"access_token": access, "token_type": "Bearer", "expires_in": int(life / time.Second)}
	var has bool
	for _, of := range o.refresh {
		has = has || of == signIn
	}
	if !has {
		refresh := "refresh-" + rand.Text()
		o.refresh[refresh] = signIn
		answer["refresh_token"] = refresh
	}
	reply(w, http.StatusOK, answer)
}

// refresh answers to a refresh token, and to a device code.
func (p *Provider) refresh(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.offline
	refuse := func(reason string) {
		reply(w, http.StatusBadRequest, Claims{"error": reason, "error_description": "secret " + ClientSecret})
	}
	if r.PostFormValue("grant_type") != "refresh_token" {
		code := r.PostFormValue("device_code")
		switch state, ok := o.devices[code]; {
		case !ok:
			refuse("invalid_grant")
		case state != "":
			refuse(state)
		default:
			delete(o.devices, code)
			o.issue(w, rand.Text())
		}
		return
	}
	refresh := r.PostFormValue("refresh_token")
	signIn, ok := o.refresh[refresh]
	if !ok {
		if of, before := o.used[refresh]; before && o.Forgets {
			for other, its := range o.refresh {
				if its == of {
					delete(o.refresh, other)
				}
			}
		}
		refuse("invalid_grant")
		return
	}
	if o.Rotates {
		delete(o.refresh, refresh)
		if o.used[refresh] = signIn; o.Keeps {
			defer func() { o.refresh[refresh] = signIn }()
		}
	}
	o.issue(w, signIn)
}

// device begins a sign-in on another device.
func (p *Provider) device(w http.ResponseWriter, r *http.Request) {
	if !isClient(w, r) {
		return
	}
	code := "device-" + rand.Text()
	p.set(func() { p.offline.devices[code] = "authorization_pending" })
	reply(w, http.StatusOK, Claims{"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": p.URL + "/activate", "expires_in": 900, "interval": 1})
}

// introspect tells a mail server whose an access token is (RFC 7662).
func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) {
	var known bool
	var user string
	p.set(func() { _, known = p.offline.access[r.PostFormValue("token")]; user = p.offline.User })
	reply(w, http.StatusOK, Claims{"active": known, "email": user})
}
