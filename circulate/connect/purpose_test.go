package connect_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A connection of each purpose is lent although all connections of the others are in use,
// however Redis is reached.
func TestConnectionsAreApartForEachPurpose(t *testing.T) {
	t.Parallel()
	one := connect.Options{MaxConns: 1}
	alone := node(t, map[string]handler{"PING": says("PONG"), "ROLE": role("master")})
	opened := func(s connect.Server, err error) connect.Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for name, server := range map[string]connect.Server{
		"single":   opened(connect.Open("redis://"+alone.address(), one)),
		"cluster":  opened(connect.Open("redis+cluster://"+alone.address(), one)),
		"sentinel": opened(connect.Open("redis+sentinel://"+sentinel(t, alone.address(), "1").address()+"/main", one)),
		"embedded": redistest.Embedded(t),
	} {
		for purpose, lend := range map[string]func(context.Context, string) (redis.Conn, error){
			"ordinary": server.Conn, "vital": server.VitalConn, "group": server.GroupConn, "blocking": server.BlockingConn,
		} {
			conn, err := lend(t.Context(), "key")
			if err != nil {
				t.Fatalf("%s, %s: %v", name, purpose, err)
			}
			defer conn.Close()
			if pong, err := redis.String(conn.Do("PING")); pong != "PONG" || err != nil {
				t.Errorf("%s, %s: %q, %v", name, purpose, pong, err)
			}
			if name == "embedded" {
				continue // its number of connections is not a setting
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if second, err := lend(ctx, "key"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, %s: a second one was lent: %v, %v", name, purpose, second, err)
			}
			cancel()
		}
	}
}

// EachServer goes on if one server fails, and names that server.
func TestEachServerIsCalledThoughOneFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	names := func(server connect.Server) (names []string, err error) {
		err = connect.EachServer(t.Context(), server, func(_ context.Context, name string, conn redis.Conn) error {
			names = append(names, name)
			if _, err := conn.Do("PING"); err != nil {
				return err
			}
			return broken
		})
		return names, err
	}
	a, b := node(t, map[string]handler{"PING": says("PONG")}), node(t, map[string]handler{"PING": says("PONG")})
	both := startFake(t, map[string]handler{"CLUSTER": halves(a.address(), b.address())})
	if got, err := names(openCluster(t, both.address())); len(got) != 2 || got[0] == got[1] || strings.Count(err.Error(), "broken") != 2 {
		t.Errorf("a cluster: %q, %v", got, err)
	}
	single, err := connect.OpenSingle("redis://"+a.address(), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = single.Close() })
	if got, err := names(single); len(got) != 1 || got[0] != a.address() || !errors.Is(err, broken) {
		t.Errorf("a single server: %q, %v", got, err)
	}
	away, err := connect.OpenSingle("redis://"+closedAddress(t), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = away.Close() })
	if got, err := names(away); len(got) != 0 || err == nil || !strings.Contains(err.Error(), away.Name()) {
		t.Errorf("a server that is away: %q, %v", got, err)
	}
	if got, err := names(openCluster(t, closedAddress(t))); len(got) != 0 || err == nil {
		t.Errorf("a cluster that is away: %q, %v", got, err)
	}
	if _, err := openCluster(t, a.address()).ConnTo(t.Context(), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "serves nothing") {
		t.Errorf("an address that is no node's: %v", err)
	}
}
