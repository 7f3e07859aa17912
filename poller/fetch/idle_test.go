package fetch

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection waits for the next call. After a held call it waits only briefly: if the account has
// moved to another replica, nobody needs the connection, and thousands of accounts may move at
// once.
func TestHowLongAConnectionWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		held []bool // of the calls, one after the other
		idle time.Duration
	}{
		"after a call":                 {[]bool{false}, lineIdle},
		"after a held one":             {[]bool{true}, heldIdle},
		"after a held one and another": {[]bool{true, false}, lineIdle},
		"after one and a held one":     {[]bool{false, true}, heldIdle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made, open atomic.Int32
				l := newLines(10, time.Second, func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					made.Add(1)
					open.Add(1)
					go func() {
						defer open.Add(-1)
						answerEach(there)
					}()
					return here, nil
				})
				defer l.close()
				for _, held := range tt.held {
					callOver(t, l, held)
				}
				if n := made.Load(); n != 1 {
					t.Fatalf("%d connections were made", n)
				}
				time.Sleep(tt.idle - time.Second)
				synctest.Wait()
				if open.Load() != 1 {
					t.Errorf("it is closed within %v", tt.idle-time.Second)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if open.Load() != 0 {
					t.Errorf("it is still open after %v", tt.idle+time.Second)
				}
			})
		})
	}
}

// answerEach answers each request with 204, until the connection is closed.
func answerEach(conn net.Conn) {
	for from := bufio.NewReader(conn); ; {
		if _, err := http.ReadRequest(from); err != nil {
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n"); err != nil {
			return
		}
	}
}

// callOver makes a call over lines.
func callOver(t *testing.T, l *lines, held bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host.test/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if !held {
		answer, err := overLines{l, nil}.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return
	}
	ln, err := l.send(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.end()
	if _, err := ln.answer(t.Context()); err != nil {
		t.Fatal(err)
	}
}
