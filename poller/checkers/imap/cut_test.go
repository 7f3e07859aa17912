package imap

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// scene is a connection to a server that says something and then is silent, or away if
// writing fails.
type scene struct {
	net.Conn
	said    io.Reader
	silence chan struct{} // closed: reading ends
	write   error
}

func (c scene) Read(p []byte) (int, error) {
	if n, _ := c.said.Read(p); n > 0 {
		return n, nil
	}
	<-c.silence
	return 0, net.ErrClosed
}

func (c scene) Write(p []byte) (int, error) {
	if c.write != nil {
		return 0, &net.OpError{Op: "write", Err: c.write}
	}
	return len(p), nil
}

func (scene) Close() error                     { return nil }
func (scene) SetReadDeadline(time.Time) error  { return nil }
func (scene) SetWriteDeadline(time.Time) error { return nil }

// on returns a session on a connection.
func on(t *testing.T, conn net.Conn) *session {
	t.Helper()
	s := &session{ctx: t.Context(), conn: meter(t.Context(), conn, overhead)}
	if err := s.encrypt(config{tls: tlsNone}, Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// After a greeting that refuses, the library reports at random either the refusal or the
// end of the connection.
func TestRefusalIsNeverAnEnd(t *testing.T) {
	for greeting, want := range map[string]imap.Error{
		"* BYE [UNAVAILABLE] later\r\n":               {Type: imap.StatusResponseTypeBye, Code: imap.ResponseCodeUnavailable},
		"* bye\n":                                     {Type: imap.StatusResponseTypeBye},
		"* BYE\r\n* OK [ALERT] no\r\n":                {Type: imap.StatusResponseTypeBye},
		"* NO [LIMIT] too many\r\n":                   {Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeLimit},
		"* BAD what\r\n":                              {Type: imap.StatusResponseTypeBad},
		"* BYE " + strings.Repeat("x", 9000) + "\r\n": {Type: imap.StatusResponseTypeBye},
	} {
		synctest.Test(t, func(t *testing.T) {
			silence := make(chan struct{})
			s := on(t, scene{said: strings.NewReader(greeting), silence: silence})
			defer s.close()
			defer close(silence)
			synctest.Wait() // now the library knows both
			for range 64 {
				var status *imap.Error
				if err := s.greeted(); !errors.As(err, &status) || status.Type != want.Type || status.Code != want.Code {
					t.Fatalf("%.40q: got %v, want %v", greeting, err, &want)
				}
			}
		})
	}
}

// A connection that cannot be written to is broken, whatever reading reports, and however
// late.
func TestWriteToACutConnection(t *testing.T) {
	for _, reason := range []error{syscall.ECONNRESET, syscall.EPIPE} {
		silence := make(chan struct{})
		s := on(t, scene{said: strings.NewReader(greeting), silence: silence, write: reason})
		if err := s.greeted(); err != nil {
			t.Fatal(err)
		}
		if got := checktest.Failure(t, s.login(config{user: "a"}, credential{password: "b"})); got.Kind != poller.Transient || got.Code != "reset" {
			t.Errorf("%v: got %v", reason, got)
		}
		close(silence)
		s.close()
	}
}

// A server that sends no greeting may speak another protocol, or wait for TLS. One that fell silent
// after it was only slow.
func TestWithoutAGreetingThePortIsInDoubt(t *testing.T) {
	for _, mode := range []string{tlsNone, tlsStart} {
		for said, doubt := range map[string]bool{"": true, "* OK": false} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				near, far := net.Pipe()
				defer far.Close()
				if said != "" {
					go func() { _, _ = io.WriteString(far, said) }()
				}
				s := &session{ctx: ctx, conn: meter(ctx, near, overhead)}
				err := s.encrypt(config{tls: mode}, Options{})
				if mode == tlsNone && err == nil {
					defer s.close()
					err = s.failed(s.greeted(), "greeting", readRefused)
				}
				got := checktest.Failure(t, err)
				if got.Kind != poller.Transient || got.Code != "timeout" || strings.Contains(got.Message, "the port of another service") != doubt || strings.Contains(got.Message, "config.tls") != doubt {
					t.Errorf("%s after %q: got %v", mode, said, got)
				}
			})
		}
	}
}
