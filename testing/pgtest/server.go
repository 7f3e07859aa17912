package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/rounds-dev/rounds/testing/ports"
)

// Server is a PostgreSQL server process.
type Server struct {
	Port int
	Dir  string // holds the cluster and is removed by Close

	programs programs
	user     *syscall.Credential
	password string
	args     []string
	files    map[string]string // in the cluster, by name
	cmd      *exec.Cmd
	exited   chan struct{}
	log      *bytes.Buffer // of the process that runs now; read only after it has ended
}

// Option changes how a server is started.
type Option func(*Server)

// WithSettings sets configuration parameters, each as name=value. The default is
// fsync=off: with it a killed process loses nothing, but a machine that fails would.
func WithSettings(settings ...string) Option {
	return func(s *Server) {
		for _, setting := range settings {
			s.args = append(s.args, "-c", setting)
		}
	}
}

// WithTLS makes the server speak TLS with a certificate and its key in PEM. An authority, also in PEM, signs
// the certificates of its clients. The rules are those of pg_hba.conf.
func WithTLS(pair, authority string, rules ...string) Option {
	return func(s *Server) {
		s.files = map[string]string{"server.pem": pair, "clients.pem": authority, "pg_hba.conf": strings.Join(rules, "\n") + "\n"}
		WithSettings("ssl=on", "ssl_cert_file=server.pem", "ssl_key_file=server.pem", "ssl_ca_file=clients.pem")(s)
	}
}

// Start starts a server and ends it with the test.
func Start(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	s, err := Launch(options...)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return s
}

// Launch starts a server outside of any test. The caller calls Close.
func Launch(options ...Option) (s *Server, err error) {
	s = &Server{password: rand.Text(), args: []string{"-c", "fsync=off", "-c", "max_connections=200"}}
	for _, o := range options {
		o(s)
	}
	if s.programs, err = findPrograms(); err != nil {
		return nil, err
	}
	if s.user, err = servant(); err != nil {
		return nil, err
	}
	if s.Dir, err = os.MkdirTemp("", "pgtest"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
	}()
	if err = s.initialize(); err != nil {
		return nil, err
	}
	if s.Port, err = ports.Take(); err != nil {
		return nil, err
	}
	return s, s.start()
}

// initialize makes the cluster.
func (s *Server) initialize() error {
	secret := filepath.Join(s.Dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.user != nil {
		for _, path := range []string{s.Dir, secret} {
			if err := os.Chown(path, int(s.user.Uid), int(s.user.Gid)); err != nil {
				return err
			}
		}
	}
	cmd := s.command(s.programs.initdb, "-D", s.data(), "-U", "postgres", "-E", "UTF8", "--locale=C",
		"-A", "scram-sha-256", "--pwfile", secret, "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for name, text := range s.files {
		path := filepath.Join(s.data(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if s.user != nil {
			if err := os.Chown(path, int(s.user.Uid), int(s.user.Gid)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// command returns a program of PostgreSQL, run as the user that it must run as. The
// environment is not the test's, because PG… variables in it would change the program.
func (s *Server) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Setpgid: true} // an interrupt of the test must not reach the server
	return cmd
}

// start starts the process and waits until it serves. After a kill, the old server's
// shared memory stays in use until the last of its processes is gone, and a new server
// refuses to start meanwhile. Then it tries again.
func (s *Server) start() error {
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := s.startOnce(deadline)
		if err == nil || !strings.Contains(err.Error(), "shared memory block") || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *Server) startOnce(deadline time.Time) error {
	args := append([]string{"-D", s.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port), "-k", ""}, s.args...)
	s.cmd, s.log, s.exited = s.command(s.programs.postgres, args...), new(bytes.Buffer), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	// Processes of a killed server hold the log's pipe open until they end.
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // it only matters that it has ended
		close(exited)
	}(s.cmd, s.exited)
	for !s.serves() {
		select {
		case <-s.exited:
			return fmt.Errorf("postgres ended at once:\n%s", s.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Kill()
			return fmt.Errorf("postgres does not serve:\n%s", s.log)
		}
	}
	return nil
}

func (s *Server) serves() bool {
	db, err := sql.Open("pgx", s.URL("postgres"))
	if err != nil {
		return false
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return db.PingContext(ctx) == nil
}

// Addr is the server's address.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// URL reaches a database of the server as its superuser.
func (s *Server) URL(database string) string { return s.URLAt(s.Addr(), database) }

// URLAt is URL through another address, such as a proxy's.
func (s *Server) URLAt(addr, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", s.password), Host: addr, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}
