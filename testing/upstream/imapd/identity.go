package imapd

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
)

// offered is what the server offers besides what the library's does, as real servers do.
const offered = "IMAP4rev1 ID CONDSTORE"

// identified has the library's server speak ID (RFC 2971), which the library lacks.
type identified struct{ net.Listener }

// Accept returns a connection that answers ID itself.
func (l identified) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &talk{Conn: conn, lines: bufio.NewReader(conn)}, nil
}

// talk is such a connection. The library sees all commands but ID.
type talk struct {
	net.Conn
	lines *bufio.Reader
	rest  []byte // of a line that the library has not read to its end

	mu sync.Mutex
	id string // what the client sent; empty: nothing yet

	next func() // is called once the next answer is written
}

// Read returns the next command, or a part of it.
func (t *talk) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		line, err := t.lines.ReadBytes('\n')
		if err != nil && len(line) == 0 {
			return 0, err
		}
		tag, command, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
		if name, id, _ := strings.Cut(command, " "); !strings.EqualFold(name, "ID") {
			t.rest = line
			continue
		} else if err := t.answer(tag, id); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *talk) answer(tag, id string) error {
	t.mu.Lock()
	t.id = id
	t.mu.Unlock()
	_, err := fmt.Fprintf(t.Conn, "* ID (\"name\" \"imapd\" \"vendor\" \"rounds\")\r\n%s OK ID completed\r\n", tag)
	return err
}

// Write adds what is offered to the capabilities.
func (t *talk) Write(p []byte) (int, error) {
	if _, err := t.Conn.Write(bytes.Replace(p, []byte("CAPABILITY IMAP4rev1"), []byte("CAPABILITY "+offered), 1)); err != nil {
		return 0, err
	}
	if next := t.next; next != nil {
		t.next = nil
		next()
	}
	return len(p), nil
}

// after has a function called once the library has written its answer to the command at hand.
func (t *talk) after(next func()) { t.next = next }

// sent returns what a client said of itself, and whether it was offered to say that.
func sent(conn net.Conn) (id string, offered bool) {
	t, ok := conn.(*talk)
	if !ok {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id, true
}
