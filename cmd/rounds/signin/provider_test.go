package signin

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/testing/oidctest"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const back = "http://localhost:8080/signin/callback"

type providerFixture struct {
	*testing.T
	far *oidctest.Provider
	idp *Provider

	ring *circulate.Ring
}

func newProviderFixture(t *testing.T, grants string) *providerFixture {
	t.Helper()
	ring, err := circulate.Open(context.Background(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseGrants(grants)
	if err != nil {
		t.Fatal(err)
	}
	far := oidctest.Start(t)
	config := ProviderConfig{Issuer: far.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, RedirectURL: back, Grants: all, Timeout: 5 * time.Second}
	if faults := config.Faults(); faults != nil {
		t.Fatal(faults)
	}
	f := &providerFixture{t, far, NewProvider(config, key.NewKeyring(ring, nil).Sealer), ring}
	far.Person(oidctest.Claims{"email": "anna@example.com", "email_verified": true, "groups": []string{"staff", "ops"}})
	return f
}

// visit goes to the provider and comes back, as a browser does.
func (f *providerFixture) visit() (begun ProviderStart, code, issuer string) {
	f.Helper()
	begun, err := f.idp.Begin(context.Background(), "/next")
	if err != nil {
		f.Fatal(err)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.Get(begun.Address)
	if err != nil {
		f.Fatal(err)
	}
	_ = answer.Body.Close()
	to, err := answer.Location()
	if err != nil {
		f.Fatalf("%s: %v", answer.Status, err)
	}
	q := to.Query()
	if got := to.Scheme + "://" + to.Host + to.Path; got != back || q.Get("state") != begun.State {
		f.Fatalf("the provider sends people to %s", to)
	}
	return begun, q.Get("code"), q.Get("iss")
}

func (f *providerFixture) signIn() (Person, error) {
	f.Helper()
	begun, code, issuer := f.visit()
	return f.end(begun, code, issuer)
}

func (f *providerFixture) end(begun ProviderStart, code, issuer string) (Person, error) {
	return f.idp.End(context.Background(), begun.State, begun.Sealed, code, issuer)
}

func (f *providerFixture) want(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("got %v, want %v", err, want)
	}
	if err != nil && (strings.Contains(err.Error(), oidctest.ClientSecret) || strings.Contains(err.Error(), url.QueryEscape(oidctest.ClientSecret)) || len(err.Error()) > 400) {
		f.Errorf("the error tells too much: %v", err)
	}
}

func TestSignIn(t *testing.T) {
	f := newProviderFixture(t, "ops=editor team=press; staff=viewer")
	who, err := f.signIn()
	if err != nil {
		t.Fatal(err)
	}
	p := who.Principal
	if p.Name != "anna@example.com@127.0.0.1" || p.Role != access.Editor || p.Labels.String() != "team=press" || p.Via != access.ViaOIDC || who.Next != "/next" || who.Subject != "0001" {
		t.Errorf("got %+v", who)
	}
	// The current grants apply to the groups that the person had when signing in.
	again, err := f.idp.Principal(who.Holder)
	if err != nil || again.Name != p.Name || again.Role != p.Role {
		t.Errorf("later: %+v, %v", again, err)
	}
	f.idp.config.Grants = []Grant{{Group: "staff", Role: access.Viewer}}
	if again, err = f.idp.Principal(who.Holder); err != nil || again.Role != access.Viewer {
		t.Errorf("ops lost its role: %+v, %v", again, err)
	}
	f.idp.config.Grants = []Grant{{Group: "others", Role: access.Viewer}}
	if _, err = f.idp.Principal(who.Holder); !errors.Is(err, ErrWrong) {
		t.Errorf("all groups lost their roles: %v", err)
	}
	f.idp.config.Grants = []Grant{{Group: "staff", Role: access.Viewer}}
	other := who.Holder
	other.Issuer = "https://other.example"
	if _, err = f.idp.Principal(other); !errors.Is(err, ErrWrong) {
		t.Errorf("another provider's person: %v", err)
	}
}

func TestOneProviderServesAllWhoSignIn(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := f.idp.Begin(context.Background(), ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.far.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("it was asked for its description %d times", n)
	}
}

func TestNobodyWithoutAGroup(t *testing.T) {
	f := newProviderFixture(t, "admins=admin")
	for name, groups := range map[string]any{
		"others": []string{"staff"}, "none": []string{}, "nothing": nil, "odd": 5, "odd ones": []any{1, nil, map[string]any{"admins": true}},
		"alike": []string{"Admins", "admins ", "admin"}, "a text that is none": "staff",
	} {
		f.far.Person(oidctest.Claims{"groups": groups, "preferred_username": "bert"})
		who, err := f.signIn()
		f.want(err, errNoGrant)
		if who.Name != "bert@127.0.0.1" || who.Principal.Role.Valid() {
			t.Errorf("%s: %+v", name, who)
		}
	}
	f.far.Person(oidctest.Claims{"groups": "admins"})
	if who, err := f.signIn(); err != nil || who.Principal.Role != access.Admin || who.Name != "0001@127.0.0.1" {
		t.Errorf("one group: %+v, %v", who, err)
	}
}

func TestNames(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	for want, claims := range map[string]oidctest.Claims{
		"a@b.example@127.0.0.1": {"email": "a@b.example", "email_verified": "true", "preferred_username": "x"},
		"x@127.0.0.1":           {"email": "boss@b.example", "email_verified": false, "preferred_username": "x"},
		"0001@127.0.0.1":        {"email": "boss@b.example", "preferred_username": "two words"},
		"y@b.example@127.0.0.1": {"preferred_username": "y@b.example"},
	} {
		claims["groups"] = "ops"
		f.far.Person(claims)
		if who, err := f.signIn(); err != nil || who.Principal.Name != want {
			t.Errorf("got %q, %v; want %q", who.Principal.Name, err, want)
		}
	}
	f.far.Person(oidctest.Claims{"groups": "ops", "preferred_username": "evil\nname=admin", "sub": "a\u202eb"})
	if who, err := f.signIn(); err != nil || strings.ContainsAny(who.Name, "\n\u202e") || who.Name != "a b@127.0.0.1" {
		t.Errorf("got %q, %v", who.Name, err)
	}
}

func TestASignInIsGoodOnce(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	begun, code, issuer := f.visit()
	if _, err := f.end(begun, code, issuer); err != nil {
		t.Fatal(err)
	}
	_, err := f.end(begun, code, issuer)
	f.want(err, errRefused) // the provider has taken the code
	// A code of another sign-in belongs to another verifier and nonce.
	_, stolen, _ := f.visit()
	begun, _, _ = f.visit()
	_, err = f.end(begun, stolen, "")
	f.want(err, errRefused)
	begun, code, _ = f.visit()
	_, err = f.end(begun, code, "https://other.example")
	f.want(err, errRefused)
}

// What a browser brings back counts only as Begin sealed it, for that state, at this provider,
// and for a while. The provider is not asked about anything else.
func TestSealedSignIns(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	begun, code, issuer := f.visit()
	other, _, _ := f.visit()
	cut := begun
	cut.Sealed = cut.Sealed[:len(cut.Sealed)-2]
	swapped := ProviderStart{State: begun.State, Sealed: other.Sealed}
	// The cipher seals cursors too, which callers see.
	seal := func(u under, bound []byte) ProviderStart {
		text, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		sealer, err := f.idp.sealer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ProviderStart{State: begun.State, Sealed: base64.RawURLEncoding.EncodeToString(sealer.Seal(nil, nil, text, bound))}
	}
	bound := f.idp.bound(begun.State)
	for name, begun := range map[string]ProviderStart{
		"cut": cut, "of another state": swapped, "none": {State: begun.State}, "of no state": {Sealed: begun.Sealed}, "no text": {State: begun.State, Sealed: "%"},
		"a cursor":     seal(under{Began: time.Now()}, []byte("team=press")),
		"too old":      seal(under{Began: time.Now().Add(-within - time.Second)}, bound),
		"of tomorrow":  seal(under{Began: time.Now().Add(24 * time.Hour)}, bound),
		"without time": seal(under{}, bound),
	} {
		if _, err := f.end(begun, code, issuer); !errors.Is(err, errStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := f.far.Asked("/token"); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
	// Another process of the namespace opens it, however many others began meanwhile.
	for range 2000 {
		if _, err := f.idp.Begin(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	config := f.idp.config
	elsewhere := NewProvider(config, key.NewKeyring(f.ring, nil).Sealer)
	if who, err := elsewhere.End(t.Context(), begun.State, begun.Sealed, code, issuer); err != nil || who.Next != "/next" {
		t.Errorf("at another process: %+v, %v", who, err)
	}
	config.Issuer = "https://other.example"
	if _, err := NewProvider(config, f.idp.sealer).End(t.Context(), other.State, other.Sealed, code, ""); !errors.Is(err, errStale) {
		t.Errorf("of another provider: %v", err)
	}
	f.idp.sealer = func(context.Context) (cipher.AEAD, error) { return nil, errors.New("redis is away") }
	if _, err := f.end(other, code, issuer); err == nil || errors.Is(err, errStale) || errors.Is(err, errRefused) {
		t.Errorf("without the key: %v", err)
	}
}

func TestBadWords(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	set := func(claim string, value any) func(oidctest.Claims) {
		return func(c oidctest.Claims) { c[claim] = value }
	}
	for name, lie := range map[string]func(oidctest.Claims){
		"another audience":            set("aud", "another"),
		"no audience":                 func(c oidctest.Claims) { delete(c, "aud") },
		"for several, of another one": func(c oidctest.Claims) { c["aud"], c["azp"] = []string{"rounds", "another"}, "another" },
		"for several":                 set("aud", []string{"rounds", "another"}),
		"another issuer":              set("iss", "https://other.example"),
		"expired":                     set("exp", time.Now().Add(-time.Second).Unix()),
		"never expires":               func(c oidctest.Claims) { delete(c, "exp") },
		"for another one alone":       set("azp", "another"),
		"not yet":                     set("nbf", time.Now().Add(2*time.Minute).Unix()),
		"of tomorrow":                 set("iat", time.Now().Add(2*time.Minute).Unix()),
		"of no time":                  func(c oidctest.Claims) { delete(c, "iat") },
		"another nonce":               set("nonce", "x"),
		"no nonce":                    func(c oidctest.Claims) { delete(c, "nonce") },
		"no subject":                  set("sub", ""),
		"a long subject":              set("sub", strings.Repeat("x", 300)),
		"odd claims":                  set("email", 5),
	} {
		t.Run(name, func(t *testing.T) {
			f := &providerFixture{t, f.far, f.idp, f.ring}
			f.far.Lie(lie)
			_, err := f.signIn()
			f.want(err, errRefused)
		})
	}
	f.far.Lie(func(c oidctest.Claims) {
		ahead := time.Now().Add(30 * time.Second).Unix() // a provider's clock may be a little fast
		c["iat"], c["nbf"], c["aud"], c["azp"] = ahead, ahead, []string{oidctest.ClientID, "another"}, oidctest.ClientID
	})
	if _, err := f.signIn(); err != nil {
		t.Errorf("for several, and for this one: %v", err)
	}
	f.far.Lie(nil)
	segment := base64.RawURLEncoding.EncodeToString
	for name, sign := range map[string]func([]byte) string{
		"another key":                  func(p []byte) string { return oidctest.SignWith(other, jose.RS256, p) },
		"its public key as a password": func(p []byte) string { return oidctest.SignWith(f.far.Key.N.Bytes(), jose.HS256, p) },
		"another algorithm":            func(p []byte) string { return oidctest.SignWith(f.far.Key, jose.RS512, p) },
		"no signature":                 func(p []byte) string { return segment([]byte(`{"alg":"none"}`)) + "." + segment(p) + "." },
		"other claims under a signature": func(p []byte) string {
			parts := strings.Split(f.far.Sign([]byte(`{}`)), ".")
			return parts[0] + "." + segment(p) + "." + parts[2]
		},
		"no token": func([]byte) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			f := &providerFixture{t, f.far, f.idp, f.ring}
			f.far.SignBy(sign)
			_, err := f.signIn()
			f.want(err, errRefused)
		})
	}
	f.far.SignBy(nil)
	if _, err := f.signIn(); err != nil {
		t.Errorf("nothing is wrong any more: %v", err)
	}
}

// megabytes returns a handler that writes until the client closes the connection.
func megabytes(start string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write([]byte(start))
		for chunk := []byte(strings.Repeat("a", 1<<16)); err == nil; {
			_, err = w.Write(chunk)
		}
	}
}

func TestAProviderThatMisbehaves(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only after this the server notices that the client goes away
		<-r.Context().Done()
	}
	for name, fault := range map[string]http.HandlerFunc{
		"says nothing":           silent,
		"cuts":                   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"sends megabytes":        megabytes(`{"issuer":"`),
		"fails":                  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("x", 5000), 500) },
		"redirects":              func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"writes what is no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys", "/userinfo"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				f := newProviderFixture(t, "ops=admin")
				if name == "says nothing" {
					f.idp.client = newClient(50 * time.Millisecond)
				}
				f.far.Person(oidctest.Claims{}) // the groups are at userinfo
				f.far.Userinfo(oidctest.Claims{"sub": "0001", "groups": "ops"})
				f.far.Fault(path, fault)
				if path != "/token" && path != "/keys" && path != "/userinfo" {
					_, err := f.idp.Begin(context.Background(), "")
					f.want(err, errAway)
					asked := f.far.Asked(path)
					if _, err = f.idp.Begin(context.Background(), ""); !errors.Is(err, errAway) || f.far.Asked(path) != asked {
						t.Errorf("it is asked at once again: %v", err)
					}
					f.far.Fault(path, nil)
					f.idp.failed.Store(nil) // as if askAgain had passed
				} else {
					_, err := f.signIn()
					f.want(err, errAway)
				}
				f.far.Fault(path, nil)
				f.idp.client = newClient(5 * time.Second)
				f.idp.known.Store(nil)
				if _, err := f.signIn(); err != nil {
					t.Errorf("it is there again: %v", err)
				}
			})
		}
	}
}

