package signin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
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
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Life is the longest life of a session.
const Life = 12 * time.Hour

const (
	plainCookie = "rounds_session" // on loopback, where some browsers keep no Secure cookie
	boundCookie = "__Host-" + plainCookie
)

var (
	// ErrNone reports a request without a session.
	ErrNone = errors.New("session: the request has no session")
	// ErrOver reports a session that has ended: by sign-out, after Life, or because the
	// credential that it was begun with is no longer valid.
	ErrOver = errors.New("session: it has ended")
	// ErrPlain reports a browser that came without TLS to a name that is not loopback. It
	// would not keep the cookie, and others on the network could read it.
	ErrPlain = errors.New("session: off loopback a browser must come over https")
)

// Holder is what a session stores about the person or key that began it. It suffices to
// check their rights again at each request. It contains no secret.
type Holder struct {
	Via  access.Via `json:"via"` // token, key or oidc
	Name string     `json:"name"`

	Key     string   `json:"key,omitempty"`     // the digest of the key
	Issuer  string   `json:"issuer,omitempty"`  // of the person
	Subject string   `json:"subject,omitempty"` // the person, as the issuer knows them
	Groups  []string `json:"groups,omitempty"`  // the person's groups that are granted a role
}

// owner returns the owner under whom the holder's sessions are counted.
func (h Holder) owner() string {
	return strings.Join([]string{string(h.Via), h.Key, h.Issuer, h.Subject}, "\n")
}

// kept is the stored form of a session. Fields may be added.
type kept struct {
	Holder
	Host  string `json:"host"`            // at which it was begun
	Proof string `json:"proof,omitempty"` // proves the secret with which it was begun
	Token []byte `json:"token,omitempty"` // the person's ID token, sealed
}

// Session is a session that has not ended.
type Session struct {
	Holder
	Left time.Duration // until it ends

	name  string
	proof string
	token []byte
}

// Began reports whether the session was begun with this secret. It is false for an empty one.
func (s Session) Began(secret string) bool {
	return secret != "" && hmac.Equal([]byte(s.proof), []byte(proof(s.name, secret)))
}

