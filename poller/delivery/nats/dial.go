package nats

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
)

const (
	// maxLine is the most bytes of a line of the protocol. The longest is INFO, which names all servers.
	maxLine = 128 << 10
	// maxMessage is the most bytes of a message from the server: how it took one of ours, or how the stream
	// is configured.
	maxMessage = 1 << 20
	// maxInfo is the most bytes of INFO on a connection: the client remembers each server that was ever named.
	maxInfo = 256 << 10
)

// dialer dials, and bounds what a server may send: the client reserves as many bytes as a server
// announces, and a number that is too large ends the process. The bytes are counted behind TLS, so the
// dialer makes the handshake too. The first connection must come about while its context lasts.
type dialer struct {
	servers *broker.Servers
	secured *tls.Config // nil: TLS only if the server demands it

	mu    sync.Mutex
	first context.Context // nil: there was one
	name  string          // of the last server that was dialled by name
}

// SkipTLSHandshake tells the client that the dialer makes the handshake.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial connects.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	ctx := d.first
	d.mu.Unlock()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, broker.DialWithin)
	defer cancel()
	conn, err := d.servers.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	begun, err := d.begin(ctx, conn, address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return begun, nil
}

// begin reads the server's first line, which says whether it speaks TLS
// (https://docs.nats.io/reference/reference-protocols/nats-protocol#info).
func (d *dialer) begin(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	line, whole, err := firstLine(conn)
	if err != nil {
		return nil, err
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	said, ok := bytes.CutPrefix(line, []byte("INFO "))
	said, _, _ = bytes.Cut(said, []byte{'\n'})
	if !ok || json.Unmarshal(said, &info) != nil {
		return nil, broker.Plain("the server does not speak NATS")
	}
	switch {
	case d.secured == nil && !info.Required:
		return &bounded{Conn: conn, again: line}, nil
	case !info.Required && !info.Available:
		return nil, nats.ErrSecureConnWanted
	case !whole: // nobody may add to what comes over TLS
		return nil, broker.Plain("the server does not speak NATS")
	}
	own := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.secured != nil {
		own = d.secured.Clone()
	}
	own.ServerName = d.nameOf(address)
	over := tls.Client(conn, own)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return &bounded{Conn: over, again: line}, nil
}

// nameOf returns the name that a server's certificate must have. Servers name each other by addresses,
// which then have the name of the one that named them, as in the client itself.
func (d *dialer) nameOf(address string) string {
	host, _, _ := net.SplitHostPort(address) // which the client has made
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case net.ParseIP(host) == nil:
		d.name = host
	case d.name != "" && !slices.Contains(d.servers.Addresses, address):
		return d.name
	}
	return host
}

func (d *dialer) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first = nil
}

// firstLine reads up to the end of a line. What follows it was sent without a question, and so in clear.
func firstLine(from io.Reader) (read []byte, whole bool, err error) {
	read = make([]byte, 0, 4<<10)
	for len(read) < maxLine {
		read = slices.Grow(read, 1<<10)
		n, err := from.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
		if end := bytes.IndexByte(read[len(read)-n:], '\n'); end >= 0 {
			return read, end == n-1, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return nil, false, errTooMuch
}

const errTooMuch = broker.Plain("the server sends more than this client expects")

// bounded is a connection on which a server may send only so much. It follows the lines of the protocol.
type bounded struct {
	net.Conn
	again []byte // what was read of it already

	line []byte // what has come of a line
	skip int    // bytes of a message that are still to come
	tail bool   // what comes up to the end of a line is behind a message
	info int    // bytes of INFO that have come
	bad  bool   // the server has sent too much

	heard atomic.Bool // something has come behind the first line
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (n int, err error) {
	switch {
	case b.bad:
		return 0, errTooMuch
	case len(b.again) > 0:
		n = copy(p, b.again)
		b.again = b.again[n:]
	default:
		if n, err = b.Conn.Read(p); n > 0 {
			b.heard.Store(true)
		}
	}
	if b.bad = !b.follow(p[:n]); b.bad {
		return 0, errTooMuch
	}
	return n, err
}

// Write implements net.Conn. A server that does not like our certificate says so after the handshake, and
// hangs up: what it said is the error, if it can still be read.
func (b *bounded) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	if err == nil || b.heard.Load() {
		return n, err
	}
	_ = b.SetReadDeadline(time.Now().Add(time.Second))
	if _, said := b.Conn.Read(make([]byte, 1)); said != nil {
		err = said
	}
	return n, err
}

// follow reports whether what has come is within bounds.
func (b *bounded) follow(p []byte) bool {
	for len(p) > 0 {
		if n := min(b.skip, len(p)); n > 0 {
			b.skip, p = b.skip-n, p[n:]
			continue
		}
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		if p = rest; !b.tail {
			if b.line = append(b.line, part...); len(b.line) > maxLine {
				return false
			}
		}
		if !ended {
			return true
		}
		if b.tail {
			b.tail = false
			continue
		}
		if bytes.HasPrefix(bytes.ToUpper(b.line[:min(len(b.line), 4)]), []byte("INFO")) {
			if b.info += len(b.line); b.info > maxInfo {
				return false
			}
		}
		size, ok := sizeOf(b.line)
		if b.line = b.line[:0]; !ok {
			return false
		}
		b.skip, b.tail = max(0, size), size >= 0
	}
	return true
}

// sizeOf returns the size of the message that a line announces, or -1 if it announces none. It reports
// false for a size that is too large or none.
func sizeOf(line []byte) (int, bool) {
	if op := bytes.ToUpper(line[:min(len(line), 4)]); !bytes.HasPrefix(op, []byte("MSG")) && !bytes.Equal(op, []byte("HMSG")) {
		return -1, true
	}
	words := bytes.Fields(line)
	size, err := strconv.ParseUint(string(words[len(words)-1]), 10, 31)
	return int(size), err == nil && size <= maxMessage
}
