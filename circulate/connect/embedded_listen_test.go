package connect_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

const doorPassword = "for the run/+?"

func listening(t *testing.T) (*connect.Embedded, string) {
	t.Helper()
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	if server.Addr() != nil {
		t.Errorf("it listens at %s unasked", server.Addr())
	}
	if addr, err := server.Listen(""); err == nil {
		t.Errorf("without a password it listens at %s", addr)
	}
	addr, err := server.Listen(doorPassword)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := server.Listen("other"); err == nil {
		t.Errorf("it listens also at %s", again)
	}
	if server.Addr().String() != addr.String() || !addr.(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("it listens at %s and says %s", addr, server.Addr())
	}
	return server, addr.String()
}

func TestOthersReachAnEmbeddedServerThatListens(t *testing.T) {
	server, addr := listening(t)
	do(t, server, "SET", "key", "inside")
	for _, user := range []string{"", "default"} {
		other, err := connect.Open("redis://"+user+":for%20the%20run%2F%2B%3F@"+addr, connect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := other.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := redis.String(conn.Do("GET", "key")); got != "inside" || err != nil {
			t.Errorf("as %q: %q, %v", user, got, err)
		}
		if _, err := conn.Do("SET", "key", "inside"); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		_ = other.Close()
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("it still listens after it was closed")
	}
	if _, err := server.Listen(doorPassword); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed one listens: %v", err)
	}
}

// The server's clock advances for clients of other processes as well, although it stands
// still between commands.
func TestTheClockOfAnEmbeddedServerRunsForOthers(t *testing.T) {
	server, addr := listening(t)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	server.SetClock(func() time.Time { return at })
	conn, err := redis.DialContext(t.Context(), "tcp", addr, redis.DialPassword(doorPassword))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		if got, err := redis.Int64s(conn.Do("TIME")); err != nil || got[0] != at.Unix() {
			t.Errorf("%v, %v: want %d", got, err, at.Unix())
		}
		at = at.Add(time.Hour)
	}
}

func TestNobodyReachesAnEmbeddedServerWithoutItsPassword(t *testing.T) {
	server, addr := listening(t)
	auth := func(words ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		return text
	}
	for sent, want := range map[string]string{
		auth("GET", "key"): "-NOAUTH",
		auth("AUTH"):       "-NOAUTH",
		auth("AUTH", "default", doorPassword, "more"):         "-NOAUTH",
		auth("AUTH", "wrong"):                                 "-WRONGPASS",
		auth("AUTH", doorPassword+" "):                        "-WRONGPASS",
		auth("AUTH", "somebody", doorPassword):                "-WRONGPASS",
		"GET key\r\n":                                         "-NOAUTH",
		"*2000000000\r\n":                                     "-NOAUTH",
		"*2\r\n$4\r\nAUTH\r\n$2000000000\r\n":                 "-NOAUTH",
		"*2\r\n$4\r\nAUTH\r\n$-1\r\n":                         "-NOAUTH",
		"*" + strings.Repeat("1", 2000) + "\r\n":              "-NOAUTH",
		auth("AUTH", "wrong") + auth("AUTH", doorPassword):    "-WRONGPASS",
		auth("SET", "key", "outside") + auth("SET", "a", "b"): "-NOAUTH",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Error(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.HasPrefix(line, want) {
			t.Errorf("%.60q: %q, %v: want %s", sent, line, err, want)
		}
		_ = conn.Close()
	}
	if got := do(t, server, "KEYS", "*"); len(got.([]any)) > 0 {
		t.Errorf("a stranger wrote %s", got)
	}
	half, err := net.Dial("tcp", addr) // it never sends a whole command
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- server.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("a client that says nothing keeps the server from closing")
	}
}
