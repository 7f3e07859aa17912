// Package versitygw starts versitygw, a real S3 server, for tests and measurements. The module testing/s3 has its
// source, which takes some 90 s of processor to compile for the first time, so only what runs by night starts it.
package versitygw

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
	"time"

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
	program, err := build(context.Background())
	if err != nil {
		return nil, err
	}
	address, err := ports.Address()
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + address, Dir: filepath.Join(dir, Bucket), program: program, address: address}
	if err := os.Mkdir(s.Dir, 0o700); err != nil { // the server takes a folder for a bucket
		return nil, err
	}
	return s, s.start()
}

// build compiles the server, unless that was done before, and returns its path. The go command stores it as it
// does packages.
func build(ctx context.Context) (string, error) {
	top, err := processes.Go(ctx, "list", "-m", "-f", "{{.Dir}}", "github.com/rounds-dev/rounds").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	command := processes.Go(ctx, "tool", "-n", "versitygw")
	command.Dir = filepath.Join(strings.TrimSpace(string(top)), "testing", "s3")
	path, err := command.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("go tool -n versitygw: %w\n%s", err, ended.Stderr)
	}
	return strings.TrimSpace(string(path)), err
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
