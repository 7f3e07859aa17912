// Package oidctest is an identity provider for tests: OpenID Connect's authorization code
// flow with PKCE, over a real listener, with ID tokens that are really signed. It lets
// everybody in at once who is sent to it, and lies where a test has it lie.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that the provider knows.
const (
	ClientID     = "rounds"
	ClientSecret = "a client's secret: with / and %"
)

// Claims are what the provider says of a person.
type Claims map[string]any

// Provider is a provider that runs until its test ends, or until Close.
type Provider struct {
	URL string // its issuer
	Key *rsa.PrivateKey

	handler http.HandlerFunc
	server  *httptest.Server

	mu       sync.Mutex
	claims   Claims
	change   func(Claims)
	info     Claims
	describe func(map[string]any)
	sign     func(payload []byte) string
	faults   map[string]http.HandlerFunc
	codes    map[string]grant
	pushed   map[string]url.Values // nil: sign-ins need not be pushed
	home     string                // where people go after signing out; empty: they cannot
	asked    map[string]int
	offline  *offline // nil: there are no refresh tokens
}

// grant is what a code stands for.
type grant struct{ nonce, challenge, redirect string }

// Start starts a provider.
func Start(t testing.TB) *Provider {
	t.Helper()
	p, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Launch starts a provider outside of any test. The caller calls Close.
func Launch() (*Provider, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	p := &Provider{Key: key, faults: make(map[string]http.HandlerFunc), codes: make(map[string]grant), asked: make(map[string]int)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /userinfo", p.userinfo)
	mux.HandleFunc("POST /par", p.push)
	mux.HandleFunc("GET /logout", p.signOut)
	mux.HandleFunc("POST /device", p.device)
	mux.HandleFunc("POST /introspect", p.introspect)
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.URL.Path]++
		fault := p.faults[r.URL.Path]
		p.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	p.server = httptest.NewServer(p.handler)
	p.URL = p.server.URL
	return p, nil
}

// Close ends the provider.
func (p *Provider) Close() { p.server.Close() }

// RoundTrip answers a request without a network, for tests in fake time.
func (p *Provider) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// Person has the provider vouch for somebody from now on.
func (p *Provider) Person(c Claims) { p.set(func() { p.claims = c }) }

// Lie changes the claims of ID tokens just before they are signed; nil: not.
func (p *Provider) Lie(change func(Claims)) { p.set(func() { p.change = change }) }

// Userinfo has the provider answer at userinfo; nil: it has no such endpoint.
func (p *Provider) Userinfo(c Claims) { p.set(func() { p.info = c }) }

// DemandPushes has the provider take only sign-ins that were pushed to it (RFC 9126).
func (p *Provider) DemandPushes() { p.set(func() { p.pushed = make(map[string]url.Values) }) }

// LetOut has the provider sign people out, and send them to a home, which is the only one that
// is registered.
func (p *Provider) LetOut(home string) { p.set(func() { p.home = home }) }

// Describe changes what the provider says of itself; nil: not.
func (p *Provider) Describe(change func(map[string]any)) { p.set(func() { p.describe = change }) }

// SignBy has ID tokens be made by another function; nil: with Key.
func (p *Provider) SignBy(sign func(payload []byte) string) { p.set(func() { p.sign = sign }) }

// Fault has a path be answered in another way; nil: as it should.
func (p *Provider) Fault(path string, answer http.HandlerFunc) {
	p.set(func() { p.faults[path] = answer })
}

// Asked returns how often a path was asked for.
func (p *Provider) Asked(path string) (n int) {
	p.set(func() { n = p.asked[path] })
	return n
}

func (p *Provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	about := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid", "email", "groups"},
	}
	p.set(func() {
		if p.info != nil {
			about["userinfo_endpoint"] = p.URL + "/userinfo"
		}
		if p.pushed != nil {
			about["pushed_authorization_request_endpoint"], about["require_pushed_authorization_requests"] = p.URL+"/par", true
		}
		if p.home != "" {
			about["end_session_endpoint"] = p.URL + "/logout?theme=dark"
		}
		if p.offline != nil {
			about["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
			if p.offline.Devices {
				about["device_authorization_endpoint"] = p.URL + "/device"
			}
		}
		if p.describe != nil {
			p.describe(about)
		}
	})
	reply(w, http.StatusOK, about)
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.set(func() {
		if p.pushed == nil {
			return
		}
		reference, id := q.Get("request_uri"), q.Get("client_id")
		if q = p.pushed[reference]; id != ClientID || len(r.URL.Query()) != 2 {
			q = nil
		}
		delete(p.pushed, reference)
	})
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" && !p.isOffline() {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.set(func() { p.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")} })
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// isClient reports whether the client makes a request, and otherwise answers it.
func isClient(w http.ResponseWriter, r *http.Request) bool {
	id, secret, ok := r.BasicAuth()
	if id, _ = url.QueryUnescape(id); !ok {
		id, secret = r.PostFormValue("client_id"), url.QueryEscape(r.PostFormValue("client_secret"))
	}
	if secret, _ = url.QueryUnescape(secret); id != ClientID || secret != ClientSecret {
		reply(w, http.StatusUnauthorized, Claims{"error": "invalid_client"})
		return false
	}
	return true
}