// proof returns a text that shows, to those who know both a session's name and a secret,
// that the two belong together. Redis stores neither, so nobody who reads Redis can test
// guesses of the secret.
func proof(name, secret string) string {
	mac := hmac.New(sha256.New, []byte(name))
	mac.Write([]byte(secret)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// IDToken returns the ID token with which a person began the session, which the provider may
// want to see when the person signs out. It is empty if there is none.
func (s Session) IDToken() string {
	sealer, err := sealerOf(s.name)
	if err != nil || len(s.token) == 0 {
		return ""
	}
	token, err := sealer.Open(nil, nil, s.token, nil)
	if err != nil {
		return ""
	}
	return string(token)
}

// sealerOf returns the cipher of a session's ID token. Its key is derived from the session's
// name, which only the cookie has, so nobody who reads Redis can open the token.
func sealerOf(name string) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, []byte(name))
	mac.Write([]byte("ID token")) // never fails
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Book has the sessions of a namespace.
type Book struct{ store document.Sessions }

// In returns the book of a ring's namespace.
func In(ring *circulate.Ring) Book { return Book{document.Of(ring).Sessions(document.SignedIn)} }

// Begin begins a session and adds its cookie to the reply. The secret is the credential that
// the holder has shown, for [Session.Began], or a person's ID token, for [Session.IDToken]. It may
// be empty. Begin ends the sessions that
// the request has. It returns ErrPlain if the browser would not keep the cookie. After an
// unknown outcome a session may exist that nobody can use.
func (b Book) Begin(w http.ResponseWriter, r *http.Request, h Holder, secret string) error {
	secure, err := mustBeSecure(r)
	if err != nil {
		return err
	}
	host, _ := originHostname(r.Host)
	name := rand.Text() + rand.Text()
	k := kept{Holder: h, Host: strings.ToLower(host)}
	text, err := k.encoded(name, secret)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if err := b.store.Put(r.Context(), name, h.owner(), text, Life); err != nil {
		return err
	}
	for _, before := range names(r) {
		// The new cookie replaces the old one in the browser. An old session that cannot be ended
		// now ends after Life.
		_ = b.store.End(r.Context(), before)
	}
	http.SetCookie(w, newCookie(secure, name, Life))
	return nil
}

// encoded returns the session in its stored form, with what remains of the secret. An ID token
// is left out if it is too long.
func (k kept) encoded(name, secret string) ([]byte, error) {
	switch {
	case secret == "":
	case k.Via != access.ViaOIDC:
		k.Proof = proof(name, secret)
	default:
		sealer, err := sealerOf(name)
		if err != nil {
			return nil, err
		}
		with := k
		with.Token = sealer.Seal(nil, nil, []byte(secret), nil)
		if text, err := json.Marshal(with); err != nil || len(text) <= document.MaxSession {
			return text, err
		}
	}
	return json.Marshal(k)
}

// mustBeSecure reports whether the cookie must be sent over TLS only. That is not needed on
// loopback, unless the browser came over TLS. It returns ErrPlain if TLS is needed and the
// browser came without it.
func mustBeSecure(r *http.Request) (bool, error) {
	scheme, _, _ := strings.Cut(r.Header.Get("Origin"), "://")
	switch {
	case r.TLS != nil || strings.EqualFold(scheme, "https"):
		return true, nil
	case Loopback(r.Host):
		return false, nil
	case strings.EqualFold(scheme, "http"):
		return false, ErrPlain
	}
	return true, nil
}

// newCookie returns the session's cookie. If the life is negative, the cookie makes the
// browser delete it.
func newCookie(secure bool, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: plainCookie, Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if secure {
		c.Name, c.Secure = boundCookie, true
	}
	return c
}

// names returns the names of the sessions in a request's cookies, in the order in which they
// are tried. Except on loopback, only the cookie counts that no other host can have set.
func names(r *http.Request) []string {
	var all []string
	for _, cookie := range []string{boundCookie, plainCookie} {
		if cookie == plainCookie && !Loopback(r.Host) {
			continue
		}
		if c, err := r.Cookie(cookie); err == nil && len(c.Value) == 2*len(rand.Text()) {
			all = append(all, c.Value)
		}
	}
	return all
}

// Of returns the session of a request. It returns ErrNone or ErrOver, or ErrForeign if
// a page of another site made the request. Any other error means that Redis could not be
// asked. It says nothing about the session.
func (b Book) Of(r *http.Request) (Session, error) {
	borne := names(r)
	if len(borne) == 0 {
		return Session{}, ErrNone
	}
	if err := CheckOrigin(r); err != nil {
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
	if errors.Is(err, document.ErrNone) {
		return Session{}, ErrOver
	}
	if err != nil {
		return Session{}, err
	}
	var k kept
	host, ok := originHostname(at)
	if json.Unmarshal(text, &k) != nil || !ok || !strings.EqualFold(host, k.Host) {
		return Session{}, ErrOver
	}
	return Session{Holder: k.Holder, Left: left, name: name, proof: k.Proof, token: k.Token}, nil
}

// End ends the sessions of a request, for all processes at once, and makes the browser
// delete their cookies. It succeeds if there is no session. It returns ErrForeign or
// an error of Redis. After an error the sessions may still exist.
func (b Book) End(w http.ResponseWriter, r *http.Request) error {
	if err := CheckOrigin(r); err != nil {
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

// Known is a session that has not ended, as people see it who look after the service.
type Known struct {
	ID     string // nobody gets in with it
	Holder Holder
	Host   string // at which it was begun
	Since  time.Time
	Ends   time.Time // at the latest; times are by Redis' clock
}

// All returns the sessions that have not ended, the latest first, and how many there are. It leaves out
// the oldest ones if there are more than 500, and those of later versions. A session whose key was
// revoked is listed until it ends, and lets nobody in.
func (b Book) All(ctx context.Context) ([]Known, int, error) {
	living, count, err := b.store.All(ctx)
	var all []Known
	for _, l := range living {
		var k kept
		if json.Unmarshal(l.Value, &k) == nil {
			all = append(all, Known{ID: l.ID, Holder: k.Holder, Host: k.Host, Since: l.Ends.Add(-l.Life), Ends: l.Ends})
		}
	}
	return all, count, err
}

// EndOf ends the session of an ID, for all processes at once, and reports whether there was one.
func (b Book) EndOf(ctx context.Context, id string) (bool, error) { return b.store.EndOf(ctx, id) }
