package sqlonce_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a proxy that can cut a connection in the midst of a commit.
type cutter struct {
	listener net.Listener
	server   string
	cut      atomic.Bool // the next commit
	executed atomic.Bool // cut after the server has executed it, not before
	group    sync.WaitGroup
}

func newCutter(t *testing.T, server string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, server: server}
	c.group.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.group.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close() }) // the pool is closed before this and ends the connections
	return c
}

func (c *cutter) addr() string { return c.listener.Addr().String() }

func (c *cutter) cutNext(executed bool) {
	c.executed.Store(executed)
	c.cut.Store(true)
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	var mute atomic.Bool // drop the server's next answer and end the connection
	c.group.Go(func() {
		defer client.Close()
		defer server.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || mute.Load() {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("commit\x00")) && c.cut.CompareAndSwap(true, false) {
			if !c.executed.Load() {
				return
			}
			mute.Store(true)
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// liar is a driver.Connector whose next commit answers an error, whether it was
// executed or not.
type liar struct {
	driver        driver.Driver
	name          string
	cut, executed *atomic.Bool
}

func (l *liar) Driver() driver.Driver { return l.driver }

func (l *liar) Connect(context.Context) (driver.Conn, error) {
	conn, err := l.driver.Open(l.name)
	return &lyingConn{conn.(fullConn), l}, err
}

// fullConn has the methods that database/sql uses of an SQLite connection.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type lyingConn struct {
	fullConn
	liar *liar
}

func (c *lyingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	return &lyingTx{tx, c.liar}, err
}

type lyingTx struct {
	driver.Tx
	liar *liar
}

func (tx *lyingTx) Commit() error {
	if !tx.liar.cut.CompareAndSwap(true, false) {
		return tx.Tx.Commit()
	}
	if tx.liar.executed.Load() {
		return errors.Join(tx.Tx.Commit(), io.ErrUnexpectedEOF)
	}
	return errors.Join(tx.Rollback(), io.ErrUnexpectedEOF)
}

// fileOf returns the file of an SQLite database.
func fileOf(t *testing.T, db *sql.DB) (file string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		t.Fatal(err)
	}
	return file
}
