package redistest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/ports"
)

// Server is a redis-server process, or one of another server that [Find] was told to use.
type Server struct {
	Port int
	Dir  string // its working directory, where AOF and TLS files are

	config string // a configuration file, read before the arguments
	args   []string
	tls    bool
	quick  bool
	cmd    *exec.Cmd
	exited chan struct{}
	log    bytes.Buffer
}

// Option changes how a server is started.
type Option func(*Server)

// WithAOF has the server keep over a kill what it acknowledged: appendfsync always.
func WithAOF() Option {
	return WithArgs("--appendonly", "yes", "--appendfsync", "always")
}

// WithArgs adds arguments of redis-server.
func WithArgs(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Start starts a server and ends it with the test.
func Start(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	path := LookPath(tb)
	s, err := Launch(path, tb.TempDir(), options...)
	if err != nil {
		tb.Fatalf("redis-server: %v", err)
	}
	tb.Cleanup(s.Kill)
	return s
}

// Launch starts the redis-server at a path outside of any test, in a directory of the
// caller. The caller calls Kill.
func Launch(path, dir string, options ...Option) (*Server, error) {
	for try := 1; ; try++ {
		port, err := ports.Take()
		if err != nil {
			return nil, err
		}
		s, err := launchAt(path, dir, port, options)
		// Another process may have taken the port meanwhile.
		if err == nil || try == 5 || !strings.Contains(err.Error(), "Address already in use") {
			return s, err
		}
	}
}

func launchAt(path, dir string, port int, options []Option) (*Server, error) {
	s := &Server{Port: port, Dir: dir}
	for _, o := range options {
		o(s)
	}
	if s.tls {
		if err := writeCertificates(dir); err != nil {
			return nil, err
		}
	}
	if err := s.start(path); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(path string) error {
	if err := s.begin(path); err != nil {
		return err
	}
	return s.AwaitReady(readyWithin)
}

// begin starts the process without waiting for it.
func (s *Server) begin(path string) error {
	port := strconv.Itoa(s.Port)
	var args []string
	if s.config != "" {
		args = append(args, s.config)
	}
	args = append(args, "--bind", "127.0.0.1", "--save", "", "--dir", s.Dir)
	if s.tls {
		args = append(args, "--port", "0", "--tls-port", port, "--tls-auth-clients", "no",
			"--tls-cert-file", filepath.Join(s.Dir, "server.pem"), "--tls-key-file", filepath.Join(s.Dir, "server.key"),
			"--tls-ca-cert-file", s.CAFile())
	} else {
		args = append(args, "--port", port)
	}
	s.log.Reset()
	s.cmd = exec.Command(path, append(args, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.exited = exited
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // it only matters that it has ended
		close(exited)
	}(s.cmd)
	return nil
}

const readyWithin = 20 * time.Second

// AwaitReady waits until the server answers. A server that is loading its data does not
// count.
func (s *Server) AwaitReady(within time.Duration) error {
	deadline := time.After(within)
	for {
		if s.ready() {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("ended at once:\n%s", s.log.String())
		case <-deadline:
			return fmt.Errorf("not ready after %v", within)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Server) ready() bool {
	conn, err := s.Dial()
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = conn.Do("PING")
	return err == nil
}

// Addr returns the server's address.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// URL returns the server's redis:// or rediss:// URL.
func (s *Server) URL() string {
	if s.tls {
		return "rediss://" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// Dial opens a connection that belongs to the caller.
func (s *Server) Dial() (redis.Conn, error) { return s.dial(connect.Options{}) }

func (s *Server) dial(o connect.Options) (redis.Conn, error) {
	o.CAFile = s.CAFile()
	single, err := connect.OpenSingle(s.URL(), o)
	if err != nil {
		return nil, err
	}
	conn, err := single.Conn(context.Background(), "")
	if err != nil {
		return nil, err
	}
	return owned{conn, single}, nil
}

// owned is a pooled connection that closes its pool.
type owned struct {
	redis.Conn
	pool *connect.Single
}

func (o owned) Close() error {
	_ = o.Conn.Close()
	return o.pool.Close()
}

// Kill ends the server as kill -9 does and waits until it is gone.
func (s *Server) Kill() {
	if s.exited == nil {
		return // it never started
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// Restart starts the server again on its port and directory, after a Kill.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.start(LookPath(tb)); err != nil {
		tb.Fatalf("redis-server: %v", err)
	}
}

// Freeze stops the server as SIGSTOP does; Thaw lets it go on.
func (s *Server) Freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Ended reports whether the process has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}
