package websub

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/fetch"
)

// Whom an account may subscribe to, and at which hub.
func TestWhereAnAccountSubscribes(t *testing.T) {
	const feed, at = "https://blog.example.com/feed.xml", "https://rounds.example.net"
	for name, test := range map[string]struct {
		hub, self, at string
		topic         string // empty: it does not
	}{
		"as it should be":           {"https://hub.example.org/", "https://blog.example.com/feed.xml", at, "https://blog.example.com/feed.xml"},
		"a relative self":           {"https://hub.example.org/", "/other.xml", at, "https://blog.example.com/other.xml"},
		"self without TLS":          {"https://hub.example.org/", "http://BLOG.example.com/feed.xml", at, "http://BLOG.example.com/feed.xml"},
		"self of another host":      {"https://hub.example.org/", "https://news.example.com/feed.xml", at, ""},
		"no self":                   {"https://hub.example.org/", "", at, ""},
		"no hub":                    {"", feed, at, ""},
		"a hub without TLS":         {"http://hub.example.org/", feed, at, ""},
		"a hub of our own network":  {"http://hub.internal/", feed, at, feed},
		"a hub with a password":     {"https://a:b@hub.example.org/", feed, at, ""},
		"a hub that is a file":      {"file:///etc/passwd", feed, at, ""},
		"a relative hub":            {"/hub", feed, at, ""},
		"a long hub":                {"https://hub.example.org/" + strings.Repeat("x", maxAddress), feed, at, ""},
		"a hub with odd bytes":      {"https://hub.example.org/?\xff", feed, at, ""},
		"an API without TLS":        {"https://hub.example.org/", feed, "http://rounds.example.net", ""},
		"an API that nobody sees":   {"https://hub.example.org/", feed, "https://rounds.internal", ""},
		"an API on this machine":    {"https://hub.example.org/", feed, "https://127.0.0.1:8443", ""},
		"a topic that is no feed's": {"https://hub.example.org/", "mailto:a@blog.example.com", at, ""},
	} {
		client := NewClient(fetch.New(fetch.Options{}), test.at)
		got := client.wants(nil, noon, Links{test.hub, test.self}, feed)
		if topic := topicOf(got); topic != test.topic {
			t.Errorf("%s: it subscribes to %q, want %q", name, topic, test.topic)
		}
	}
}

func topicOf(s *Subscription) string {
	if s == nil {
		return ""
	}
	return s.Topic
}

// What a feed names may change with each fetch: its hubs are not asked more often because of that.
func TestAFeedThatChangesItsMind(t *testing.T) {
	client := NewClient(fetch.New(fetch.Options{}), "https://rounds.example.net")
	const feed = "https://blog.example.com/feed.xml"
	var s *Subscription
	asked := 0
	for i := range 24 * 60 {
		now := noon.Add(time.Duration(i) * time.Minute)
		named := Links{"https://hub" + string(rune('a'+i%26)) + ".example.org/", feed}
		if i%3 == 2 {
			named.Hub = ""
		}
		if s = client.wants(s, now, named, feed); s.due(now) {
			asked++
			s.Asked = now
			s.Asks++
		}
	}
	if asked < 2 || asked > 6 {
		t.Errorf("hubs were asked %d times in a day", asked)
	}
	if client.wants(s, noon.Add(72*time.Hour), Links{}, feed) != nil {
		t.Error("the subscription stays although the feed has named no hub for days")
	}
}

