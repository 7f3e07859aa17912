package dovecottest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/rounds-dev/rounds/testing/ports"
)

// Password is the password of every account.
const Password = "correct-horse-battery"

// Sent is the name of the folder of sent mail. Nothing but its special use (RFC 6154) tells that.
const Sent = "Gesendete Objekte"

// errMissing tells what a test that needs Dovecot is missing.
var errMissing = errors.New("this test needs Dovecot, which is not installed: install it " +
	"(apt-get install dovecot-imapd, dnf install dovecot, apk add dovecot, brew install dovecot), or run testing/run.sh, which does")

// Server is a Dovecot.
type Server struct {
	Port int
	Dir  string // holds everything of the server and is removed by Close

	cmd    *exec.Cmd
	exited chan struct{}
	log    *bytes.Buffer // read only after the server has ended
}

// Start starts a server and ends it with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, options{})
}

// StartQuota is Start for a server whose accounts may have so many mails.
func StartQuota(tb testing.TB, mails int) *Server {
	tb.Helper()
	return start(tb, options{quota: mails})
}

// StartOAuth is Start for a server that takes access tokens too, by OAUTHBEARER and XOAUTH2. It asks
// at introspection whose they are (RFC 7662), which answers with active and email.
func StartOAuth(tb testing.TB, introspection string) *Server {
	tb.Helper()
	return start(tb, options{introspection: introspection})
}

// options are what servers differ in.
type options struct {
	introspection string // empty: it takes no access tokens
	quota         int    // the mails of an account; 0: any number
}

func start(tb testing.TB, o options) *Server {
	tb.Helper()
	s, err := launch(o)
	if err != nil {
		tb.Fatalf("dovecottest: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("dovecottest: %v", err)
		}
	})
	return s
}

// Launch starts a server outside of any test. The caller calls Close.
func Launch() (*Server, error) { return launch(options{}) }

func launch(o options) (s *Server, err error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", program, err)
	}
	s = &Server{exited: make(chan struct{}), log: new(bytes.Buffer)}
	// The server makes sockets in its directory, and their paths must be short.
	if s.Dir, err = os.MkdirTemp("/tmp", "dovecot"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
	}()
	if s.Port, err = ports.Take(); err != nil {
		return nil, err
	}
	u, err := servant()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.Dir, "dovecot.conf")
	if err := os.WriteFile(file, []byte(s.configuration(string(version), u, o)), 0o600); err != nil {
		return nil, err
	}
	oauth := filepath.Join(s.Dir, "oauth2.conf")
	if err := os.WriteFile(oauth, []byte("introspection_mode = post\nintrospection_url = "+o.introspection+"\nusername_attribute = email\nactive_attribute = active\nactive_value = true\n"), 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(program, "-F", "-c", file)
	s.cmd.Dir, s.cmd.Env = s.Dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.WaitDelay = time.Second                           // processes of a killed server hold the log's pipe open
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the test must not reach the server
	if os.Geteuid() == 0 {
		credential := &syscall.Credential{Uid: number(u.Uid), Gid: number(u.Gid)}
		s.cmd.SysProcAttr.Credential = credential
		if err := errors.Join(os.Chown(s.Dir, int(credential.Uid), int(credential.Gid)), os.Chown(file, int(credential.Uid), int(credential.Gid)), os.Chown(oauth, int(credential.Uid), int(credential.Gid))); err != nil {
			return nil, err
		}
	}
	return s, s.run()
}

// find looks in PATH and where packages put what only root is to start.
func find() (string, error) {
	for _, name := range []string{"dovecot", "/usr/sbin/dovecot", "/usr/local/sbin/dovecot", "/opt/homebrew/sbin/dovecot"} {
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
	for _, name := range []string{"dovecot", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return u, nil
		}
	}
	return nil, errors.New("there is neither a user dovecot nor nobody to run as")
}

func number(id string) uint32 {
	n, _ := strconv.ParseUint(id, 10, 32) // it is the system's
	return uint32(n)
}

