package fetch

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

func TestDial(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = New(Options{}).Dial(t.Context(), listener.Addr().String())
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeRefusedAddress {
		t.Errorf("a private address: got %v", err)
	}
	conn, err := New(Options{Networks: networks("127.0.0.1")}).Dial(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if got := Broken(t.Context(), io.EOF); got.Code != CodeReset {
		t.Errorf("EOF: got %v", got)
	}
}

func TestValidateHost(t *testing.T) {
	c := New(Options{})
	for host, want := range map[string]error{
		"imap.example.com": nil, "1.1.1.1": nil, "2606:4700:4700::1111": nil, "münchen.example": nil,
		"": ErrHost, "a b": ErrHost, "a:993": ErrHost, "a/b": ErrHost, "me@a": ErrHost, "a\n": ErrHost, strings.Repeat("a", 254): ErrHost,
		"127.0.0.1": ErrPrivate, "::1": ErrPrivate, "fe80::1%eth0": ErrPrivate, "10.0.0.1": ErrPrivate,
	} {
		if got := c.validateHost(host); !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}