func TestUserinfo(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	f.far.Person(oidctest.Claims{})
	f.far.Userinfo(oidctest.Claims{"sub": "0001", "groups": []string{"ops"}})
	if _, err := f.signIn(); err != nil {
		t.Fatal(err)
	}
	f.far.Userinfo(oidctest.Claims{"sub": "0002", "groups": []string{"ops"}})
	_, err := f.signIn()
	f.want(err, errRefused)
	f.far.Userinfo(oidctest.Claims{"sub": "0001", "groups": []string{"ops"}})
	f.far.Person(oidctest.Claims{"groups": []string{"staff"}}) // the signed groups take precedence
	_, err = f.signIn()
	f.want(err, errNoGrant)
}

// By the specification's default, a provider says nothing about a person in the ID token.
func TestNamesFromUserinfo(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	for want, said := range map[string]struct{ token, info oidctest.Claims }{
		"a@b.example@127.0.0.1":      {oidctest.Claims{}, oidctest.Claims{"email": "a@b.example", "email_verified": true, "groups": "ops"}},
		"anna@127.0.0.1":             {oidctest.Claims{"groups": "ops"}, oidctest.Claims{"preferred_username": "anna"}},
		"bert@127.0.0.1":             {oidctest.Claims{"preferred_username": "bert"}, oidctest.Claims{"preferred_username": "x", "groups": "ops"}},
		"0001@127.0.0.1":             {oidctest.Claims{"email": "boss@b.example"}, oidctest.Claims{"email": "x@b.example", "email_verified": true, "groups": "ops"}},
		"carl@127.0.0.1":             {oidctest.Claims{"email_verified": true, "groups": "ops"}, oidctest.Claims{"email": "boss@b.example", "preferred_username": "carl"}},
		"signed@b.example@127.0.0.1": {oidctest.Claims{"email": "signed@b.example", "email_verified": true, "groups": "ops"}, oidctest.Claims{"email": "x@b.example"}},
	} {
		said.info["sub"] = "0001"
		f.far.Person(said.token)
		f.far.Userinfo(said.info)
		f.idp.known.Store(nil)
		if who, err := f.signIn(); err != nil || who.Name != want {
			t.Errorf("got %q, %v; want %q", who.Name, err, want)
		}
	}
	asked := f.far.Asked("/userinfo")
	f.far.Person(oidctest.Claims{"preferred_username": "dora", "groups": "ops"})
	if who, err := f.signIn(); err != nil || who.Name != "dora@127.0.0.1" || f.far.Asked("/userinfo") != asked {
		t.Errorf("all is known: %q, %v", who.Name, err)
	}
	f.far.Person(oidctest.Claims{"groups": "ops"})
	f.far.Userinfo(oidctest.Claims{"sub": "0002", "preferred_username": "boss"})
	_, err := f.signIn()
	f.want(err, errRefused)
}