// configuration is the server's configuration. Version 2.4 changed the names of most
// settings.
func (s *Server) configuration(version string, u *user.User, o options) string {
	group := u.Gid
	if g, err := user.LookupGroupId(u.Gid); err == nil {
		group = g.Name
	}
	kind := `
protocols = imap
disable_plaintext_auth = no
mail_location = maildir:%DIR/mail/%u
passdb {
  driver = static
  args = password=%PASSWORD
}
userdb {
  driver = static
  args = uid=%UID gid=%GID home=%DIR/mail/%u
}
`
	if !strings.HasPrefix(version, "2.3") {
		kind = `
dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
protocols {
  imap = yes
}
auth_allow_cleartext = yes
mail_driver = maildir
mail_path = %DIR/mail/%{user}
passdb static {
  password = %PASSWORD
}
userdb static {
  fields {
    uid = %UID
    gid = %GID
    home = %DIR/mail/%{user}
  }
}
`
	}
	if o.introspection != "" {
		tokens := `
auth_mechanisms = plain login oauthbearer xoauth2
auth_failure_delay = 0
passdb {
  driver = oauth2
  mechanisms = oauthbearer xoauth2
  args = %DIR/oauth2.conf
}
`
		if !strings.HasPrefix(version, "2.3") {
			tokens = `
auth_failure_delay = 0
auth_mechanisms {
  plain = yes
  login = yes
  oauthbearer = yes
  xoauth2 = yes
}
oauth2 {
  introspection_mode = post
  introspection_url = ` + o.introspection + `
  username_attribute = email
  active_attribute = active
  active_value = true
}
passdb oauth2 {
  mechanisms_filter = oauthbearer xoauth2
}
`
		}
		kind += tokens
	}
	if o.quota > 0 {
		quota := `
mail_plugins = quota
plugin {
  quota = maildir:user
  quota_rule = *:messages=%QUOTA
}
`
		if !strings.HasPrefix(version, "2.3") {
			quota = `
mail_plugins {
  quota = yes
}
quota user {
  message_count = %QUOTA
}
`
		}
		kind += quota
	}
	const common = `
base_dir = %DIR/run
state_dir = %DIR/state
log_path = /dev/stderr
default_internal_user = %USER
default_internal_group = %GROUP
default_login_user = %USER
first_valid_uid = 1
ssl = no
listen = 127.0.0.1
service imap-login {
  chroot =
  inet_listener imap {
    port = %PORT
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
service stats {
  chroot =
}
namespace inbox {
  inbox = yes
  separator = /
  mailbox "%SENT" {
    special_use = \Sent
    auto = create
  }
}
`
	return strings.NewReplacer("%DIR", s.Dir, "%PASSWORD", Password, "%UID", u.Uid, "%GID", u.Gid, "%USER", u.Username, "%GROUP", group,
		"%PORT", strconv.Itoa(s.Port), "%SENT", Sent, "%QUOTA", strconv.Itoa(o.quota)).Replace(kind + common)
}

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
		client, err := s.login("probe")
		if err == nil {
			return client.Close()
		}
		select {
		case <-s.exited:
			return fmt.Errorf("dovecot ended at once:\n%s", s.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.end()
			return fmt.Errorf("dovecot does not serve: %w\n%s", err, s.log)
		}
	}
}

// end ends the server, which ends its processes.
func (s *Server) end() {
	_ = s.Resume()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// Restart ends the server and starts it again, on the same port and with the same mails.
func (s *Server) Restart() error {
	s.end()
	cmd := exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr
	cmd.WaitDelay, cmd.SysProcAttr = s.cmd.WaitDelay, s.cmd.SysProcAttr
	s.cmd, s.exited = cmd, make(chan struct{})
	return s.run()
}

// Pause stops all processes of the server, so that it answers nothing until Resume.
func (s *Server) Pause() error { return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGSTOP) }

// Resume ends a pause, if there is one.
func (s *Server) Resume() error { return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGCONT) }

// Close stops the server and removes its directory.
func (s *Server) Close() error {
	s.end()
	return os.RemoveAll(s.Dir)
}

// login returns a client that is logged in to an account.
func (s *Server) login(account string) (*imapclient.Client, error) {
	client, err := imapclient.DialInsecure(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), nil)
	if err != nil {
		return nil, err
	}
	if err := client.Login(account, Password).Wait(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// Mails returns the mails in a folder of an account, in order.
func (s *Server) Mails(account, folder string) (mails [][]byte, err error) {
	client, err := s.login(account)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	box, err := client.Select(folder, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil || box.NumMessages == 0 {
		return nil, err
	}
	all := imap.SeqSet{{Start: 1, Stop: box.NumMessages}}
	fetched, err := client.Fetch(all, &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{{Peek: true}}}).Collect()
	if err != nil {
		return nil, err
	}
	for _, m := range fetched {
		mails = append(mails, m.BodySection[0].Bytes)
	}
	return mails, nil
}

// Deliver adds mails to an account's INBOX, without changes, and returns the mailbox'
// UIDVALIDITY.
func (s *Server) Deliver(account string, mails ...[]byte) (validity uint32, err error) {
	return s.DeliverTo(account, "INBOX", mails...)
}

// DeliverTo is Deliver for another mailbox, which it makes if it does not exist.
func (s *Server) DeliverTo(account, mailbox string, mails ...[]byte) (validity uint32, err error) {
	client, err := s.login(account)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if mailbox != "INBOX" {
		_ = client.Create(mailbox, nil).Wait() // otherwise Append fails
	}
	for _, mail := range mails {
		command := client.Append(mailbox, int64(len(mail)), nil)
		_, err := command.Write(mail)
		if err := errors.Join(err, command.Close()); err != nil {
			return 0, err
		}
		if _, err := command.Wait(); err != nil {
			return 0, err
		}
	}
	box, err := client.Status(mailbox, &imap.StatusOptions{UIDValidity: true}).Wait()
	if err != nil {
		return 0, err
	}
	return box.UIDValidity, nil
}
