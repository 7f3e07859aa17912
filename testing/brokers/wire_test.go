package brokers

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

var errCut = errors.New("cut")

// network connects in memory, so that a bubble of fake time sees who waits for whom.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	ports     int
}

type listener struct {
	at    *net.TCPAddr
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (n *network) listen(_, _ string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = make(map[string]*listener)
	}
	n.ports++
	l := &listener{at: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9091 + n.ports}, conns: make(chan net.Conn), ended: make(chan struct{})}
	n.listeners[l.at.String()] = l
	return l, nil
}

func (l *listener) Addr() net.Addr { return l.at }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("nobody listens at " + strconv.Quote(address))}
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.ended:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wire is the network between a process and the brokers. By default the process dies before it connects or sends, or
// before it reads what has arrived. Who sees whole requests calls request instead: then it dies before or behind one.
type wire struct {
	by func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	steps int // until it dies; less than 0: it does not
	dead  bool
	away  bool
	frail bool // it does not die, but is cut off from the brokers
	whole bool // steps are requests
	open  map[*cable]bool
}

func (w *wire) step() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead || w.away {
		return errCut
	}
	if w.whole {
		return nil
	}
	if w.steps == 0 {
		w.end()
		return errCut
	}
	w.steps--
	return nil
}

// request counts two steps of a request that has arrived. It reports whether it is lost. Otherwise it is carried out,
// though its sender may be dead when it is answered.
func (w *wire) request() (lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.dead || w.away:
		return true
	case w.steps == 0:
		w.end()
		return true
	case w.steps == 1:
		w.end()
	case w.steps > 1:
		w.steps -= 2
	}
	return false
}

// end ends the process, or cuts it off.
func (w *wire) end() {
	w.dead, w.away, w.steps = !w.frail, w.frail, -1
	w.cut()
}

// cut closes all connections, as the system does for a dead process.
func (w *wire) cut() {
	for c := range w.open {
		_ = c.Conn.Close()
	}
	clear(w.open)
}

func (w *wire) setAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away = away; away {
		w.cut()
	}
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := w.step(); err != nil {
		return nil, &net.OpError{Op: "dial", Err: err}
	}
	conn, err := w.by(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &cable{conn, w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead || w.away {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Err: errCut}
	}
	w.open[c] = true
	return c, nil
}

type cable struct {
	net.Conn
	of *wire
}

func (c *cable) Write(p []byte) (int, error) {
	if err := c.of.step(); err != nil {
		_ = c.Close()
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *cable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	if err := c.of.step(); err != nil {
		_ = c.Close()
		return 0, err
	}
	return n, nil
}

func (c *cable) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
