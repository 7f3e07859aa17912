package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/files/s3"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
)

// The server's one bucket, and who may use it.
const (
	Bucket    = "rounds-files"
	AccessKey = "AKIAROUNDS"
	SecretKey = "correct-horse-battery"
	Region    = "eu-test-1"
)

// Server is an S3 server with one bucket.
type Server struct {
	URL string
	Dir string // the bucket's objects, as files

	program string
	address string
	cmd     *exec.Cmd
	exited  chan struct{}
	log     *bytes.Buffer // read only after the server has ended
}

// Launch starts a server in a directory. The caller calls Close.
func Launch(dir string) (*Server, error) {
	// The go command compiles the server once, and keeps it as it does packages.
	found, err := processes.Go(context.Background(), "tool", "-n", "versitygw").Output()
	if err != nil {
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("go tool -n versitygw: %w\n%s", err, ended.Stderr)
		}
		return nil, err
	}
	address, err := ports.Address()
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + address, Dir: filepath.Join(dir, Bucket), program: strings.TrimSpace(string(found)), address: address}
	if err := os.Mkdir(s.Dir, 0o700); err != nil { // the server takes a folder for a bucket
		return nil, err
	}
	return s, s.start()
}

// start starts the server, and waits until it listens.
func (s *Server) start() error {
	dir := filepath.Dir(s.Dir)
	// File systems of containers may have no O_TMPFILE.
	s.cmd = exec.Command(s.program, "--port", s.address, "--region", Region, "--quiet", "--keep-alive", "posix", "--disableotmp", dir)
	s.cmd.Env = []string{"ROOT_ACCESS_KEY_ID=" + AccessKey, "ROOT_SECRET_ACCESS_KEY=" + SecretKey, "HOME=" + dir}
	s.log, s.exited = new(bytes.Buffer), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the test must not reach the server
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		_ = cmd.Wait() // the log says why it ended
	}(s.cmd, s.exited)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		select {
		case <-s.exited:
			return fmt.Errorf("versitygw ended:\n%s", s.log)
		default:
		}
		if conn, err := net.Dial("tcp", s.address); err == nil {
			return conn.Close()
		}
	}
}

// Restart kills the server and starts it again.
func (s *Server) Restart() error {
	s.Close()
	return s.start()
}

// Close kills the server.
func (s *Server) Close() {
	_ = s.cmd.Process.Kill() // it has ended then
	<-s.exited
}

// Store returns a store with a prefix of its own. The URL is the server's or a proxy's.
func Store(t testing.TB, url, prefix string) *s3.Store {
	t.Helper()
	store, err := s3.New(Options(url, prefix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// Options are those of Store.
func Options(url, prefix string) s3.Options {
	return s3.Options{Endpoint: url, Region: Region, Bucket: Bucket, Prefix: prefix, AccessKey: AccessKey, SecretKey: SecretKey}
}
