package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/things-go/go-socks5"

	registry "github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// caller is a kind that calls the URL of its account, and counts what came of it.
type caller struct {
	client *fetch.Client

	mu           sync.Mutex
	failed, good map[string]int
}

func (*caller) Kind() string                   { return "caller" }
func (*caller) Validate(json.RawMessage) error { return nil }

func (*caller) RateKey(config json.RawMessage) string { return urlIn(config) }

func urlIn(config json.RawMessage) string {
	var c struct{ URL string }
	_ = json.Unmarshal(config, &c) // the test has written it
	return c.URL
}

func (c *caller) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	_, err := c.client.Do(ctx, fetch.Call{URL: urlIn(r.Config)})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed[r.Account]++
		return poller.Result{}, fetch.SharedCheckError(err)
	}
	c.good[r.Account]++
	return poller.Result{}, nil
}

// reset forgets the counts, and returns how many checks had failed.
func (c *caller) reset() (failed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.failed {
		failed += n
	}
	c.failed, c.good = make(map[string]int), make(map[string]int)
	return failed
}

func (c *caller) succeeded() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.good)
}

// When a real proxy goes away, its way is in trouble, once for all its accounts, whose hosts are not. When
// it is back, all are soon checked.
func TestARealProxyGoesAndComesBack(t *testing.T) {
	t.Parallel()
	host := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(host.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	// The proxy closes what is open when it goes, as a process does that ends.
	var mu sync.Mutex
	var open []net.Conn
	proxy := socks5.NewServer(socks5.WithLogger(socks5.NewLogger(log.New(io.Discard, "", 0))), socks5.WithResolver(unresolved{}),
		socks5.WithDial(func(_ context.Context, network, _ string) (net.Conn, error) {
			conn, err := net.Dial(network, host.Listener.Addr().String())
			mu.Lock()
			defer mu.Unlock()
			open = append(open, conn)
			return conn, err
		}))
	go func() { _ = proxy.Serve(listener) }()

	ways, err := egress.Parse("berlin socks5://" + at + " all")
	if err != nil {
		t.Fatal(err)
	}
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	kind := &caller{client: fetch.New(fetch.Options{Ways: ways})}
	kind.reset()
	checkers, err := poller.NewCheckers(kind)
	if err != nil {
		t.Fatal(err)
	}
	const many = 8
	for i := range many {
		a := registry.Account{ID: fmt.Sprint("a", i), Kind: "caller", Cadence: "every 1s", Config: fmt.Appendf(nil, `{"url":"http://host%d.example/"}`, i)}
		if _, _, err := registry.NewRegistry(ring, checkers).Put(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := poller.New(ring, checkers, poller.Config{Ways: ways}, poller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	troubles := func() map[string]*limit.Trouble {
		all, _, err := limit.TroublesOf(ring).All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	eventually(t, 30*time.Second, "all accounts are checked", func() bool { return kind.succeeded() == many })
	_ = listener.Close()
	mu.Lock()
	for _, conn := range open {
		_ = conn.Close()
	}
	mu.Unlock()
	eventually(t, 30*time.Second, "the way is in trouble", func() bool { return troubles()["egress/berlin"] != nil })
	if all := troubles(); all["egress/berlin"] != nil && all["egress/berlin"].Cause != string(fetch.CodeProxy) {
		t.Errorf("the cause is %s", all["egress/berlin"].Cause)
	}
	if listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	failed := kind.reset()
	go func() { _ = proxy.Serve(listener) }()
	eventually(t, 60*time.Second, "all accounts are checked again", func() bool { return kind.succeeded() == many })
	eventually(t, 10*time.Second, "nothing is in trouble", func() bool { return len(troubles()) == 0 })
	t.Logf("%d checks failed", failed)
	for i := range many {
		v, err := ring.Account(fmt.Sprint("a", i)).Look(t.Context())
		if err != nil || v.Failures != 0 {
			t.Errorf("%s has %d failures, %v", v.ID, v.Failures, err)
		}
	}
}
