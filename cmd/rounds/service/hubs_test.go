package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/processes"
)

// hub is a WebSub hub with one feed, as the W3C Recommendation describes it: it verifies the intent
// (section 5.3) before it answers a request (5.1), and distributes content with a signature (7, 7.1).
type hub struct {
	*testing.T
	*httptest.Server

	mu       sync.Mutex
	items    int
	fetched  int
	callback string
	secret   string
	verified chan bool
}

func newHub(t *testing.T) *hub {
	h := &hub{T: t, items: 1, verified: make(chan bool, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /feed", h.feed)
	mux.HandleFunc("POST /hub", h.subscribe)
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) feed(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fetched++
	_, _ = io.WriteString(w, h.document())
}

func (h *hub) document() string {
	text := fmt.Sprintf(`<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><link rel="hub" href="%s/hub"/><link rel="self" href="%[1]s/feed"/>`, h.URL)
	for i := range h.items {
		text += fmt.Sprintf(`<entry><id>item-%d</id><title>n</title></entry>`, i+1)
	}
	return text + `</feed>`
}

func (h *hub) subscribe(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("hub.mode") != "subscribe" || r.FormValue("hub.topic") != h.URL+"/feed" {
		h.Errorf("the hub was asked for %v", r.Form)
	}
	h.mu.Lock()
	h.callback, h.secret = r.FormValue("hub.callback"), r.FormValue("hub.secret")
	h.mu.Unlock()
	query := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {h.URL + "/feed"}, "hub.challenge": {"c-123"}, "hub.lease_seconds": {"864000"}}
	status, said := processes.Get(h.T, r.FormValue("hub.callback")+"?"+query.Encode(), "")
	w.WriteHeader(http.StatusAccepted)
	h.verified <- status == http.StatusOK && said == "c-123"
}

// publish adds an item and pushes the feed. It returns the status of the answer.
func (h *hub) publish(ctx context.Context, secret string) int {
	h.mu.Lock()
	h.items++
	text, callback := h.document(), h.callback
	h.mu.Unlock()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, callback, strings.NewReader(text))
	if err != nil {
		h.Fatal(err)
	}
	request.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	request.Header.Set("Content-Type", "application/atom+xml")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		h.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// A whole service subscribes at the hub of a feed, finds what the hub announces long before the
// account is due, and ends with the account.
func TestServeIsPushed(t *testing.T) {
	h := newHub(t)
	var base atomic.Pointer[url.URL]
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(base.Load()) }})
	defer front.Close()
	p := start(t, map[string]string{
		"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_API_TOKEN": "bearer-0123456789",
		"ROUNDS_PUBLIC_URL": front.URL,
	})
	at := p.base(t, "api")
	processes.AwaitStatus(t, at+"/readyz", http.StatusOK)
	parsed, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	base.Store(parsed)
	calls := client.New(at, "bearer-0123456789")
	defer calls.Close()
	if _, err := calls.Add(t.Context(), accounts.Account{ID: "a/b c", Kind: "feed", Cadence: "every 24h", Config: fmt.Appendf(nil, `{"url":"%s/feed"}`, h.URL)}, ""); err != nil {
		t.Fatal(err)
	}
	if !<-h.verified {
		t.Fatal("the intent was not verified")
	}
	await := func(what string, done func() bool) time.Duration {
		t.Helper()
		began := time.Now()
		for !done() {
			if time.Since(began) > 20*time.Second {
				t.Fatal("it did not come: " + what)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return time.Since(began)
	}
	state := func() string {
		s, err := calls.Schedule(t.Context(), "a/b c")
		if err != nil {
			t.Fatal(err)
		}
		if s.Push == nil {
			return ""
		}
		return s.Push.State
	}
	await("the lease", func() bool { return state() == "live" })
	h.mu.Lock()
	before := h.fetched
	h.mu.Unlock()
	found := func(n int) func() bool {
		return func() bool {
			status, text := processes.Get(t, at+"/v1/messages?account="+url.QueryEscape("a/b c"), "bearer-0123456789")
			return status == http.StatusOK && strings.Contains(text, fmt.Sprintf("item-%d", n))
		}
	}
	if got := h.publish(t.Context(), "another secret"); got != http.StatusNoContent {
		t.Errorf("a push with a wrong signature was answered with %d", got)
	}
	if got := h.publish(t.Context(), h.secret); got != http.StatusNoContent {
		t.Errorf("a push was answered with %d", got)
	}
	t.Logf("the pushed item was there after %v", await("the pushed item", found(3)).Round(time.Millisecond))
	await("trust", func() bool { return state() == "trusted" })
	s, err := calls.Schedule(t.Context(), "a/b c")
	if err != nil || s.Push.Hub != "127.0.0.1" || time.Until(s.Push.Until) < 9*24*time.Hour {
		t.Errorf("the schedule says %+v, %v", s.Push, err)
	}
	h.mu.Lock()
	if n := h.fetched - before; n != 1 {
		t.Errorf("the feed was fetched %d times for two pushes, of which one was signed, want once", n)
	}
	h.mu.Unlock()
	if status, metrics := processes.Get(t, at+"/metrics", "bearer-0123456789"); status != 200 ||
		!strings.Contains(metrics, `rounds_callbacks_total{callback="WebSub",result="nudged"} 1`) || !strings.Contains(metrics, `rounds_callbacks_total{callback="WebSub",result="refused"} 1`) {
		t.Errorf("%d: the pushes are not counted", status)
	}
	if err := calls.Remove(t.Context(), "a/b c"); err != nil {
		t.Fatal(err)
	}
	if got := h.publish(t.Context(), h.secret); got != http.StatusGone {
		t.Errorf("a push to an account that is gone was answered with %d", got)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
