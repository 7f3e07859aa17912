package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

func TestToken(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "right" })
	for _, path := range []string{"/v1/accounts", "/v1/accounts/a", "/v1/accounts:export", "/v1/messages", "/v1/stats", "/metrics", "/openapi.json", "/nothing"} {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer right2", "Basic right", "right"} {
			r := f.request("GET", path, "")
			r.Header.Del("Authorization")
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			got := f.do(r)
			if got.status != 401 || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") || got.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s with %q: %d %v", path, header, got.status, got.header)
			}
		}
	}
	for path, status := range map[string]int{"/v1/accounts": 200, "/metrics": 200, "/openapi.json": 200, "/v1/stats": 200, "/nothing": 404} {
		if got := f.do(f.request("GET", path, "")); got.status != status {
			t.Errorf("%s with the token: %d", path, got.status)
		}
	}
	lower := f.request("GET", "/v1/stats", "")
	lower.Header.Set("Authorization", "bearer right")
	lower.Host = "rounds.example:8080" // a caller with a token may use any host name
	if got := f.do(lower); got.status != 200 {
		t.Errorf("bearer: %d", got.status)
	}
	f.token = ""
	for _, path := range []string{"/healthz", "/readyz", "/docs", "/docs/docs.css", "/docs/docs.js"} {
		if got := f.do(f.request("GET", path, "")); got.status != 200 {
			t.Errorf("%s without the token: %d", path, got.status)
		}
	}
}

// unread is a body that must not be read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("the body of a forged request was read")
	return 0, io.EOF
}

// A form that a page of another site posts, with a file or without, comes neither to the pages nor to the
// API, and nothing of it is read.
func TestFormsOfForeignPages(t *testing.T) {
	for _, token := range []string{"", rightToken} {
		f := newFixture(t, func(o *Options) {
			o.Token, o.Pages = token, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a forged form came to a page") })
			}
		})
		var cookie *http.Cookie
		if token != "" {
			cookie = f.signIn(token)
		}
		for _, path := range []string{"/account?id=a&peer=anna", "/accounts/moving", "/v1/files?account=a", "/v1/accounts:import"} {
			for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
				r := httptest.NewRequest("POST", path, unread{t})
				r.Host = "localhost:8080"
				r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
				r.Header.Set(header, value)
				if cookie != nil {
					r.AddCookie(cookie)
				}
				w := httptest.NewRecorder()
				if f.api.ServeHTTP(w, r); w.Code != http.StatusForbidden {
					t.Errorf("%s with %s, token %q: %d %s", path, header, token, w.Code, w.Body)
				}
			}
		}
	}
}

// guardedPaths has one path of each sort that is not open to all.
var guardedPaths = []string{"/v1/accounts", "/v1/accounts:export", "/v1/accounts/%2F", "/v1/messages", "/v1/stats", "/v1/nothing", "/metrics", "/openapi.json", "/nothing"}

