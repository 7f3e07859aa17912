package session

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/access/origin"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/session"
)

// Life is how long a session lasts at most.
const Life = 12 * time.Hour

const (
	plainCookie = "rounds_session" // on loopback, where some browsers keep no Secure cookie
	boundCookie = "__Host-" + plainCookie
)

var (
	// ErrNone reports a request without a session.
	ErrNone = errors.New("session: the request bears none")
	// ErrOver reports a session that has ended: by sign-out, after Life, or since what it was
	// begun with holds no longer.
	ErrOver = errors.New("session: it has ended")
	// ErrPlain reports a browser that reached a name off loopback without TLS: it would not
	// keep the cookie, and whoever listens could.
	ErrPlain = errors.New("session: off loopback a browser must come over https")
)

// Holder is what a session remembers of who began it, enough to judge anew who that is. It
// holds no secret.
type Holder struct {
	Via  access.Via `json:"via"` // token, key or oidc
	Name string     `json:"name"`

	Key     string   `json:"key,omitempty"`     // the digest of the key
	Issuer  string   `json:"issuer,omitempty"`  // of the person
	Subject string   `json:"subject,omitempty"` // the person, as the issuer knows them
	Groups  []string `json:"groups,omitempty"`  // the person's, as far as they have roles
}

// owner is whose sessions are counted together.
func (h Holder) owner() string {
	return strings.Join([]string{string(h.Via), h.Key, h.Issuer, h.Subject}, "\n")
}

// kept is a session as Redis has it. Fields may be added.
type kept struct {
	Holder
	Host  string `json:"host"`            // that it was begun at
	Proof string `json:"proof,omitempty"` // of the secret that it was begun with
}

// Session is one that lasts.
type Session struct {
	Holder
	Left time.Duration // until it ends

	name  string
	proof string
}

// Began reports whether the session was begun with a secret, which must not be empty.
func (s Session) Began(secret string) bool {
	return secret != "" && hmac.Equal([]byte(s.proof), []byte(proof(s.name, secret)))
}

// proof lets who has both a session's name and a secret know that they belong together.
// Redis has neither, so that nobody who reads it can try what the secret may be.
func proof(name, secret string) string {
	mac := hmac.New(sha256.New, []byte(name))
	mac.Write([]byte(secret)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// Book has the sessions of a namespace.
type Book struct{ store session.Store }

// In returns the book of a ring's namespace.
func In(ring *circulate.Ring) Book { return Book{session.Of(ring, session.SignedIn)} }

// Begin begins a session, and has the reply bring its cookie. The secret is what the holder
// has shown, for [Session.Began]; empty: none. It returns ErrPlain where the browser would
// not keep the cookie. The sessions that the request bore end. After an unknown outcome
// nobody knows the session.
func (b Book) Begin(w http.ResponseWriter, r *http.Request, h Holder, secret string) error {
	secure, err := mustBeSecure(r)
	if err != nil {
		return err
	}
	host, _ := origin.Hostname(r.Host)
	name := rand.Text() + rand.Text()
	k := kept{Holder: h, Host: strings.ToLower(host)}
	if secret != "" {
		k.Proof = proof(name, secret)
	}
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if err := b.store.Put(r.Context(), name, h.owner(), text, Life); err != nil {
		return err
	}
	for _, before := range names(r) {
		// The browser forgets it now. That it cannot be ended keeps nobody out: it ends by itself.
		_ = b.store.End(r.Context(), before)
	}
	http.SetCookie(w, newCookie(secure, name, Life))
	return nil
}

// mustBeSecure tells whether the cookie may travel over TLS only. On loopback it need not,
// unless the browser came over TLS all the same.
func mustBeSecure(r *http.Request) (bool, error) {
	scheme, _, _ := strings.Cut(r.Header.Get("Origin"), "://")
	switch {
	case r.TLS != nil || strings.EqualFold(scheme, "https"):
		return true, nil
	case origin.Loopback(r.Host):
		return false, nil
	case strings.EqualFold(scheme, "http"):
		return false, ErrPlain
	}
	return true, nil
}

// newCookie makes the cookie; with a life below zero one that has the browser forget it.
func newCookie(secure bool, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: plainCookie, Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if secure {
		c.Name, c.Secure = boundCookie, true
	}
	return c
}

// names are the sessions that a request bears, the first one first. Off loopback only a
// cookie counts that a browser cannot have got from another host.
func names(r *http.Request) []string {
	var all []string
	for _, cookie := range []string{boundCookie, plainCookie} {
		if cookie == plainCookie && !origin.Loopback(r.Host) {
			continue
		}
		if c, err := r.Cookie(cookie); err == nil && len(c.Value) == 2*len(rand.Text()) {
			all = append(all, c.Value)
		}
	}
	return all
}

// Of returns the session that a request bears. It is ErrNone, ErrOver, or origin.ErrForeign
// where a page of another site made the request; any other error says nothing of the
// session: Redis could not be asked.
func (b Book) Of(r *http.Request) (Session, error) {
	borne := names(r)
	if len(borne) == 0 {
		return Session{}, ErrNone
	}
	if err := origin.Check(r); err != nil {
		return Session{}, err
	}
	for _, name := range borne {
		s, err := b.find(r.Context(), name, r.Host)
		if !errors.Is(err, ErrOver) {
			return s, err
		}
	}
	return Session{}, ErrOver
}

func (b Book) find(ctx context.Context, name, at string) (Session, error) {
	text, left, err := b.store.Get(ctx, name)
	if errors.Is(err, session.ErrNone) {
		return Session{}, ErrOver
	}
	if err != nil {
		return Session{}, err
	}
	var k kept
	host, ok := origin.Hostname(at)
	if json.Unmarshal(text, &k) != nil || !ok || !strings.EqualFold(host, k.Host) {
		return Session{}, ErrOver
	}
	return Session{Holder: k.Holder, Left: left, name: name, proof: k.Proof}, nil
}

// End ends the sessions that a request bears, for all processes at once, and has the
// browser forget their cookies. Where there is none, all is well. It returns
// origin.ErrForeign, or an error of Redis: then they may go on.
func (b Book) End(w http.ResponseWriter, r *http.Request) error {
	if err := origin.Check(r); err != nil {
		return err
	}
	for _, name := range names(r) {
		if err := b.store.End(r.Context(), name); err != nil {
			return err
		}
	}
	for _, secure := range []bool{false, true} {
		http.SetCookie(w, newCookie(secure, "", -time.Second))
	}
	return nil
}
