package imap

import (
	"context"
	"net"
	"sync/atomic"
)

// metered is a connection that bounds how many bytes are read from it, because the
// client library bounds only time. It also keeps the error that ended reading or
// writing, because the library's errors do not contain it.
type metered struct {
	net.Conn
	room     atomic.Int64
	tooLarge atomic.Bool
	broken   atomic.Pointer[error] // of the first read or write that failed
	unusable atomic.Bool           // see grammar
	ended    func() bool           // stops the watch of the context
}

// meter returns a connection that allows most bytes to be read and is closed when ctx
// is done.
func meter(ctx context.Context, conn net.Conn, most int64) *metered {
	m := &metered{Conn: conn}
	m.room.Store(most)
	m.ended = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return m
}

// allow allows n more bytes to be read.
func (m *metered) allow(n int64) { m.room.Add(n) }

// Read reads while there is room.
func (m *metered) Read(p []byte) (int, error) {
	if m.room.Load() <= 0 {
		m.tooLarge.Store(true)
		return 0, net.ErrClosed
	}
	n, err := m.Conn.Read(p)
	m.room.Add(-int64(n))
	m.note(err)
	return n, err
}

// Write writes, and keeps why it failed. The library closes a connection to which it
// cannot write, and reading may end only later, and with an error of that closing.
func (m *metered) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	m.note(err)
	return n, err
}

func (m *metered) note(err error) {
	if err != nil {
		m.broken.CompareAndSwap(nil, &err)
	}
}

// Close closes the connection and ends the watch.
func (m *metered) Close() error {
	m.ended()
	return m.Conn.Close()
}