// If no token is set, a page from elsewhere in a browser on this machine must not read or
// change anything.
func TestForeignPages(t *testing.T) {
	f := newFixture(t, nil)
	refused := func(name string, r *http.Request) {
		t.Helper()
		if got := f.do(r); got.status != 403 || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s %s: %d %s", name, r.Method, r.URL.Path, got.status, got.body)
		}
	}
	for _, path := range guardedPaths {
		for _, method := range []string{"GET", "OPTIONS", "POST"} {
			linked := f.request(method, path, "")
			linked.Header.Set("Sec-Fetch-Site", "cross-site")
			refused("a link, an image or a form", linked)
			neighbour := f.request(method, path, "")
			neighbour.Header.Set("Sec-Fetch-Site", "same-site")
			neighbour.Header.Set("Origin", "http://localhost:3000")
			refused("a page of another port", neighbour)
			old := f.request(method, path, "")
			old.Header.Set("Origin", "https://evil.example")
			refused("an old browser", old)
			sandboxed := f.request(method, path, "")
			sandboxed.Header.Set("Origin", "null")
			refused("a frame without an origin", sandboxed)
			for _, host := range []string{"evil.example", "localhost.evil.example:8080", "localhost.", "127.0.0.1.evil.example", "0.0.0.0:8080", "[::2]:8080", "[localhost]"} {
				rebound := f.request(method, path, "")
				rebound.Host = host
				rebound.Header.Set("Sec-Fetch-Site", "same-origin")
				refused(host, rebound)
			}
		}
	}
	f.call("PUT", "/v1/accounts/a", `{"kind":"plain"}`, 201, nil)
	deleting := f.request("DELETE", "/v1/accounts/a", "")
	deleting.Header.Set("Sec-Fetch-Site", "same-site")
	refused("a change", deleting)
	f.call("GET", "/v1/accounts/a", "", 200, nil)

	for _, host := range []string{"localhost:8080", "127.0.0.1", "[::1]:8080", "LOCALHOST"} {
		for _, site := range []string{"", "none", "same-origin"} { // curl, an address typed into a browser, a page of the API itself
			r := f.request("GET", "/v1/stats", "")
			r.Host = host
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			if got := f.do(r); got.status != 200 {
				t.Errorf("%s from %q: %d", host, site, got.status)
			}
		}
	}
	ours := f.request("PUT", "/v1/accounts/b", `{"kind":"plain"}`)
	ours.Header.Set("Origin", f.server.URL)
	if got := f.do(ours); got.status != 201 {
		t.Errorf("a page of ours in an old browser: %d", got.status)
	}
}

// linkTo is the request of a browser that follows a link on another site.
func linkTo(method, path string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "localhost:8080"
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	return r
}

// A link in a chat or in an alert leads to its page: at once if people sign in, and otherwise after a
// click. What a page of another site could make of it is refused as ever.
func TestLinksFromElsewhere(t *testing.T) {
	for _, token := range []string{"", rightToken} {
		shown := 0
		f := newFixture(t, func(o *Options) {
			o.Token, o.Pages = token, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { shown++ })
			}
		})
		ask := func(r *http.Request) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			f.api.ServeHTTP(w, r)
			return w
		}
		const page = "/account?id=a&x=%2F"
		w := ask(linkTo("GET", page))
		status, refresh := http.StatusForbidden, ""
		if token != "" {
			status, refresh = http.StatusOK, "0; url="+page
		}
		if w.Code != status || w.Header().Get("Refresh") != refresh || !strings.Contains(w.Body.String(), `href="/account?id=a&amp;x=%2F"`) {
			t.Errorf("token %q: %d, %q\n%s", token, w.Code, w.Header().Get("Refresh"), w.Body)
		}
		host := strings.TrimPrefix(f.server.URL, "http://") // where the session begins
		again := linkTo("GET", page)                        // where the page leads
		again.Header.Set("Sec-Fetch-Site", "same-origin")
		neighbour := linkTo("GET", page) // a page at another port, with which browsers send the cookie
		neighbour.Header.Set("Sec-Fetch-Site", "same-site")
		again.Host, neighbour.Host = host, host
		if token != "" {
			cookie := f.signIn(token)
			again.AddCookie(cookie)
			neighbour.AddCookie(cookie)
		}
		if w := ask(neighbour); w.Code != status || shown != 0 {
			t.Errorf("token %q, a neighbour: %d, shown %d times", token, w.Code, shown)
		}
		if w := ask(again); w.Code != http.StatusOK || shown != 1 {
			t.Errorf("token %q, the second time: %d, shown %d times", token, w.Code, shown)
		}

		for name, change := range map[string]func(*http.Request){
			"an API's route":      func(r *http.Request) { r.URL.Path = "/v1/accounts" },
			"metrics":             func(r *http.Request) { r.URL.Path = "/metrics" },
			"a form":              func(r *http.Request) { r.Method = "POST" },
			"a frame":             func(r *http.Request) { r.Header.Set("Sec-Fetch-Dest", "iframe") },
			"a script's request":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "no-cors") },
			"another host's name": func(r *http.Request) { r.URL.Path, r.URL.RawPath = "//evil.example/", "" },
		} {
			r := linkTo("GET", "/account")
			change(r)
			if w := ask(r); strings.Contains(w.Body.String(), "<h1>") || w.Header().Get("Refresh") != "" || shown != 1 {
				t.Errorf("token %q, %s: %d, shown %d times\n%s", token, name, w.Code, shown, w.Body)
			}
		}
		if token == "" {
			r := linkTo("GET", "/account")
			r.Host = "evil.example"
			if w := ask(r); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "<h1>") {
				t.Errorf("another name of this machine: %d\n%s", w.Code, w.Body)
			}
		}
	}
}

