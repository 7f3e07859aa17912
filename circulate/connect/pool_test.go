package connect_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, process *redistest.Server, o connect.Options) *connect.Single {
	t.Helper()
	server, err := connect.OpenSingle(process.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// lend lends n connections at once and returns them.
func lend(t *testing.T, server redistest.Redis, n int) {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func ping(ctx context.Context, server redistest.Redis) error {
	conn, err := server.Conn(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = redis.DoContext(conn, ctx, "PING")
	return err
}

// TestPoolRecoversFromAServerThatWentAway checks that each dead connection fails at most
// one call.
func TestPoolRecoversFromAServerThatWentAway(t *testing.T) {
	t.Parallel()
	const conns = 4
	process := redistest.Start(t)
	server := open(t, process, connect.Options{MaxConns: conns})
	for range 3 {
		lend(t, server, conns)
		process.Kill()
		for range conns + 3 {
			if err := ping(t.Context(), server); err == nil {
				t.Fatal("a dead server answered")
			}
		}
		process.Restart(t)
		if err := ping(t.Context(), server); err != nil {
			t.Fatalf("after the restart, all dead connections being gone: %v", err)
		}
		lend(t, server, conns)
		process.Kill()
		process.Restart(t)
		failed := 0
		for range 2 * conns {
			if ping(t.Context(), server) != nil {
				failed++
			}
		}
		if failed > conns {
			t.Errorf("%d calls failed, with %d dead connections", failed, conns)
		}
	}
}

func TestConnectionsAreBoundedAndWaitedForUntilTheDeadline(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	server := open(t, process, connect.Options{MaxConns: 2})
	var lent []redis.Conn
	for range 2 {
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, conn)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := ping(ctx, server); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third connection: %v", err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := ping(t.Context(), server); err != nil {
			t.Error(err)
		}
	})
	_ = lent[0].Close()
	waiting.Wait()
	_ = lent[1].Close()
}

// TestIdleConnectionsOfASilentServerHoldNobodyUp freezes Redis under idle connections.
// Testing them must take no longer than the caller's time.
func TestIdleConnectionsOfASilentServerHoldNobodyUp(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		server := open(t, process, connect.Options{ReadTimeout: 2 * time.Second})
		lend(t, server, 5)
		if err := process.Freeze(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := ping(ctx, server); err == nil {
			t.Error("a frozen server answered")
		}
		if err := process.Thaw(); err != nil {
			t.Fatal(err)
		}
		if err := ping(t.Context(), server); err != nil {
			t.Errorf("after the thaw: %v", err)
		}
	})
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

// TestConnectionsThatDiedWhileIdleAreReplacedUnseen checks that no call fails because of
// them.
func TestConnectionsThatDiedWhileIdleAreReplacedUnseen(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	admin, err := process.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	synctest.Test(t, func(t *testing.T) {
		server := open(t, process, connect.Options{})
		lend(t, server, 5)
		// This is what a restart of Redis does, or a firewall that forgets connections.
		if n, err := redis.Int(admin.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(time.Minute)
		for range 10 {
			if err := ping(t.Context(), server); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestNobodyListensIsAnErrorOfConnWithoutThePassword(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	server, err := connect.Open("redis://user:hunter2@"+address, connect.Options{})
	if err != nil {
		t.Fatalf("Open must reach for nothing: %v", err)
	}
	defer server.Close()
	if server.Name() != address {
		t.Errorf("name %q", server.Name())
	}
	_, err = server.Conn(t.Context(), "key")
	if err == nil || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// TestServerThatTakesCallsAndSaysNothing has a server behind a broken proxy. Callers give
// up at the deadline, even in the handshake.
func TestServerThatTakesCallsAndSaysNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, scheme := range []string{"redis", "rediss"} {
		server, err := connect.Open(scheme+"://:hunter2@"+l.Addr().String(), connect.Options{ConnectTimeout: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err = server.Conn(ctx, "")
		var timeout net.Error
		if took := time.Since(began); took > time.Second || !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &timeout) && timeout.Timeout()) {
			t.Errorf("%s: after %v: %v", scheme, took, err)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error holds the password: %v", err)
		}
		cancel()
		_ = server.Close()
	}
}

func TestDatabaseOfTheURLIsUsed(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	do := func(database string, name string, args ...any) (string, error) {
		t.Helper()
		server, err := connect.Open(process.URL()+database, connect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return redis.String(conn.Do(name, args...))
	}
	if _, err := do("/3", "SET", "key", "three"); err != nil {
		t.Fatal(err)
	}
	if got, err := do("/3", "GET", "key"); got != "three" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := do("", "GET", "key"); !errors.Is(err, redis.ErrNil) {
		t.Errorf("in database 0: %q, %v", got, err)
	}
	if _, err := do("/16", "GET", "key"); err == nil || !strings.Contains(err.Error(), "DB index") {
		t.Errorf("in a database that there is not: %v", err)
	}
}

func TestClientCertificateIsShown(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithTLS())
	admin := open(t, process, connect.Options{CAFile: process.CAFile()})
	conn, err := admin.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("CONFIG", "SET", "tls-auth-clients", "yes"); err != nil {
		t.Fatal(err)
	}
	if err := ping(t.Context(), open(t, process, connect.Options{CAFile: process.CAFile()})); err == nil {
		t.Error("without a certificate of ours it should not have let us in")
	}
	with := connect.Options{CAFile: process.CAFile(), CertFile: process.Dir + "/server.pem", KeyFile: process.Dir + "/server.key"}
	for _, file := range []string{with.CAFile, with.CertFile, with.KeyFile} {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := ping(t.Context(), open(t, process, with)); err != nil {
		t.Errorf("with our certificate: %v", err)
	}
}
