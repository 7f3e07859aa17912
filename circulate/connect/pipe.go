package connect

import (
	"io"
	"net"
	"sync"
)

// buffered is an end of a pipe whose writes never wait for the reader. A pipe has no
// buffer: a client that writes a pipeline while the server writes the first reply would
// wait for the server for ever, and the server for the client.
type buffered struct {
	net.Conn
	sends func() // is called before anything is sent

	mu      sync.Mutex
	pending []byte
	failed  error
	more    chan struct{} // has a value when there is something pending
	closed  chan struct{}
	once    sync.Once
}

func newBuffered(conn net.Conn, sends func()) *buffered {
	b := &buffered{Conn: conn, sends: sends, more: make(chan struct{}, 1), closed: make(chan struct{})}
	go b.pump()
	return b
}

// Write accepts everything at once, unless an earlier write has failed.
func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return 0, b.failed
	}
	b.pending = append(b.pending, p...)
	select {
	case b.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// Close closes both ends and drops what is pending.
func (b *buffered) Close() error {
	b.once.Do(func() { close(b.closed) })
	b.fail(io.ErrClosedPipe)
	return b.Conn.Close()
}

func (b *buffered) pump() {
	for {
		select {
		case <-b.closed:
			return
		case <-b.more:
		}
		b.mu.Lock()
		next := b.pending
		b.pending = nil
		b.mu.Unlock()
		b.sends()
		if _, err := b.Conn.Write(next); err != nil {
			b.fail(err)
			return
		}
	}
}

func (b *buffered) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
}
