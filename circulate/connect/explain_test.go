package connect_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A URL with a mistake gets an error that explains it. All errors may pass by themselves,
// except refusals by a server that answers as Redis.
func TestWrongWaysToReachAServerAreExplained(t *testing.T) {
	t.Parallel()
	plain, secure := redistest.Start(t), redistest.Start(t, redistest.WithTLS())
	node := redistest.StartNode(t, true)
	speaks := func(text string) string {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1024))
				_, _ = conn.Write([]byte(text))
				_ = conn.Close()
			}
		}()
		return listener.Addr().String()
	}
	for url, want := range map[string]string{
		"rediss://" + plain.Addr():                                                    "does not answer in TLS",
		"redis://" + secure.Addr():                                                    "rediss://",
		"rediss://" + secure.Addr():                                                   "ROUNDS_REDIS_CA_FILE",
		"rediss://" + speaks("HTTP/1.1 400 Bad Request\r\n\r\n"):                      "does not speak TLS",
		"redis://" + speaks("HTTP/1.1 400 Bad Request\r\n\r\n"):                       "does not answer as Redis does",
		"rediss://" + speaks(""):                                                      "closed the connection at once",
		"redis://" + speaks(""):                                                       "closed the connection at once",
		"redis://" + speaks("-DENIED Redis is running in protected mode because\r\n"): "protected mode",
		"redis://" + closedAddress(t):                                                 "cannot be reached",
		"redis://" + plain.Addr() + "/99":                                             "has no database of the number",
		"redis://" + node.Addr() + "/2":                                               "redis+cluster://",
		"redis://" + speaks("-ERR DB index is out of range\r\n") + "/2":               "redis+cluster://", // so says a node of Valkey 9
		"redis+cluster://" + plain.Addr():                                             "is in no cluster",
		"redis+sentinel://" + plain.Addr() + "/main":                                  "is not a Sentinel",
	} {
		server, err := connect.Open(url, connect.Options{ConnectTimeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = server.Conn(t.Context(), "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
		refused := strings.Contains(want, "cluster") || strings.Contains(want, "Sentinel") || strings.Contains(want, "database") || strings.Contains(want, "protected")
		if circulate.Unavailable(err) == refused {
			t.Errorf("%s: unavailable %v", url, !refused)
		}
		_ = server.Close()
	}
}

// If a server that has served with the same settings closes a connection, the error does
// not suggest TLS: the server is starting or stopping.
func TestAServerThatEndsIsNotSaidToWantTLS(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if n > 0 {
				_ = conn.Close()
				continue
			}
			go func() { // the first connection is served as Redis does
				for {
					n, err := conn.Read(make([]byte, 1024))
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte("+OK\r\n"))
					_ = n
				}
			}()
		}
	}()
	server, err := connect.OpenSingle("redis://"+listener.Addr().String(), connect.Options{ConnectTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	first, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close() // it is not lent again meanwhile
	if _, err = server.Conn(t.Context(), ""); err == nil || strings.Contains(err.Error(), "TLS") || !strings.Contains(err.Error(), "closed the connection at once") {
		t.Errorf("%v", err)
	}
}
