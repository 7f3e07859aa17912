package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/datadir"
)

// Losing is a Redis that fails when a test calls Lose, and is back at once without its last
// writes. Writes before Keep survive, and those that a caller has waited for by WAITAOF or WAIT.
// All others are lost each time, so no test depends on luck.
type Losing struct {
	// Replicas is how many replicas a caller must wait for.
	Replicas int
	// Lossless says that this failure loses nothing.
	Lossless bool
	// Unsure says that nobody can wait for the server's disk: Redis has WAITAOF since 7.2.
	Unsure bool

	t       *testing.T
	failure failure
	mu      sync.Mutex
	now     Redis
	failed  bool
}

// failure is how a Redis loses writes.
type failure interface {
	confirm() error       // a WAIT is about to be sent, and may succeed
	keep() error          // the writes so far survive
	fail() (Redis, error) // the others are lost; it returns what is there instead
}

// EachLosing runs fn against servers that fail in different ways, as subtests: an embedded one and
// a real one whose machines lose power, a real one that is killed, and one that a replica replaces.
func EachLosing(t *testing.T, fn func(t *testing.T, server *Losing)) {
	t.Helper()
	for name, start := range map[string]func(t *testing.T) *Losing{
		"embedded, without power": losingPower, "killed": losingProcess, "everysec, without power": losingDisk, "failed over": losingMaster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := start(t)
			l.t = t
			fn(t, l)
		})
	}
}

// Name returns the name of the server that is there now.
func (l *Losing) Name() string { return l.current().Name() }

// Close does nothing: servers end with their test.
func (l *Losing) Close() error { return nil }

// Conn lends a connection to the server that is there now.
func (l *Losing) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := l.current().Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &losingConn{Conn: conn, server: l}, nil
}

func (l *Losing) current() Redis {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Keep has all writes so far survive.
func (l *Losing) Keep() {
	l.t.Helper()
	l.unlessFailed(l.failure.keep)
}

func (l *Losing) unlessFailed(do func() error) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return
	}
	if err := do(); err != nil {
		l.t.Error(err)
	}
}

// Lose has the server fail. When it returns, the server is back.
func (l *Losing) Lose() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := l.failure.fail()
	must(l.t, err)
	l.now, l.failed = now, true
}

// losingConn notices which writes a caller waits for.
type losingConn struct {
	redis.Conn
	server     *Losing
	sent       []string // the commands of a pipeline whose replies have not arrived
	subscribed bool
}

// DoWithTimeout does a single command.
func (c *losingConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, timeout, name, args...)
}

// Send begins a pipeline or a subscription, which may send while it receives.
func (c *losingConn) Send(name string, args ...any) error {
	switch {
	case name == "SUBSCRIBE":
		c.subscribed = true
	case name == "WAIT":
		c.server.unlessFailed(c.server.failure.confirm)
	}
	if !c.subscribed {
		c.sent = append(c.sent, name)
	}
	return c.Conn.Send(name, args...)
}

// ReceiveWithTimeout receives the replies of a pipeline.
func (c *losingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	if c.subscribed || len(c.sent) == 0 {
		return reply, err
	}
	name := c.sent[0]
	c.sent = c.sent[1:]
	confirmed := int64(0)
	switch answer := reply.(type) {
	case int64:
		confirmed = answer
	case []any:
		if len(answer) > 0 {
			confirmed, _ = answer[0].(int64)
		}
	}
	if (name == "WAIT" || name == "WAITAOF") && err == nil && confirmed > 0 {
		c.server.unlessFailed(c.server.failure.keep)
	}
	return reply, err
}

// lostPower is the failure of the machine of a process that has the embedded server and a data
// directory.
type lostPower struct {
	t          *testing.T
	path, kept string
	end        func() // of the process
}

func losingPower(t *testing.T) *Losing {
	f := &lostPower{t: t, path: t.TempDir()}
	return &Losing{failure: f, now: f.start(f.path)}
}