// A page whose host name now resolves to 127.0.0.1 reaches the listener, and counts as the
// same site. The server refuses it because of its host name.
func TestRebinding(t *testing.T) {
	f := newFixture(t, nil)
	listener := f.server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(listener)
	if err != nil {
		t.Fatal(err)
	}
	var rebound net.Dialer
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return rebound.DialContext(ctx, "tcp", listener)
		},
	}}
	for host, want := range map[string]int{"evil.example": 403, "localhost.evil.example": 403, "localhost.": 403, "localhost": 200, "127.0.0.1": 200, "[::1]": 200} {
		r, err := http.NewRequest("GET", "http://"+host+":"+port+"/v1/accounts", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d", host, response.StatusCode)
		}
	}
	// A request may name its host twice. The one in its first line counts, and is checked.
	for request, want := range map[string]string{
		"GET http://evil.example/v1/accounts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n": "403",
		"GET /v1/accounts HTTP/1.0\r\n\r\n": "403",
		"GET /v1/accounts HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n": "400",
		"GET /v1/accounts HTTP/1.0\r\nHost: localhost\r\n\r\n":                                            "200",
	} {
		conn, err := rebound.Dial("tcp", listener)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(strings.SplitN(string(reply), "\r\n", 2)[0], " "+want+" ") {
			t.Errorf("%q: %s %v", request, reply, err)
		}
		_ = conn.Close()
	}
}

func probe(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, nil))
	return w
}

func TestOps(t *testing.T) {
	f := newFixture(t, nil)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "rounds_up 1\n") })
	ops := Ops(f.ring, nil, metrics, nil)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/accounts": 404, "/docs": 404} {
		if w := probe(ops, "GET", path); w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := probe(Ops(f.ring, nil, nil, nil), "GET", "/metrics"); w.Code != 404 {
		t.Errorf("no metrics: %d", w.Code)
	}
	f.redis.Miniredis().SetError("LOADING")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200} {
		if w := probe(ops, "GET", path); w.Code != want {
			t.Errorf("%s without Redis: %d", path, w.Code)
		}
	}
}

// A page of another site does not get metrics either.
func TestOpsForForeignPages(t *testing.T) {
	f := newFixture(t, nil)
	ops := Ops(f.ring, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "rounds_up 1\n") }), nil)
	for _, tt := range []struct {
		path, host, site string
		want             int
	}{
		{"/metrics", "localhost:9090", "", 200},
		{"/metrics", "127.0.0.1:9090", "none", 200},
		{"/metrics", "[::1]:9090", "same-origin", 200},
		{"/metrics", "localhost:9090", "cross-site", 403},
		{"/metrics", "localhost:9090", "same-site", 403},
		{"/metrics", "evil.example", "same-origin", 403},
		{"/nothing", "evil.example", "", 403},
		{"/healthz", "rounds-0.pods.example", "", 200},
		{"/readyz", "10.0.0.7:9090", "", 200},
	} {
		r := httptest.NewRequest("GET", tt.path, nil)
		r.Host = tt.host
		if tt.site != "" {
			r.Header.Set("Sec-Fetch-Site", tt.site)
		}
		w := httptest.NewRecorder()
		if ops.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s at %s from %q: %d", tt.path, tt.host, tt.site, w.Code)
		}
	}
}

