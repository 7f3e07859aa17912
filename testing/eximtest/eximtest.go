// Package eximtest starts Exim for tests: a separate mail server on a free loopback port, with a
// configuration, a spool and a mailbox in its own directory. A test that needs one fails where Exim is
// not installed, and says what to install. So a green run means that it ran.
//
// It takes mail after STARTTLS and a login by any user with the password Password, and only for its
// Domain. It refuses the recipient Nobody. What it takes for Gone bounces. Everything else stands in
// one mailbox. If the tests run as root, the server runs as Exim's own user.
package eximtest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

const (
	// Password is the password of every user.
	Password = imapd.Password
	// Domain is that of all recipients.
	Domain = "example.net"
	// Nobody is refused.
	Nobody = "nobody@" + Domain
	// Gone is accepted, and bounces.
	Gone = "gone@" + Domain
)

var errMissing = errors.New("this test needs Exim, which is not installed: install it " +
	"(apt-get install exim4-daemon-light, dnf install exim, apk add exim, brew install exim), or run testing/run.sh, which does")

// Server is an Exim.
type Server struct {
	Port  int            // of 127.0.0.1
	Roots *x509.CertPool // the authority of its certificate

	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
	log    *bytes.Buffer // read only after the server has ended
}

// Start starts a server and ends it with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := launch()
	if err != nil {
		tb.Fatalf("eximtest: %v", err)
	}
	tb.Cleanup(func() {
		s.end()
		if err := os.RemoveAll(s.dir); err != nil {
			tb.Errorf("eximtest: %v", err)
		}
	})
	return s
}

func launch() (s *Server, err error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	s = &Server{exited: make(chan struct{}), log: new(bytes.Buffer), Roots: x509.NewCertPool()}
	if s.dir, err = os.MkdirTemp("/tmp", "exim"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	if s.Port, err = ports.Take(); err != nil {
		return nil, err
	}
	file, err := s.prepare()
	if err != nil {
		return nil, err
	}
	s.cmd = exec.Command(program, "-C", file, "-bdf")
	s.cmd.Dir, s.cmd.Env = s.dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.WaitDelay = time.Second                           // processes of a killed server hold the log's pipe open
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the test must not reach the server
	return s, s.run()
}

// find looks in PATH and where packages put what only root is to start.
func find() (string, error) {
	for _, name := range []string{"exim4", "exim", "/usr/sbin/exim4", "/usr/sbin/exim", "/opt/homebrew/sbin/exim"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errMissing
}

// servant returns the user that the server runs as.
func servant() (*user.User, error) {
	if os.Geteuid() != 0 {
		return user.Current()
	}
	for _, name := range []string{"Debian-exim", "exim", "mail"} {
		if u, err := user.Lookup(name); err == nil {
			return u, nil
		}
	}
	return nil, errors.New("there is no user Debian-exim, exim or mail to run as")
}

// prepare writes what the server needs, and returns its configuration's file.
func (s *Server) prepare() (file string, err error) {
	u, err := servant()
	if err != nil {
		return "", err
	}
	certificate, err := imapd.NewCertificate()
	if err != nil {
		return "", err
	}
	s.Roots.AddCert(certificate.Leaf)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return "", err
	}
	var identity bytes.Buffer
	if err := errors.Join(
		pem.Encode(&identity, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		pem.Encode(&identity, &pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	); err != nil {
		return "", err
	}
	file = filepath.Join(s.dir, "exim.conf")
	config := strings.NewReplacer("%DIR", s.dir, "%UID", u.Uid, "%GID", u.Gid, "%PORT", strconv.Itoa(s.Port), "%PASSWORD", Password, "%DOMAIN", Domain,
		"%NOBODY", local(Nobody), "%GONE", local(Gone)).Replace(configuration)
	own := filepath.Join(s.dir, "own") // of the server's user
	if err := errors.Join(os.Chmod(s.dir, 0o755), os.Mkdir(own, 0o700), os.WriteFile(file, []byte(config), 0o644),
		os.WriteFile(filepath.Join(own, "tls.pem"), identity.Bytes(), 0o600)); err != nil || os.Geteuid() != 0 {
		return file, err
	}
	uid, _ := strconv.Atoi(u.Uid) // it is the system's
	gid, _ := strconv.Atoi(u.Gid)
	return file, errors.Join(os.Chown(own, uid, gid), os.Chown(filepath.Join(own, "tls.pem"), uid, gid))
}

func local(address string) string { return strings.TrimSuffix(address, "@"+Domain) }

const configuration = `
primary_hostname = mx.%DOMAIN
exim_user = %UID
exim_group = %GID
spool_directory = %DIR/own/spool
log_file_path = %DIR/own/%slog
pid_file_path = %DIR/own/pid
keep_environment =
local_interfaces = 127.0.0.1
daemon_smtp_ports = %PORT
tls_advertise_hosts = *
tls_certificate = %DIR/own/tls.pem
dsn_advertise_hosts = *
host_lookup =
rfc1413_hosts =
acl_smtp_rcpt = recipient

begin acl
recipient:
  deny domains = ! %DOMAIN
  deny local_parts = %NOBODY
    message = 5.1.1 no such person
  accept authenticated = *
  deny message = 5.7.1 log in first

begin routers
gone:
  driver = redirect
  local_parts = %GONE
  allow_fail
  data = :fail: the mailbox is gone
mailbox:
  driver = accept
  transport = mailbox

begin transports
mailbox:
  driver = appendfile
  directory = %DIR/own/mail
  maildir_format
  create_directory

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_advertise_condition = ${if def:tls_in_cipher}
  server_prompts = :
  server_condition = ${if eq{$auth3}{%PASSWORD}}
  server_set_id = $auth2
`

// run starts the process and waits until it serves.
func (s *Server) run() error {
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.cmd.Wait() // it only matters that it has ended
		close(s.exited)
	}()
	for deadline := time.Now().Add(60 * time.Second); ; {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.exited:
			return fmt.Errorf("exim ended at once:\n%s", s.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.end()
			return fmt.Errorf("exim does not serve: %w\n%s", err, s.log)
		}
	}
}

// end ends the server and its processes.
func (s *Server) end() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.exited
	}
}

// Await returns the mails in the server's mailbox, as soon as there are so many.
func (s *Server) Await(ctx context.Context, n int) (mails [][]byte, err error) {
	for {
		files, err := filepath.Glob(filepath.Join(s.dir, "own/mail/new/*"))
		if err != nil {
			return nil, err
		}
		if len(files) >= n {
			slices.Sort(files)
			for _, file := range files {
				mail, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				mails = append(mails, bytes.ReplaceAll(mail, []byte("\n"), []byte("\r\n")))
			}
			return mails, nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "own/mainlog"))
			return nil, fmt.Errorf("the mailbox has %d mails, not %d:\n%s", len(files), n, log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
