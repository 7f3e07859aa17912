package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/testing/dnstest"
)

// counting answers every question for a name with the same addresses, and counts those for IPv4.
func counting(t *testing.T, addresses ...string) (*net.Resolver, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	return dnstest.Resolver(func(string) (all []netip.Addr) {
		asked.Add(1)
		for _, a := range addresses {
			all = append(all, netip.MustParseAddr(a))
		}
		return all
	}), &asked
}

// expire makes the remembered addresses of a name too old.
func (n *names) expire(name string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.known[name]
	left := time.Until(known.until)
	known.until = time.Now()
	n.known[name] = known
	return left
}

// A host that closes its connections is asked for by name once in a while, and its address is
// judged at each connection.
func TestNamesAreRemembered(t *testing.T) {
	base, err := url.Parse(serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	if err != nil {
		t.Fatal(err)
	}
	names, asked := counting(t, "127.0.0.1")
	c := client(t, Options{Resolver: names})
	call := Call{URL: "http://host.test:" + base.Port()}
	want := func(ok, questions bool) {
		t.Helper()
		before := asked.Load()
		_, err := c.Do(t.Context(), call)
		if (err == nil) != ok {
			t.Errorf("got %v", err)
		}
		if n := asked.Load() - before; (n > 0) != questions {
			t.Errorf("%d questions", n)
		}
	}
	want(true, true)
	want(true, false)
	if left := c.way.Load().names.expire("host.test"); left <= 0 || left > nameKept {
		t.Errorf("it is remembered for %v", left)
	}
	want(true, true)
	// A remembered address is judged like a new one.
	c.way.Load().rule = Rule{}
	want(false, false)
	c.Permit(networks("10.0.0.0/8"))
	want(false, true)
	want(false, false)
}

// A name that does not exist is remembered only for a moment, and a failed question not at all.
func TestUnknownNames(t *testing.T) {
	missing, asked := counting(t)
	n := newNames(missing)
	for i, questions := range []bool{true, false} {
		before := asked.Load()
		_, err := n.of(t.Context(), "nowhere.test.")
		var failed *net.DNSError
		if !errors.As(err, &failed) || !failed.IsNotFound || (asked.Load() > before) != questions {
			t.Errorf("question %d: %v, asked %d times", i, err, asked.Load()-before)
		}
	}
	if left := n.expire("nowhere.test."); left <= 0 || left > nameUnknown {
		t.Errorf("it is remembered for %v", left)
	}
	var tried atomic.Int64
	n = newNames(&net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		tried.Add(1)
		return nil, errors.New("no way")
	}})
	for range 2 {
		before := tried.Load()
		if _, err := n.of(t.Context(), "host.test."); err == nil || tried.Load() == before || len(n.known) > 0 {
			t.Errorf("got %v, %d questions, %d remembered", err, tried.Load()-before, len(n.known))
		}
	}
}

func TestNamesAreBounded(t *testing.T) {
	n, now := newNames(nil), time.Now()
	for i := range namesKept {
		n.remember(fmt.Sprint(i), named{until: now.Add(time.Duration(i%2) * time.Minute)}, now)
	}
	n.remember("one more", named{until: now.Add(time.Minute)}, now)
	if _, ok := n.remembered("one more", now); !ok || len(n.known) != namesKept/2+1 {
		t.Errorf("%d remembered after those that are out of date made room", len(n.known))
	}
	for i := range namesKept {
		n.remember(fmt.Sprint("more ", i), named{until: now.Add(time.Minute)}, now)
	}
	if len(n.known) > namesKept {
		t.Errorf("%d remembered", len(n.known))
	}
}

// Each address of a host is tried, and one that refuses does not keep the next from it.
func TestEachAddressIsTried(t *testing.T) {
	base, err := url.Parse(serve(t, func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, addresses := range [][]string{{"127.0.0.2", "127.0.0.1"}, {"10.0.0.1", "127.0.0.2", "127.0.0.1"}, {"::1", "127.0.0.1"}} {
		names, _ := counting(t, addresses...)
		c := client(t, Options{Resolver: names, Networks: networks("127.0.0.1,127.0.0.2")})
		if _, err := c.Do(t.Context(), Call{URL: "http://host.test:" + base.Port()}); err != nil {
			t.Errorf("%v: %v", addresses, err)
		}
	}
}

// fakeConn is a connection that only notes whether it was closed.
type fakeConn struct {
	net.Conn
	name   string
	closed atomic.Bool
}

func (c *fakeConn) Close() error {
	c.closed.Store(true)
	return nil
}

// The second family of addresses gets its chance when the first has failed or takes long, and
// only one connection stays.
func TestEitherOf(t *testing.T) {
	broken := errors.New("broken")
	type way struct {
		takes time.Duration
		err   error
	}
	for _, test := range []struct {
		first, second way
		want          string
		took          time.Duration
	}{
		{way{100 * time.Millisecond, nil}, way{0, nil}, "first", 100 * time.Millisecond},
		{way{10 * time.Millisecond, broken}, way{50 * time.Millisecond, nil}, "second", 60 * time.Millisecond},
		{way{time.Second, nil}, way{50 * time.Millisecond, nil}, "second", 350 * time.Millisecond},
		{way{400 * time.Millisecond, nil}, way{time.Second, nil}, "first", 400 * time.Millisecond},
		{way{400 * time.Millisecond, nil}, way{50 * time.Millisecond, errors.New("other")}, "first", 400 * time.Millisecond},
		{way{time.Second, broken}, way{50 * time.Millisecond, errors.New("other")}, "", time.Second},
		{way{10 * time.Millisecond, broken}, way{50 * time.Millisecond, errors.New("other")}, "", 60 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var conns []*fakeConn
			dial := func(name string, w way) func(context.Context) (net.Conn, error) {
				c := &fakeConn{name: name}
				if w.err == nil {
					conns = append(conns, c)
				}
				return func(context.Context) (net.Conn, error) { // one that does not heed its context
					time.Sleep(w.takes)
					if w.err != nil {
						return nil, w.err
					}
					return c, nil
				}
			}
			began := time.Now()
			got, err := eitherOf(t.Context(), dial("first", test.first), dial("second", test.second))
			if took := time.Since(began); took != test.took {
				t.Errorf("%+v: took %v", test, took)
			}
			if c, ok := got.(*fakeConn); ok && c.name != test.want || ok != (test.want != "") || !ok && !errors.Is(err, broken) {
				t.Errorf("%+v: got %v, %v", test, got, err)
			}
			time.Sleep(time.Minute)
			for _, c := range conns {
				if c.name != test.want && !c.closed.Load() && !(c.name == "second" && test.took == 100*time.Millisecond) {
					t.Errorf("%+v: the connection of the %s stays open", test, c.name)
				}
				if c.name == test.want && c.closed.Load() {
					t.Errorf("%+v: the connection is closed", test)
				}
			}
		})
	}
}
