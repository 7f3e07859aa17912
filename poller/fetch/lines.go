package fetch

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	lineIdle   = 90 * time.Second // how long a line stays open for further calls
	heldIdle   = 10 * time.Second // the same after a held call: the account's next call follows at once, unless another replica has the account now
	lineLooks  = time.Millisecond // how long a read may take that tests whether an idle line was closed
	lineHeader = 64 << 10         // bytes of an answer's header
)

// errElsewhere reports a call that cannot be made over lines.
var errElsewhere = errors.New("not over lines")

// lines makes calls over HTTP/1.1. Thousands of held calls wait at once, so each must cost little
// memory: its connection has no goroutine besides the caller's, and while it waits it has no
// buffers, and its request is forgotten. With net/http each connection has two goroutines and two
// buffers, which is more than all the rest. net/http still writes the requests and reads the
// answers.
//
// Calls to a host that speaks HTTP/2 are left to net/http.
type lines struct {
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration // of a TLS handshake
	most    int           // the most idle lines, and the most hosts of which something is remembered

	mu      sync.Mutex
	closed  bool                   // for good
	closing bool                   // until the next call
	idle    map[string][]*line     // by origin
	oldest  *list.List             // the idle lines, oldest first
	configs map[string]*tls.Config // by host: connections share them
	newer   map[string]bool        // origins that speak HTTP/2
	session tls.ClientSessionCache
}

func newLines(most int, timeout time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) *lines {
	return &lines{
		dialer: dial, timeout: timeout, most: most, session: tls.NewLRUClientSessionCache(most), oldest: list.New(),
		idle: make(map[string][]*line), configs: make(map[string]*tls.Config), newer: make(map[string]bool),
	}
}

// close closes the idle lines. Lines of running calls are closed after their calls.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.emptyLocked()
}

// empty closes the idle lines, and lines of running calls after their calls, until the next call
// begins.
func (l *lines) empty() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	l.emptyLocked()
}

func (l *lines) emptyLocked() {
	for first := l.oldest.Front(); first != nil; first = l.oldest.Front() {
		l.dropLocked(first.Value.(*line))
	}
}

// take returns a line for a request: an idle one, or a new one. The error is errElsewhere if the
// host speaks HTTP/2.
func (l *lines) take(ctx context.Context, to *url.URL) (ln *line, kept bool, err error) {
	origin := to.Scheme + "://" + to.Host
	for {
		l.mu.Lock()
		l.closing = false
		if l.newer[origin] {
			l.mu.Unlock()
			return nil, false, errElsewhere
		}
		idle := l.idle[origin]
		if len(idle) == 0 {
			l.mu.Unlock()
			ln, err = l.dial(ctx, to, origin)
			return ln, false, err
		}
		ln := idle[len(idle)-1]
		l.removeLocked(ln)
		l.mu.Unlock()
		ln.held = false
		if ln.open() {
			return ln, true, nil
		}
		_ = ln.conn.Close()
	}
}

// put stores a line for further calls. If there are too many, the longest idle one is closed.
func (l *lines) put(ln *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.closing {
		_ = ln.conn.Close()
		return
	}
	if l.oldest.Len() >= l.most {
		l.dropLocked(l.oldest.Front().Value.(*line))
	}
	l.idle[ln.origin] = append(l.idle[ln.origin], ln)
	ln.place = l.oldest.PushBack(ln)
	idle := lineIdle
	if ln.held {
		idle = heldIdle
	}
	if ln.expire == nil {
		ln.expire = time.AfterFunc(idle, func() { l.expire(ln) })
	} else {
		ln.expire.Reset(idle)
	}
	ln.until = time.Now().Add(idle)
}

// expire closes a line that was idle for long enough.
func (l *lines) expire(ln *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln.place != nil && !time.Now().Before(ln.until) { // else it was used meanwhile
		l.dropLocked(ln)
	}
}

// dropLocked closes an idle line.
func (l *lines) dropLocked(ln *line) {
	l.removeLocked(ln)
	_ = ln.conn.Close()
}

// removeLocked removes a line from the idle ones.
func (l *lines) removeLocked(ln *line) {
	ln.expire.Stop()
	l.oldest.Remove(ln.place)
	ln.place = nil
	idle := l.idle[ln.origin]
	at := slices.Index(idle, ln)
	if l.idle[ln.origin] = slices.Delete(idle, at, at+1); len(idle) == 1 {
		delete(l.idle, ln.origin)
	}
}

// dial connects. It does so in another goroutine: a handshake needs a large stack, and the caller's
// stack would stay that large while it waits.
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
	conn, err := l.dialer(ctx, "tcp", net.JoinHostPort(to.Hostname(), strconv.Itoa(int(portOf(to)))))
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
		if len(l.newer) >= l.most {
			clear(l.newer)
		}
		l.newer[origin] = true
		return nil, errElsewhere
	}
	return over, nil
}

// config returns the TLS settings for a host.
func (l *lines) config(host string) *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	config, ok := l.configs[host]
	if !ok {
		if len(l.configs) >= l.most {
			clear(l.configs)
		}
		config = &tls.Config{ServerName: host, NextProtos: []string{"h2", "http/1.1"}, ClientSessionCache: l.session}
		l.configs[host] = config
	}
	return config
}

// send sends the request of a held call. The answer comes on the returned line, which the caller
// must end. If there is an error, there is a line only if the host was reached.
func (l *lines) send(ctx context.Context, request *http.Request) (*line, error) {
	ln, _, err := l.take(ctx, request.URL)
	if err != nil {
		return nil, err
	}
	ln.held = true
	return ln, ln.begin(ctx, request)
}
