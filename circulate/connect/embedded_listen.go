package connect

import (
	"bufio"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// greetTimeout is how long a client of Listen may take to send the password.
	greetTimeout = 5 * time.Second
	// greetSize is the most bytes of a client's first command.
	greetSize = 1 << 10
)

// doorway is where other processes reach an embedded server. Nothing from a client
// reaches the server before the client has sent the password.
type doorway struct {
	listener net.Listener
	password string
	dial     func() (net.Conn, error)

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	busy   sync.WaitGroup
}

// Listen lets other processes of this machine reach the server, at a free port of
// loopback, until the server is closed. Clients must first send AUTH with the password,
// which must not be empty; the user, if they name one, must be "default". A server
// listens at one address at most.
func (e *Embedded) Listen(password string) (net.Addr, error) {
	if password == "" {
		return nil, errors.New("embedded redis: it listens only with a password")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	if e.door != nil {
		return nil, errors.New("embedded redis: it listens already")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e.door = &doorway{listener: listener, password: password, dial: e.dial, open: make(map[net.Conn]bool)}
	e.door.busy.Go(e.door.serve)
	return listener.Addr(), nil
}

// Addr returns where the server listens, or nil if it listens nowhere.
func (e *Embedded) Addr() net.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.door == nil {
		return nil
	}
	return e.door.listener.Addr()
}

func (d *doorway) serve() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // such as too many open files
			continue
		}
		if d.record(conn) {
			d.busy.Go(func() {
				defer d.drop(conn)
				d.attend(conn)
			})
		}
	}
}

// attend admits a client, and copies data between the client and the server.
func (d *doorway) attend(client net.Conn) {
	_ = client.SetDeadline(time.Now().Add(greetTimeout))
	in := bufio.NewReader(client)
	reply := d.admit(in)
	if _, err := io.WriteString(client, reply); err != nil || reply != admitted {
		return
	}
	_ = client.SetDeadline(time.Time{})
	server, err := d.dial()
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer func() { _ = client.Close() }()
		_, _ = io.Copy(client, server) // until either side ends it
	})
	_, _ = io.Copy(server, in)
	_ = server.Close()
	back.Wait()
}

// The replies to a client's first command, in Redis' own words.
const (
	admitted     = "+OK\r\n"
	noAuth       = "-NOAUTH Authentication required.\r\n"
	wrongPass    = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	standardUser = "default"
)

// admit reads a client's first command, which must be AUTH with the password, and
// returns the reply.
func (d *doorway) admit(in *bufio.Reader) string {
	words, err := readGreeting(in)
	if err != nil || len(words) < 2 || len(words) > 3 || !strings.EqualFold(words[0], "AUTH") {
		return noAuth
	}
	known := len(words) == 2 || words[1] == standardUser
	if subtle.ConstantTimeCompare([]byte(words[len(words)-1]), []byte(d.password)) != 1 || !known {
		return wrongPass
	}
	return admitted
}

// readGreeting reads a command of a few short words, as clients send it: *2, then $4 and
// AUTH, and so on, each in its line.
func readGreeting(in *bufio.Reader) ([]string, error) {
	limited := &io.LimitedReader{R: in, N: greetSize}
	line := func() (string, error) {
		var text []byte
		for {
			var b [1]byte
			if _, err := io.ReadFull(limited, b[:]); err != nil {
				return "", err
			}
			if b[0] == '\n' {
				return strings.TrimSuffix(string(text), "\r"), nil
			}
			text = append(text, b[0])
		}
	}
	count := func(sign string) (int, error) {
		text, err := line()
		if err != nil {
			return 0, err
		}
		digits, ok := strings.CutPrefix(text, sign)
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > greetSize {
			return 0, fmt.Errorf("not a command: %q", text)
		}
		return n, nil
	}
	n, err := count("*")
	if err != nil {
		return nil, err
	}
	var words []string
	for range n {
		length, err := count("$")
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(limited, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:length]))
	}
	return words, nil
}

// record stores a connection, or closes it if the doorway is closed.
func (d *doorway) record(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = conn.Close()
		return false
	}
	d.open[conn] = true
	return true
}

func (d *doorway) drop(conn net.Conn) {
	d.mu.Lock()
	delete(d.open, conn)
	d.mu.Unlock()
	_ = conn.Close()
}

// close ends the doorway and its connections.
func (d *doorway) close() {
	_ = d.listener.Close()
	d.mu.Lock()
	d.closed = true
	for conn := range d.open {
		_ = conn.Close()
	}
	d.mu.Unlock()
	d.busy.Wait()
}
