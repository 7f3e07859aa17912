package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

// calling is an API with one callback, and WeCom's side of the callback.
type calling struct {
	*fixture
	crypt    *wecomseal.Crypt
	registry *prometheus.Registry
}

func startCalling(t *testing.T) *calling {
	t.Helper()
	const token, key = "QDG6eK", "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
	c := &calling{registry: prometheus.NewRegistry()}
	var err error
	if c.crypt, err = wecomseal.New(token, key, "ww1"); err != nil {
		t.Fatal(err)
	}
	address, err := callback.NewAddress(callback.Config{Name: "acme", CorpID: "ww1", Account: callback.DefaultAccount}, token, key)
	if err != nil {
		t.Fatal(err)
	}
	c.fixture = newFixture(t, func(o *Options) {
		o.Token = "bearer"
		if o.Callbacks, err = callback.New(o.Ring, []*callback.Address{address}, o.Log); err != nil {
			t.Fatal(err)
		}
		o.CallbackMetrics = NewCallbackMetrics(c.registry)
	})
	c.token = "" // WeCom does not send the API's token
	return c
}

func (c *calling) event(openKfID string) (url.Values, string) {
	c.Helper()
	query, body, err := c.crypt.Seal(wecomcrypt.Event{ToUserName: "ww1", CreateTime: time.Now().Unix(), MsgType: "event",
		Event: wecomcrypt.EventMessages, Token: "tok", OpenKfID: openKfID}, "nonce", time.Now())
	if err != nil {
		c.Fatal(err)
	}
	return query, string(body)
}

func (c *calling) send(method, name string, query url.Values, body string) reply {
	c.Helper()
	return c.do(c.request(method, "/v1/callbacks/wecom/"+name+"?"+query.Encode(), body))
}

func (c *calling) counted(name string, result callback.Result, want float64) {
	c.Helper()
	// The handler counts before it answers.
	families, err := c.registry.Gather()
	if err != nil {
		c.Fatal(err)
	}
	got := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if l := m.GetLabel(); l[0].GetValue() == name && l[1].GetValue() == string(result) {
				got += m.GetCounter().GetValue()
			}
		}
	}
	if got != want {
		c.Errorf("%v callbacks of %q were %s, want %v", got, name, result, want)
	}
}