// If other machines can reach the operators' routes, all of them but the probes demand the
// current token.
func TestOpsWithToken(t *testing.T) {
	f := newFixture(t, nil)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "rounds_up 1\n") })
	token := ""
	ops := Ops(f.ring, nil, metrics, func() string { return token })
	expect := func(given, path string, want int) {
		t.Helper()
		r := httptest.NewRequest("GET", path, nil)
		if given != "" {
			r.Header.Set("Authorization", "Bearer "+given)
		}
		w := httptest.NewRecorder()
		if ops.ServeHTTP(w, r); w.Code != want || want != 200 && strings.Contains(w.Body.String(), "rounds_up") {
			t.Errorf("%s with %q where it is %q: %d %s", path, given, token, w.Code, w.Body)
		}
	}
	expect("", "/metrics", 403)
	for _, token = range []string{"0123456789abcdef", "fedcba9876543210"} {
		for _, given := range []string{"", "wrong", token[1:], token} {
			want := map[bool]int{true: 200, false: 401}[given == token]
			expect(given, "/metrics", want)
			expect(given, "/debug/pprof/", map[int]int{200: 404, 401: 401}[want])
			expect(given, "/healthz", 200)
			expect(given, "/readyz", 200)
		}
	}
	for _, path := range []string{"/v1/stats", "/"} { // a command whose ROUNDS_API_URL leads here
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		if ops.ServeHTTP(w, r); w.Code != 404 || !strings.Contains(w.Body.String(), "ROUNDS_OPS_ADDR") || !strings.Contains(w.Body.String(), "ROUNDS_API_URL") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	expect("0123456789abcdef", "/metrics", 401)
	viewer := f.key(key.New{Name: "prometheus", Role: access.Viewer})
	bound := f.key(key.New{Name: "press", Role: access.Admin, Labels: access.Labels{"team": "press"}})
	for _, token = range []string{"", "fedcba9876543210"} {
		expect(viewer, "/metrics", 200)
		expect(bound, "/metrics", 403)
		expect(viewer[:20], "/metrics", 401)
	}
	other := f.key(key.New{Name: "other", Role: access.Viewer})
	f.redis.Miniredis().SetError("LOADING")
	expect(other, "/metrics", 503)
}

func TestStarting(t *testing.T) {
	var reason error
	h := Starting(func() error { return reason })
	for _, tt := range []struct {
		reason error
		want   string
	}{
		{nil, "starting"},
		{errors.New("dial tcp 10.0.0.1: secret"), "starting: Redis cannot be reached"},
		{circulate.ErrMismatch, "starting: settings disagree with Redis"},
		{fmt.Errorf("redis at 10.0.0.1: %w", redis.Error("WRONGPASS invalid username-password pair")), "starting: Redis was reached, but refused the password"},
		{redis.Error("NOAUTH Authentication required."), "starting: Redis was reached, but it needs a password and got none"},
		{redis.Error("NOPERM no"), "starting: Redis refuses: NOPERM"},
	} {
		reason = tt.reason
		for _, path := range []string{"/readyz", "/v1/accounts", "/metrics"} {
			w := probe(h, "GET", path)
			if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"detail":"`+tt.want+`"`) {
				t.Errorf("%s for %v: %d %s", path, reason, w.Code, w.Body)
			}
		}
		if w := probe(h, "GET", "/healthz"); w.Code != 200 {
			t.Errorf("/healthz: %d", w.Code)
		}
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.Header.Set("Accept", "text/html,*/*")
		h.ServeHTTP(w, r)
		if w.Code != 503 || w.Header().Get("Refresh") == "" || !strings.Contains(w.Body.String(), `role="alert">`+tt.want) {
			t.Errorf("a browser for %v: %d %v %s", reason, w.Code, w.Header(), w.Body)
		}
	}
}
