package connect_test

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func openCluster(t *testing.T, addresses ...string) *connect.Cluster {
	t.Helper()
	c, err := connect.OpenCluster("redis+cluster://"+strings.Join(addresses, ","), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// node is a fake that claims to serve everything.
func node(t *testing.T, handlers map[string]handler) *fake {
	t.Helper()
	f := startFake(t, handlers)
	f.on(t, "CLUSTER", slots(f.address))
	return f
}

// do lends a connection for a key and does one command.
func do1(t *testing.T, c *connect.Cluster, timeout time.Duration) (any, error) {
	t.Helper()
	conn, err := c.Conn(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return redis.DoWithTimeout(conn, timeout, "GET", "key")
}

// moved starts two nodes of a cluster, of which the wrong one says that the key is at the
// right one. The cluster's map says so too once the wrong one was asked: a slow test reads it
// again.
func moved(t *testing.T) (right, wrong *fake) {
	t.Helper()
	right = node(t, map[string]handler{"GET": says("right")})
	wrong = startFake(t, map[string]handler{"GET": refuses("MOVED 12539 " + right.address())})
	wrong.on(t, "CLUSTER", slots(func() string {
		if wrong.count("GET") > 0 {
			return right.address()
		}
		return wrong.address()
	}))
	return right, wrong
}

func TestMovedIsFollowedAndRemembered(t *testing.T) {
	t.Parallel()
	right, wrong := moved(t)
	c := openCluster(t, wrong.address())
	for range 3 {
		if got, err := redis.String(do1(t, c, time.Second)); got != "right" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if n := wrong.count("GET"); n != 1 {
		t.Errorf("the wrong node was asked %d times", n)
	}
	if n := c.Redirected(); n != 1 {
		t.Errorf("%d redirects are counted", n)
	}
	if got := c.NodeOf("key"); got != right.address() {
		t.Errorf("node of the key: %s", got)
	}
}

func TestAskIsFollowedOnceAndNotRemembered(t *testing.T) {
	t.Parallel()
	asking := false
	target := node(t, map[string]handler{
		"ASKING": func(c *server.Peer, _ []string) { asking = true; c.WriteOK() },
		"GET": func(c *server.Peer, _ []string) {
			if !asking {
				c.WriteError("MOVED 12539 127.0.0.1:1")
				return
			}
			asking = false
			c.WriteBulk("there")
		},
	})
	source := node(t, map[string]handler{"GET": refuses("ASK 12539 " + target.address())})
	c := openCluster(t, source.address())
	conn, err := c.Conn(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		if got, err := redis.String(redis.DoWithTimeout(conn, time.Second, "GET", "key")); got != "there" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if n := source.count("GET"); n != 3 {
		t.Errorf("the source was asked %d times, want 3", n)
	}
}

func TestTryAgainIsTriedAgainForAWhile(t *testing.T) {
	t.Parallel()
	left := 3
	short := node(t, map[string]handler{"GET": func(c *server.Peer, _ []string) {
		if left--; left >= 0 {
			c.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return
		}
		c.WriteBulk("done")
	}})
	if got, err := redis.String(do1(t, openCluster(t, short.address()), time.Second)); got != "done" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	long := node(t, map[string]handler{"GET": refuses("TRYAGAIN Multiple keys request during rehashing of slot")})
	// On a busy machine the time may be over before the node has answered at all. The
	// outcome is unknown then, which is right, and shows nothing.
	c := openCluster(t, long.address())
	for try := range 20 {
		_, err := do1(t, c, 50*time.Millisecond)
		var refused redis.Error
		if errors.As(err, &refused) {
			return
		}
		var late net.Error
		if !errors.As(err, &late) || !late.Timeout() || try == 19 {
			t.Fatalf("got %v, want the refusal: it was not done", err)
		}
	}
}

// TestRedirectionsToNowhereAreCertain checks that a command that was refused and could
// not be sent on is known not to be done.
func TestRedirectionsToNowhereAreCertain(t *testing.T) {
	t.Parallel()
	nowhere := closedAddress(t)
	for name, text := range map[string]string{
		"moved": "MOVED 12539 " + nowhere,
		"ask":   "ASK 12539 " + nowhere,
	} {
		f := node(t, map[string]handler{"GET": refuses(text)})
		var refused redis.Error
		if _, err := do1(t, openCluster(t, f.address()), time.Second); !errors.As(err, &refused) || !strings.HasPrefix(string(refused), strings.ToUpper(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Round and round.
	var self *fake
	self = node(t, map[string]handler{"GET": func(c *server.Peer, _ []string) { c.WriteError("MOVED 12539 " + self.address()) }})
	var refused redis.Error
	if _, err := do1(t, openCluster(t, self.address()), time.Second); !errors.As(err, &refused) {
		t.Errorf("in a circle: %v", err)
	}
	if n := self.count("GET"); n != 6 {
		t.Errorf("asked %d times, want 6", n)
	}
}

// TestReplyOfAReplacedNodeIsNoReply has a node answer a call only after another has taken
// its place, as a frozen master does. The call was done, but does not count.
func TestReplyOfAReplacedNodeIsNoReply(t *testing.T) {
	t.Parallel()
	answeringLate(t, func(t *testing.T, late handler, ask func(conn redis.Conn, replace func()) error) {
		next := node(t, nil)
		zombie := startFake(t, map[string]handler{"GET": late})
		var serving atomic.Pointer[fake]
		serving.Store(zombie)
		zombie.on(t, "CLUSTER", slots(func() string { return serving.Load().address() }))
		c := openCluster(t, zombie.address())
		conn, err := c.Conn(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = ask(conn, func() {
			serving.Store(next)
			if _, err := c.Nodes(t.Context()); err != nil { // reads the map
				t.Error(err)
			}
		})
		if err == nil || !strings.Contains(err.Error(), "serves nothing any more") {
			t.Errorf("got %v", err)
		}
	})
}

// TestUnknownIsNotSentAgain has a node do a command and then break the connection, or
// stay silent. The outcome is unknown, so the caller must decide what to do.
func TestUnknownIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]handler{
		"cut":    func(c *server.Peer, _ []string) { c.Close() },
		"silent": func(*server.Peer, []string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := node(t, map[string]handler{"GET": get})
			got, err := do1(t, openCluster(t, f.address()), 100*time.Millisecond)
			var reply redis.Error
			if err == nil || errors.As(err, &reply) {
				t.Errorf("%v, %v: want an error that is no reply", got, err)
			}
			if n := f.count("GET"); n != 1 {
				t.Errorf("done %d times, want once", n)
			}
		})
	}
}

func TestPipelinesAreNotSentOn(t *testing.T) {
	t.Parallel()
	_, wrong := moved(t)
	c := openCluster(t, wrong.address())
	conn, err := c.Conn(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := conn.Send("GET", "key"); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if reply, err := conn.Receive(); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
			t.Errorf("%v, %v", reply, err)
		}
	}
	_ = conn.Close()
	if got, err := redis.String(do1(t, c, time.Second)); got != "right" || err != nil || wrong.count("GET") != 2 {
		t.Errorf("the next try: %q, %v; the wrong node was asked %d times", got, err, wrong.count("GET"))
	}
}

func TestNoNodeOfTheClusterAnswers(t *testing.T) {
	t.Parallel()
	one, two := closedAddress(t), closedAddress(t)
	_, err := openCluster(t, one, two).Conn(t.Context(), "key")
	if err == nil || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two) {
		t.Errorf("got %v", err)
	}
	plain := redistest.Start(t)
	_, err = openCluster(t, plain.Addr()).Conn(t.Context(), "key")
	if err == nil || !strings.Contains(err.Error(), "cluster support disabled") {
		t.Errorf("of a server that is in no cluster: %v", err)
	}
	lone := redistest.StartNode(t, false)
	_, err = openCluster(t, one, lone.Addr()).Conn(t.Context(), "key")
	if err == nil || !strings.Contains(err.Error(), "serves no slots") {
		t.Errorf("of a cluster without slots: %v", err)
	}
	closed := openCluster(t, one)
	_ = closed.Close()
	if _, err := closed.Conn(t.Context(), "key"); err == nil {
		t.Error("a closed one lends")
	}
}

// TestClusterWithPassword reaches every node with
// the URL's password.
func TestClusterWithPassword(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	for _, s := range cluster.Servers() {
		conn, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Do("CONFIG", "SET", "requirepass", "hunter2"); err != nil {
			t.Fatal(err)
		}
	}
	with := func(user string) error {
		c, err := connect.OpenCluster(strings.Replace(cluster.URL(), "://", "://"+user, 1), connect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			conn, err := c.Conn(t.Context(), key)
			if err != nil {
				return err
			}
			_, err = conn.Do("INCR", key)
			_ = conn.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := with(":hunter2@"); err != nil {
		t.Error(err)
	}
	if err := with(""); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
	if err := with(":hunter22@"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("with a wrong one: %v", err)
	}
}

// TestClusterOverTLS has one node: only how it is reached counts.
func TestClusterOverTLS(t *testing.T) {
	t.Parallel()
	process := redistest.StartNode(t, true, redistest.WithTLS(), redistest.WithArgs("--tls-cluster", "yes"))
	url := "rediss+cluster://" + process.Addr()
	trusting, err := connect.Open(url, connect.Options{CAFile: process.CAFile()})
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.Close()
	conn, err := trusting.Conn(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	doubting, err := connect.Open(url, connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer doubting.Close()
	if _, err := doubting.Conn(t.Context(), "key"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("whom nobody trusts was trusted: %v", err)
	}
}