func TestWeComCalls(t *testing.T) {
	c := startCalling(t)
	echo := c.send("GET", "acme", c.crypt.SealEcho("1616140317555161061", "n", time.Now()), "")
	if echo.status != 200 || echo.body != "1616140317555161061" {
		t.Errorf("the echo is %+v", echo)
	}
	c.counted("acme", callback.Verified, 1)
	shard := c.ring.ShardOf("wk1")
	if _, err := c.ring.Register(t.Context(), shard, []circulate.Registration{{ID: "wk1", Due: time.Now().Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	query, body := c.event("wk1")
	for range 2 {
		if got := c.send("POST", "acme", query, body); got.status != 200 || got.body != "success" {
			t.Errorf("%+v", got)
		}
	}
	c.counted("acme", callback.Nudged, 1)
	c.counted("acme", callback.Repeated, 1)
	batch, err := c.ring.Claim(t.Context(), shard, "replica001", 10, 0)
	if err != nil || len(batch.Claims) != 1 || string(batch.Claims[0].Hint) != `{"token":"tok"}` {
		t.Errorf("%+v, %v", batch.Claims, err)
	}
	query, body = c.event("wk2") // WeCom must not repeat an event of an account that is not registered
	if got := c.send("POST", "acme", query, body); got.status != 200 || got.body != "success" {
		t.Errorf("%+v", got)
	}
	c.counted("acme", callback.UnknownAccount, 1)
}

// TestForgersAreToldNothing expects the same answer, whatever is wrong with the request.
func TestForgersAreToldNothing(t *testing.T) {
	c := startCalling(t)
	query, body := c.event("wk1")
	none := url.Values{}
	wrongReceiver, err := wecomseal.New("QDG6eK", "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C", "ww2")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, misled, err := wrongReceiver.Seal(wecomcrypt.Event{}, "n", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	old, oldBody, err := c.crypt.Seal(wecomcrypt.Event{}, "n", time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	refused := []reply{
		c.send("POST", "nobody", query, body), c.send("POST", "acme", none, body), c.send("POST", "acme", query, ""),
		c.send("POST", "acme", query, "<xml><Encrypt>P9nA</Encrypt></xml>"), c.send("POST", "acme", query, strings.Repeat("x", maxCallback+1)),
		c.send("POST", "acme", elsewhere, string(misled)), c.send("POST", "acme", old, string(oldBody)),
		c.send("GET", "acme", none, ""), c.send("GET", "nobody", query, ""), c.send("GET", "acme", query, ""),
	}
	for i, got := range refused {
		if got.status != http.StatusForbidden || got.body != refused[0].body {
			t.Errorf("%d: %d %s, want %s", i, got.status, got.body, refused[0].body)
		}
	}
	c.counted("", callback.NoSuch, 2)
	c.counted("acme", callback.Stale, 1)
	c.counted("acme", callback.Refused, 7)
	if logs := c.logs.String(); logs != "" {
		t.Errorf("a forger fills the log: %s", logs)
	}
	// All other routes still demand the token.
	if got := c.do(c.request("GET", "/v1/accounts", "")); got.status != 401 {
		t.Errorf("%+v", got)
	}
	if got := c.do(c.request("PUT", "/v1/callbacks/wecom/acme", "")); got.status != 401 && got.status != 405 {
		t.Errorf("%+v", got)
	}
}

func TestACallbackComesAgainWhenRedisIsAway(t *testing.T) {
	c := startCalling(t)
	query, body := c.event("wk1")
	if err := c.redis.Close(); err != nil {
		t.Fatal(err)
	}
	got := c.send("POST", "acme", query, body)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	c.counted("acme", callback.Unavailable, 1)
	if got := c.send("POST", "acme", url.Values{"timestamp": query["timestamp"]}, body); got.status != http.StatusForbidden {
		t.Errorf("a forger learns that Redis is away: %+v", got)
	}
}

func TestCallbacksAreDescribed(t *testing.T) {
	c := startCalling(t)
	c.token = "bearer"
	var doc struct {
		Paths map[string]map[string]struct{ Security []map[string][]string }
	}
	c.call("GET", "/openapi.json", "", 200, &doc)
	path := doc.Paths["/v1/callbacks/wecom/{name}"]
	for _, method := range []string{"get", "post"} {
		if o, ok := path[method]; !ok || len(o.Security) != 1 || len(o.Security[0]) != 0 {
			t.Errorf("%s: %+v", method, o)
		}
	}
}

func TestResumeFrom(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	f.call("POST", "/v1/accounts/a/pause", "", 200, nil)
	if got := f.call("POST", "/v1/accounts/a/resume", `{"from":"then"}`, 422, nil); !strings.Contains(got.body, "body.from") {
		t.Errorf("%+v", got)
	}
	var account Account
	f.call("POST", "/v1/accounts/a/resume", `{"from":"now"}`, 200, &account)
	if account.State.Place != circulate.Scheduled {
		t.Errorf("%+v", account.State)
	}
	var s Schedule
	f.call("GET", "/v1/accounts/a/schedule", "", 200, &s)
	if s.Skip.IsZero() || s.Now.Sub(s.Skip).Abs() > time.Minute || s.Headroom != nil {
		t.Errorf("%+v", s)
	}
	f.call("POST", "/v1/accounts/a/pause", "", 200, nil)
	f.call("POST", "/v1/accounts/a/resume", `{"from":"backfill"}`, 200, nil)
	s = Schedule{}
	f.call("GET", "/v1/accounts/a/schedule", "", 200, &s)
	if !s.Skip.IsZero() {
		t.Errorf("%+v", s)
	}
}