func TestPushedSignIns(t *testing.T) {
	for _, methods := range [][]string{nil, {"client_secret_post"}} {
		f := newProviderFixture(t, "ops=admin")
		f.far.DemandPushes()
		f.far.Describe(func(about map[string]any) { about["token_endpoint_auth_methods_supported"] = methods })
		begun, code, issuer := f.visit()
		if strings.Contains(begun.Address, "nonce") || strings.Contains(begun.Address, begun.State) || !strings.Contains(begun.Address, "request_uri=urn") {
			t.Errorf("sent to %s", begun.Address)
		}
		if who, err := f.end(begun, code, issuer); err != nil || who.Next != "/next" {
			t.Errorf("%+v, %v", who, err)
		}
		for name, fault := range map[string]http.HandlerFunc{
			"refuses": func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
			},
			"says none": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"request_uri":""}`)) },
			"too long": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"request_uri":"` + strings.Repeat("x", maxReference+1) + `"}`))
			},
			"no JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"megabytes": megabytes(`{"request_uri":"`),
			"redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			"cuts":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			f.far.Fault("/par", fault)
			_, err := f.idp.Begin(t.Context(), "")
			f.want(err, errAway)
			if name == "refuses" && !strings.Contains(err.Error(), "400 Bad Request invalid_request") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// A provider that does not demand it is not asked.
	f := newProviderFixture(t, "ops=admin")
	f.far.Describe(func(about map[string]any) { about["pushed_authorization_request_endpoint"] = f.far.URL + "/par" })
	if _, err := f.signIn(); err != nil || f.far.Asked("/par") != 0 {
		t.Errorf("asked %d times, %v", f.far.Asked("/par"), err)
	}
}

func TestSignOut(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	if at, err := f.idp.SignOut(t.Context(), "token", "https://rounds.example/signin"); at != "" || err != nil {
		t.Errorf("nowhere: %q, %v", at, err)
	}
	f.far.LetOut("https://rounds.example/signin")
	f.idp.known.Store(nil)
	who, err := f.signIn()
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for token, want := range map[string]int{who.IDToken: http.StatusFound, "": http.StatusOK} {
		at, err := f.idp.SignOut(t.Context(), token, "https://rounds.example/signin")
		if err != nil {
			t.Fatal(err)
		}
		answer, err := browser.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("with %.10q: %s", token, answer.Status)
		}
	}
}

func TestSecretsGoOverTLS(t *testing.T) {
	f := newProviderFixture(t, "ops=admin")
	for _, field := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint", "pushed_authorization_request_endpoint"} {
		for _, at := range []string{"http://login.example.com/x", "ftp://127.0.0.1/x", "javascript:alert(1)", "https://user@login.example.com/"} {
			f.far.Describe(func(about map[string]any) { about[field], about["require_pushed_authorization_requests"] = at, true })
			f.idp.failed.Store(nil)
			_, err := f.idp.Begin(context.Background(), "")
			f.want(err, errAway)
		}
	}
	f.far.Describe(func(about map[string]any) { about["require_pushed_authorization_requests"] = true })
	f.idp.failed.Store(nil)
	_, err := f.idp.Begin(context.Background(), "")
	f.want(err, errAway) // it does not say where
	f.far.Describe(func(about map[string]any) { about["issuer"] = "https://other.example" })
	f.idp.failed.Store(nil)
	_, err = f.idp.Begin(context.Background(), "")
	f.want(err, errAway)
	f.far.Describe(func(about map[string]any) {
		about["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
	})
	f.idp.failed.Store(nil)
	if _, err := f.signIn(); err != nil {
		t.Errorf("the secret in the body: %v", err)
	}
}
