package connect_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

func do(t *testing.T, server *connect.Embedded, name string, args ...any) any {
	t.Helper()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return reply
}

func TestEmbeddedServersAreSeparate(t *testing.T) {
	one, two := connect.NewEmbedded(), connect.NewEmbedded()
	do(t, one, "SET", "key", "one")
	if got := do(t, two, "GET", "key"); got != nil {
		t.Errorf("the other one has %q", got)
	}
	do(t, two, "SET", "key", "two")
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := redis.String(do(t, one, "GET", "key"), nil); got != "one" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if one.Name() != "embedded" {
		t.Errorf("name %q", one.Name())
	}
}

func TestEmbeddedServerIsGoneWithClose(t *testing.T) {
	server := connect.NewEmbedded()
	do(t, server, "SET", "key", "value")
	for range 2 {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	if conn, err := server.Conn(t.Context(), ""); err == nil {
		t.Errorf("it still lends %v", conn)
	}
	unused := connect.NewEmbedded()
	if err := unused.Close(); err != nil {
		t.Errorf("one that was never used: %v", err)
	}
}

func TestEmbeddedServerWithstandsManyAtOnce(t *testing.T) {
	server := connect.NewEmbedded()
	defer server.Close()
	var clients sync.WaitGroup
	for range 200 { // more than the number of connections
		clients.Go(func() {
			conn, err := server.Conn(t.Context(), "")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := conn.Do("INCR", "count"); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if n, err := redis.Int(do(t, server, "GET", "count"), nil); n != 200 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
}

func TestEmbeddedServerFollowsFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := connect.NewEmbedded()
		do(t, server, "SET", "key", "value", "PX", 1000)
		time.Sleep(2 * time.Second)
		if got := do(t, server, "GET", "key"); got != nil {
			t.Errorf("got %q after it expired", got)
		}
		clock, err := redis.Int64s(do(t, server, "TIME"), nil)
		if err != nil || clock[0] != time.Now().Unix() {
			t.Errorf("TIME %v, %v; it is %d", clock, err, time.Now().Unix())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := server.Conn(ctx, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("with a cancelled context: %v", err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// A pipeline whose commands and replies exceed every buffer between client and server
// used to make them wait for each other for ever.
func TestEmbeddedServerTakesLargePipelines(t *testing.T) {
	server := connect.NewEmbedded()
	defer server.Close()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const commands = 200
	value := make([]byte, 50_000)
	for range commands {
		if err := conn.Send("ECHO", value); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for range commands {
		if got, err := redis.Bytes(conn.Receive()); err != nil || len(got) != len(value) {
			t.Fatal(len(got), err)
		}
	}
}