// The request is as section 5.1 has it. A redirect is followed only to where the hub itself could be.
func TestARequestToAHub(t *testing.T) {
	forms := make(chan url.Values, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hub", func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		forms <- r.PostForm
	})
	mux.HandleFunc("POST /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/hub", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("POST /away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://hub.example.org/", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("POST /loop", func(w http.ResponseWriter, r *http.Request) {
		forms <- nil
		http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	http1 := fetch.New(fetch.Options{AllowPrivate: true})
	defer http1.Close()
	for _, path := range []string{"/hub", "/moved", "/away", "/loop"} {
		client := NewClient(http1, "https://rounds.example.net/")
		s := &Subscription{Hub: server.URL + path, Topic: "https://t/?a=b&c", Token: "tok", Secret: "sec"}
		client.ask(t.Context(), "a/b c", s, noon)
		if s.Asks != 1 || !s.Asked.Equal(noon) {
			t.Errorf("%s: %+v", path, s)
		}
		client.ask(t.Context(), "another", &Subscription{Hub: s.Hub}, noon) // too soon after the first
	}
	want := url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {"https://t/?a=b&c"}, "hub.secret": {"sec"},
		"hub.callback": {"https://rounds.example.net/v1/callbacks/websub/" + base64.RawURLEncoding.EncodeToString([]byte("a/b c")) + "/tok"},
	}.Encode()
	for range 2 {
		if got := (<-forms).Encode(); got != want {
			t.Errorf("the hub got %s, want %s", got, want)
		}
	}
	if n := len(forms); n != 1+hubRedirects {
		t.Errorf("a hub that redirects for ever was called %d times, want %d", n, 1+hubRedirects)
	}
}

// A new subscription is written before the hub hears of it, and nothing is asked by a check that tries.
func TestPlannedFirst(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	defer server.Close()
	http1 := fetch.New(fetch.Options{AllowPrivate: true})
	defer http1.Close()
	client := NewClient(http1, server.URL)
	check := func(have *Subscription, quiet bool) (*Subscription, bool, bool) {
		l := client.Listen("a", have, nil, quiet)
		l.Read(Links{server.URL + "/hub", server.URL + "/feed"}, server.URL+"/feed")
		now, planned := l.End(context.WithoutCancel(t.Context()), true)
		return now, planned, l.Changed()
	}
	if s, planned, changed := check(nil, true); s != nil || planned || changed {
		t.Errorf("a check that only tries plans %+v", s)
	}
	s, planned, changed := check(nil, false)
	if s == nil || !planned || !changed || calls != 0 || !s.Valid() {
		t.Fatalf("the first page: %+v, planned %t, changed %t, calls %d", s, planned, changed, calls)
	}
	written := *s
	if s, planned, changed = check(&written, false); planned || !changed || calls != 1 || s.Asks != 1 {
		t.Errorf("the second page: %+v, planned %t, changed %t, calls %d", s, planned, changed, calls)
	}
	written = *s
	if _, planned, changed = check(&written, false); planned || changed || calls != 1 {
		t.Errorf("the next check: planned %t, changed %t, calls %d", planned, changed, calls)
	}
	l := client.Listen("a", &written, nil, false)
	l.Leave()
	if now, planned := l.End(t.Context(), false); now != nil || planned || !l.Changed() {
		t.Errorf("an account that leaves keeps %+v", now)
	}
	// A process without an address lets others subscribe.
	l = NewClient(http1, "").Listen("a", &written, nil, false)
	l.Read(Links{}, server.URL+"/feed")
	if now, _ := l.End(t.Context(), false); now == nil || l.Changed() {
		t.Error("a process that hubs cannot reach ended the subscription of another")
	}
}

// Link fields come in many forms (RFC 8288).
func TestLinks(t *testing.T) {
	for text, want := range map[string]Links{
		`<https://hub/>; rel="hub", <https://self/>; rel="self"`:                 {"https://hub/", "https://self/"},
		`<https://self/>;rel=self,<https://hub/>;rel=hub`:                        {"https://hub/", "https://self/"},
		`<https://hub/?a,b;c>; title="x, <y>; rel=self"; REL="Hub"`:              {"https://hub/?a,b;c", ""},
		`<https://x/>; rel="self hub"`:                                           {"https://x/", "https://x/"},
		`<https://first/>; rel=hub, <https://second/>; rel=hub`:                  {"https://first/", ""},
		`<https://next/>; rel="next", <https://hub/>; rel="hubcap", <>; rel=hub`: {},
		`https://hub/; rel=hub`:                                                  {},
		`<https://hub/`:                                                          {},
	} {
		if got := LinksOf(http.Header{"Link": {text}}); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	if got := LinksOf(http.Header{"Link": {"<https://self/>; rel=self", "<https://hub/>; rel=hub"}}); got != (Links{"https://hub/", "https://self/"}) {
		t.Errorf("two fields: %+v", got)
	}
	if got := (Links{Hub: "a"}).Or(Links{"b", "c"}); got != (Links{"a", "c"}) {
		t.Errorf("%+v", got)
	}
}