func (p *Provider) push(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || !isClient(w, r) {
		return
	}
	reference := "urn:ietf:params:oauth:request_uri:" + rand.Text()
	p.set(func() {
		if p.pushed != nil {
			p.pushed[reference] = r.PostForm
		}
	})
	reply(w, http.StatusCreated, Claims{"request_uri": reference, "expires_in": 60})
}

// signOut signs a person out. Without an ID token it cannot know who is meant, and asks.
func (p *Provider) signOut(w http.ResponseWriter, r *http.Request) {
	q, home := r.URL.Query(), ""
	p.set(func() { home = p.home })
	hint := q.Get("id_token_hint")
	if hint != "" {
		signed, err := jose.ParseSigned(hint, []jose.SignatureAlgorithm{jose.RS256})
		if err == nil {
			_, err = signed.Verify(p.Key.Public())
		}
		if err != nil {
			http.Error(w, "id_token_hint: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	switch {
	case home == "" || q.Get("client_id") != ClientID || q.Get("post_logout_redirect_uri") != home || q.Get("theme") != "dark":
		http.Error(w, "bad request", http.StatusBadRequest)
	case hint == "":
		_, _ = w.Write([]byte("Do you want to sign out?"))
	default:
		http.Redirect(w, r, home, http.StatusFound)
	}
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if !isClient(w, r) {
		return
	}
	if p.isOffline() && r.PostFormValue("grant_type") != "authorization_code" {
		p.refresh(w, r)
		return
	}
	var g grant
	var found bool
	code := r.PostFormValue("code")
	p.set(func() {
		g, found = p.codes[code]
		delete(p.codes, code)
	})
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !found || g.redirect != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		reply(w, http.StatusBadRequest, Claims{"error": "invalid_grant", "error_description": "secret " + ClientSecret})
		return
	}
	if p.isOffline() {
		p.set(func() { p.offline.issue(w, rand.Text()) })
		return
	}
	now := time.Now()
	claims := Claims{"iss": p.URL, "aud": ClientID, "sub": "0001", "nonce": g.nonce, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	sign := p.Sign
	p.set(func() {
		maps.Copy(claims, p.claims)
		if p.change != nil {
			p.change(claims)
		}
		if p.sign != nil {
			sign = p.sign
		}
	})
	payload, err := json.Marshal(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, http.StatusOK, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": sign(payload)})
}

// Sign signs as the provider does.
func (p *Provider) Sign(payload []byte) string { return SignWith(p.Key, jose.RS256, payload) }

// SignWith signs with any key.
func SignWith(key any, algorithm jose.SignatureAlgorithm, payload []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		return err.Error()
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return err.Error()
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		return err.Error()
	}
	return text
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.Key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access" {
		reply(w, http.StatusUnauthorized, Claims{"error": "invalid_token"})
		return
	}
	var info Claims
	p.set(func() { info = p.info })
	reply(w, http.StatusOK, info)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that has gone needs no answer
}
