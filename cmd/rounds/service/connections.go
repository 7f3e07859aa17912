package service

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// busyReply is the reply to a caller for which there is no connection.
const busyReply = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

const (
	// stuckWrite is how long a caller may read nothing of a reply before its connection may be
	// displaced.
	stuckWrite = time.Second
	// writePart is how much of a reply is written at once, so that progress is visible.
	writePart = 64 << 10
)

// connections is a listener that bounds the number of open connections. At the bound, a new
// connection replaces the one that has waited longest for its caller, because it is idle, its
// request is incomplete, or its reply is not read. So neither idle callers, nor half-sent requests,
// nor unread replies keep others out. There is no bound for each address, because behind a proxy
// all callers have one address. If all connections are being answered, the new caller is told to
// come back.
type connections struct {
	net.Listener
	most  int
	name  string
	log   *slog.Logger
	began time.Time // when clock began

	mu     sync.Mutex
	open   map[*connection]bool
	warned bool
	closed map[string]int // by reason
}

// connection is one open connection.
type connection struct {
	net.Conn
	of *connections

	answering int          // requests; guarded by of.mu
	since     time.Time    // when it was opened, its last request answered, or more of a request received
	writing   atomic.Int64 // of.clock at the start of the part that is being written; 0: none
}

// Write writes a reply in parts, and notes when each part began.
func (c *connection) Write(p []byte) (written int, err error) {
	defer c.writing.Store(0)
	for {
		part := p[written:min(len(p), written+writePart)]
		c.writing.Store(int64(c.of.clock()))
		n, err := c.Conn.Write(part)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// waits reports whether a connection waits for its caller, and since when. The caller holds of.mu.
func (c *connection) waits() (since time.Time, waits bool) {
	if c.answering == 0 {
		return c.since, true
	}
	began := time.Duration(c.writing.Load())
	if began == 0 || c.of.clock()-began < stuckWrite {
		return time.Time{}, false
	}
	return c.of.began.Add(began), true
}

func newConnections(listener net.Listener, name string, most int, log *slog.Logger) *connections {
	return &connections{Listener: listener, name: name, most: most, log: log, began: time.Now(), open: make(map[*connection]bool), closed: make(map[string]int)}
}

// clock returns the time since the listener was made. It is never 0, and never steps.
func (l *connections) clock() time.Duration { return time.Since(l.began) + 1 }

// Accept returns the next connection for which there is room.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(conn); admitted != nil {
			return admitted, nil
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, busyReply) // a caller that is gone need not hear it
		_ = conn.Close()
	}
}

// admit makes a connection one of the open ones, if need be in place of the idlest. It returns nil
// if there is no room.
func (l *connections) admit(conn net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		oldest := l.idlest()
		if oldest == nil {
			l.closed["refused"]++
			return nil
		}
		delete(l.open, oldest)
		l.closed["displaced"]++
		_ = oldest.Conn.Close()
	}
	c := &connection{Conn: conn, of: l, since: time.Now()}
	l.open[c] = true
	if !l.warned && len(l.open)*10 >= l.most*9 {
		l.warned = true
		l.log.Warn("HTTP connections are at their limit, or near it: connections with an incomplete request or an unread reply are closed for new ones", "server", l.name, "open", len(l.open), "limit", l.most)
	}
	return c
}

// idlest returns the connection that has waited longest for its caller. The caller holds mu.
func (l *connections) idlest() (idlest *connection) {
	var longest time.Time
	for c := range l.open {
		if since, waits := c.waits(); waits && (idlest == nil || since.Before(longest)) {
			idlest, longest = c, since
		}
	}
	return idlest
}

// Close ends the connection.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	if len(c.of.open)*2 < c.of.most {
		c.of.warned = false
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// known makes requests know their connection; it is an http.Server.ConnContext.
func (l *connections) known(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// answer notes on which connections a handler is answering.
func (l *connections) answer(next http.Handler) http.Handler {
	note := func(c *connection, by int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.answering += by
		c.since = time.Now()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			note(c, 1)
			defer note(c, -1)
			if r.Body != http.NoBody {
				r.Body = awaitedBody{r.Body, func(by int) { note(c, by) }}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// awaitedBody is the body of a request. While a handler waits for more of it, the handler
// answers nothing.
type awaitedBody struct {
	io.ReadCloser
	note func(by int)
}

// Read reads what has arrived, or waits for it.
func (b awaitedBody) Read(p []byte) (int, error) {
	b.note(-1)
	defer b.note(1)
	return b.ReadCloser.Read(p)
}

// Describe and Collect implement prometheus.Collector.
func (l *connections) Describe(into chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, into) }

// Collect returns how many connections there are, and how many were closed.
func (l *connections) Collect(into chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	labels := prometheus.Labels{"server": l.name}
	into <- prometheus.MustNewConstMetric(prometheus.NewDesc("rounds_http_connections", "HTTP connections that are open, by server: api or ops.", nil, labels),
		prometheus.GaugeValue, float64(len(l.open)))
	closed := prometheus.NewDesc("rounds_http_connections_closed_total", "HTTP connections that were closed because there were too many, by server and reason: displaced while their request was incomplete or their reply was not read, or refused while all others were being answered.",
		[]string{"reason"}, labels)
	for _, reason := range []string{"displaced", "refused"} {
		into <- prometheus.MustNewConstMetric(closed, prometheus.CounterValue, float64(l.closed[reason]), reason)
	}
}