// start starts the process with a directory.
func (f *lostPower) start(path string) *connect.Embedded {
	e := connect.NewEmbedded()
	dir, err := datadir.Open(context.Background(), e, datadir.Options{Path: path, What: "a test"})
	f.end = sync.OnceFunc(func() {
		if err == nil {
			err = dir.Close()
		}
		if err := errors.Join(err, e.Close()); err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(f.end)
	return e
}

func (f *lostPower) confirm() error { return nil }

func (f *lostPower) keep() error {
	f.kept = f.t.TempDir()
	return copyData(f.path, f.kept)
}

func (f *lostPower) fail() (Redis, error) {
	f.end() // which saves into a directory that nobody reads
	return f.start(f.kept), nil
}

// lostProcess is the end of a redis-server by kill -9, and its start on the same files. Cut is the
// failure of its machine as well, after which the files lack what was not synced.
type lostProcess struct {
	t      *testing.T
	server *Server
	cut    bool
	synced int64 // so much of the file survives
}

// everySecond are the options of a server that syncs its file each second.
func everySecond(more ...string) []Option {
	return []Option{WithArgs("--appendonly", "yes", "--appendfsync", "everysec"), WithArgs(more...)}
}

func losingProcess(t *testing.T) *Losing {
	server := Start(t, everySecond()...)
	return &Losing{Lossless: true, failure: &lostProcess{t: t, server: server}, now: Connect(t, server)}
}

func losingDisk(t *testing.T) *Losing {
	server := Start(t, everySecond()...)
	_, err := server.command("WAITAOF", 0, 0, 0)
	return &Losing{Unsure: err != nil, failure: &lostProcess{t: t, server: server, cut: true}, now: Connect(t, server)}
}

func (f *lostProcess) confirm() error { return nil }

// keep has the file synced. It may delay a write while it syncs an earlier one, but not with always.
func (f *lostProcess) keep() error {
	_, err := f.server.command("CONFIG", "SET", "appendfsync", "always")
	if err != nil {
		return err
	}
	file, err := f.file()
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	f.synced = info.Size()
	_, err = f.server.command("CONFIG", "SET", "appendfsync", "everysec")
	return err
}

func (f *lostProcess) file() (string, error) {
	files, err := filepath.Glob(filepath.Join(f.server.Dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("append-only files: %v", files)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// fail has the server start again on another port. It syncs each write from then on, so that nobody
// waits for its disk. While it syncs, it has newer writes in its memory only. A kill that is to lose
// nothing waits until they are in the file.
func (f *lostProcess) fail() (Redis, error) {
	if !f.cut {
		if err := await("all is written", func() bool { return f.server.field("INFO", "aof_buffer_length") == "0" }); err != nil {
			return nil, err
		}
	}
	f.server.Kill()
	if f.cut {
		file, err := f.file()
		if err := errors.Join(err, os.Truncate(file, f.synced)); err != nil {
			return nil, err
		}
	}
	again, err := Launch(LookPath(f.t), f.server.Dir, everySecond("--appendfsync", "always")...)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(again.Kill)
	return Connect(f.t, again), nil
}

// lostMaster is a failover. The replica gets writes only while somebody waits for them.
type lostMaster struct {
	t               *testing.T
	master, replica *Server
}

func losingMaster(t *testing.T) *Losing {
	f := &lostMaster{t, Start(t), Start(t)}
	return &Losing{Replicas: 1, failure: f, now: Connect(t, f.master)}
}

func (f *lostMaster) confirm() error { return f.replica.follow(f.master) }

func (f *lostMaster) keep() error { return errors.Join(f.replica.follow(f.master), f.replica.lead()) }

// fail has the old master become a replica of the new one.
func (f *lostMaster) fail() (Redis, error) {
	return Connect(f.t, f.replica), f.master.follow(f.replica)
}
