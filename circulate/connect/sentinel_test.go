package connect_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// sentinel is a fake that names an address as the master of that epoch.
func sentinel(t *testing.T, address, epoch string) *fake {
	t.Helper()
	return startFake(t, map[string]handler{"SENTINEL": names(address, epoch), "SUBSCRIBE": refuses("ERR not here")})
}

func names(address, epoch string) handler {
	host, port, _ := strings.Cut(address, ":")
	return func(c *server.Peer, args []string) {
		switch {
		case args[1] != "main":
			c.WriteNull()
		case strings.EqualFold(args[0], "MASTER"):
			c.WriteStrings([]string{"name", "main", "config-epoch", epoch})
		default:
			c.WriteStrings([]string{host, port})
		}
	}
}

func openSentinel(t *testing.T, rest string, fakes ...*fake) *connect.Sentinel {
	t.Helper()
	var addresses []string
	for _, f := range fakes {
		addresses = append(addresses, f.address())
	}
	s, err := connect.OpenSentinel("redis+sentinel://"+strings.Join(addresses, ",")+"/"+rest, connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func role(name string) handler {
	return func(c *server.Peer, _ []string) { c.WriteStrings([]string{name}) }
}

// TestSentinelsWordIsChecked checks that a server that is not the master is not used,
// whoever names it.
func TestSentinelsWordIsChecked(t *testing.T) {
	t.Parallel()
	replica := startFake(t, map[string]handler{"ROLE": role("slave")})
	_, err := openSentinel(t, "main", sentinel(t, replica.address(), "1")).Conn(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "is not the master but slave") || !strings.Contains(err.Error(), replica.address()) {
		t.Errorf("a replica: %v", err)
	}
	silent := startFake(t, map[string]handler{"ROLE": refuses("NOPERM this user has no permissions to run the 'role' command")})
	conn, err := openSentinel(t, "main", sentinel(t, silent.address(), "1")).Conn(t.Context(), "")
	if err != nil {
		t.Fatalf("who may not ask must make do: %v", err)
	}
	_ = conn.Close()
	ignorant := openSentinel(t, "other", sentinel(t, replica.address(), "1"))
	_, err = ignorant.Conn(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), `"other"`) || !strings.Contains(err.Error(), "knows no master of that name") {
		t.Errorf("another name: %v", err)
	}
	if ignorant.Silent() == 0 {
		t.Error("a sentinel that told nothing is not counted")
	}
}

// TestLatestWordCounts also asks a sentinel that is cut off from the others.
func TestLatestWordCounts(t *testing.T) {
	t.Parallel()
	before := startFake(t, map[string]handler{"ROLE": role("master"), "GET": says("before")})
	now := startFake(t, map[string]handler{"ROLE": role("master"), "GET": says("now")})
	s := openSentinel(t, "main", sentinel(t, before.address(), "3"), sentinel(t, now.address(), "4"), sentinel(t, before.address(), "2"))
	conn, err := s.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := redis.String(conn.Do("GET", "key")); got != "now" || err != nil || s.Master() != now.address() {
		t.Errorf("%q, %v; master %s", got, err, s.Master())
	}
}

// TestReplyOfAReplacedMasterIsNoReply has a master answer a call only after another has
// taken its place, as a frozen one does. The call was done, but does not count.
func TestReplyOfAReplacedMasterIsNoReply(t *testing.T) {
	t.Parallel()
	answeringLate(t, func(t *testing.T, late handler, ask func(conn redis.Conn, replace func()) error) {
		zombie := startFake(t, map[string]handler{"ROLE": role("master"), "GET": late})
		next := startFake(t, map[string]handler{"ROLE": role("master"), "GET": says("next")})
		var word atomic.Pointer[handler]
		say := func(address, epoch string) {
			h := names(address, epoch)
			word.Store(&h)
		}
		say(zombie.address(), "1")
		s := openSentinel(t, "main", startFake(t, map[string]handler{
			"SENTINEL":  func(c *server.Peer, args []string) { (*word.Load())(c, args) },
			"SUBSCRIBE": refuses("ERR not here"),
		}))
		conn, err := s.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = ask(conn, func() {
			say(next.address(), "2")
			for s.Master() != next.address() {
				<-time.After(time.Millisecond)
			}
		})
		if err == nil || !strings.Contains(err.Error(), "another server had become the master") || conn.Err() == nil {
			t.Errorf("got %v; the connection: %v", err, conn.Err())
		}
	})
}

// TestReadOnlyServerIsLeft has a master become a replica while a connection to it lives.
func TestReadOnlyServerIsLeft(t *testing.T) {
	t.Parallel()
	demoted := startFake(t, map[string]handler{
		"ROLE": role("master"),
		"SET":  refuses("READONLY You can't write against a read only replica."),
	})
	s := openSentinel(t, "main", sentinel(t, demoted.address(), "1"))
	for range 3 {
		conn, err := s.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Do("SET", "key", "value"); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
			t.Errorf("got %v", err)
		}
		_ = conn.Close()
	}
	if n := demoted.count("ROLE"); n != 3 {
		t.Errorf("asked for its role %d times, want 3: the connection was used again", n)
	}
}

func TestSentinelsWithPasswordsOfTheirOwn(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	for i, s := range append(set.Sentinels, set.Servers...) {
		conn, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		password := "sentinels"
		if i >= len(set.Sentinels) {
			password = "servers"
		}
		if _, err := conn.Do("ACL", "SETUSER", "rounds", "on", ">"+password, "~*", "&*", "+@all"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Do("ACL", "SETUSER", "default", "resetpass", ">other"); err != nil {
			t.Fatal(err)
		}
	}
	with := func(user, query string) error {
		s, err := connect.OpenSentinel(strings.Replace(set.URL(), "://", "://"+user, 1)+query, connect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		conn, err := s.Conn(t.Context(), "")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Do("SELECT", 2)
		return err
	}
	if err := with("rounds:servers@", "?sentinel_user=rounds&sentinel_password=sentinels&db=3"); err != nil {
		t.Error(err)
	}
	if err := with("rounds:servers@", "?sentinel_user=rounds&sentinel_password=servers"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("the sentinels took a wrong password: %v", err)
	}
	if err := with("rounds:servers@", ""); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("the sentinels took none: %v", err)
	}
	if err := with("rounds:hunter2@", "?sentinel_user=rounds&sentinel_password=sentinels"); err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the master took a wrong password: %v", err)
	}
}
