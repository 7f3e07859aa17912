package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	linesIdle  = 1024             // that are kept for further calls
	lineIdle   = 90 * time.Second // for which one is kept
	lineHosts  = 1024             // of which something is known
	lineLooks  = time.Millisecond // how long a kept line is looked at, whether it was closed
	lineHeader = 64 << 10         // bytes of an answer's header
	sessions   = 256              // of TLS, one for each host
)

// errElsewhere reports a call that lines do not make.
var errElsewhere = errors.New("not over lines")

// lines makes calls that the third party holds, over HTTP/1.1. Very many of them wait at once, so
// each costs little memory: its connection has no goroutine besides the caller's, and while it
// waits it has no buffers, and its request is forgotten. With net/http each connection has two
// goroutines and two buffers, which is more than all the rest. Requests are still written, and
// answers read, by net/http.
//
// A host that speaks HTTP/2 is left to net/http.
type lines struct {
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration // of a TLS handshake

	mu      sync.Mutex
	closed  bool
	idle    map[string][]*line // by origin
	idles   int
	configs map[string]*tls.Config // by host: connections share them
	newer   map[string]bool        // origins that speak HTTP/2
	session tls.ClientSessionCache
}

func newLines(timeout time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) *lines {
	return &lines{
		dialer: dial, timeout: timeout, session: tls.NewLRUClientSessionCache(sessions),
		idle: make(map[string][]*line), configs: make(map[string]*tls.Config), newer: make(map[string]bool),
	}
}

// close closes the lines that are kept. Those of running calls are closed after them.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, kept := range l.idle {
		for _, ln := range kept {
			ln.expire.Stop()
			_ = ln.conn.Close()
		}
	}
	clear(l.idle)
	l.idles = 0
}

// take returns a line for a request: one that is kept, or a new one. The error is errElsewhere if
// the host speaks HTTP/2.
func (l *lines) take(ctx context.Context, to *url.URL) (*line, error) {
	origin := to.Scheme + "://" + to.Host
	for {
		l.mu.Lock()
		if l.newer[origin] {
			l.mu.Unlock()
			return nil, errElsewhere
		}
		kept := l.idle[origin]
		if len(kept) == 0 {
			l.mu.Unlock()
			return l.dial(ctx, to, origin)
		}
		ln := kept[len(kept)-1]
		l.removeLocked(ln, len(kept)-1)
		l.mu.Unlock()
		if ln.expire.Stop() && ln.open() {
			return ln, nil
		}
		_ = ln.conn.Close()
	}
}

// keep keeps a line for further calls.
func (l *lines) keep(ln *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.idles >= linesIdle {
		_ = ln.conn.Close()
		return
	}
	l.idles++
	l.idle[ln.origin] = append(l.idle[ln.origin], ln)
	ln.expire = time.AfterFunc(lineIdle, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if at := slices.Index(l.idle[ln.origin], ln); at >= 0 {
			l.removeLocked(ln, at)
			_ = ln.conn.Close()
		}
	})
}

func (l *lines) removeLocked(ln *line, at int) {
	l.idles--
	if l.idle[ln.origin] = slices.Delete(l.idle[ln.origin], at, at+1); len(l.idle[ln.origin]) == 0 {
		delete(l.idle, ln.origin)
	}
}

// dial connects. It does so in another goroutine, because a handshake needs a large stack, and the
// caller's would stay as large while it waits.
func (l *lines) dial(ctx context.Context, to *url.URL, origin string) (*line, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		conn, err := l.connect(ctx, to, origin)
		done <- dialed{conn, err}
	}()
	d := <-done // connect ends with ctx
	if d.err != nil {
		return nil, d.err
	}
	return &line{lines: l, origin: origin, conn: d.conn}, nil
}

func (l *lines) connect(ctx context.Context, to *url.URL, origin string) (net.Conn, error) {
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	conn, err := l.dialer(ctx, "tcp", net.JoinHostPort(to.Hostname(), port))
	if err != nil || to.Scheme != "https" {
		return conn, err
	}
	over := tls.Client(conn, l.config(to.Hostname()))
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := over.HandshakeContext(within); err != nil {
		_ = conn.Close()
		return nil, err
	}
	if over.ConnectionState().NegotiatedProtocol == "h2" {
		_ = over.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.newer) >= lineHosts {
			clear(l.newer)
		}
		l.newer[origin] = true
		return nil, errElsewhere
	}
	return over, nil
}

// config returns the settings of TLS with a host.
func (l *lines) config(host string) *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	config, ok := l.configs[host]
	if !ok {
		if len(l.configs) >= lineHosts {
			clear(l.configs)
		}
		config = &tls.Config{ServerName: host, NextProtos: []string{"h2", "http/1.1"}, ClientSessionCache: l.session}
		l.configs[host] = config
	}
	return config
}

// send sends a request. The answer comes on the line that it returns, which the caller ends. With
// an error there is a line if the host was reached.
func (l *lines) send(ctx context.Context, request *http.Request) (*line, error) {
	ln, err := l.take(ctx, request.URL)
	if err != nil {
		return nil, err
	}
	ln.method = request.Method
	ln.stop = context.AfterFunc(ctx, ln.cut)
	return ln, ln.write(request)
}
