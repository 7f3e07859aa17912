// Package smtpd is a fake submission server for tests: SMTP over TCP or TLS on a free port of
// 127.0.0.1, or over connections within the process, with any number of accounts. It fails on
// demand at each step of a mail.
//
// An account exists as soon as it is named. Its user is its name, and its password Secret.
package smtpd

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// Password is the password of every account by default.
const Password = imapd.Password

// The steps at which an account fails. Greeting and Hello come before the login, so they are steps of
// the account "".
const (
	Greeting  = "greeting"
	Hello     = "EHLO"
	Login     = "AUTH"
	Sender    = "MAIL"
	Recipient = "RCPT"
	Data      = "DATA"
	Within    = "within the mail" // before its end
	End       = "the end of the mail"
)

// Fault is what goes wrong at a step.
type Fault struct {
	Step  string
	Reply string // in place of the server's own, such as "550 5.1.1 nobody"; empty: it hangs up
	Hang  bool   // it answers only after Heal
	Takes bool   // it takes the mail all the same
	Times int    // how many times; 0: until Heal
}

// Mail is a mail that the server took.
type Mail struct {
	From, To   string // of the envelope
	Parameters string // of MAIL
	Text       string // with its line ends
}

// Server is the fake. It is safe for concurrent use.
type Server struct {
	Port  int            // of 127.0.0.1; 0: none
	Roots *x509.CertPool // the authority of its certificate
	// What it offers besides STARTTLS. These are set before the first connection.
	Offer  []string // extensions
	Logins string   // mechanisms of AUTH; empty: none
	// Secret is the password of every account: Password by default.
	Secret string

	encryption string
	settings   *tls.Config
	listener   net.Listener // nil: within the process
	serving    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	fails map[string]*failing // by account
	mails map[string][]Mail
	calls int
}

type failing struct {
	Fault
	healed chan struct{}
}

// New returns a server that serves only within the process; see Dial.
func New() *Server {
	return &Server{
		Offer: []string{"8BITMIME", "ENHANCEDSTATUSCODES", "DSN", "SIZE 50000000"}, Logins: "LOGIN PLAIN", Secret: Password, encryption: "none",
		conns: make(map[net.Conn]struct{}), fails: make(map[string]*failing), mails: make(map[string][]Mail),
	}
}

// Start starts a server; encryption is "implicit", "starttls" or "none". Close ends it.
func Start(encryption string) (*Server, error) {
	certificate, err := imapd.NewCertificate()
	if err != nil {
		return nil, err
	}
	s := New()
	s.encryption, s.Roots, s.settings = encryption, x509.NewCertPool(), &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.Roots.AddCert(certificate.Leaf)
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.Port = s.listener.Addr().(*net.TCPAddr).Port
	s.serving.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.begin(conn)
		}
	})
	return s, nil
}

// Dial returns a connection within the process, without encryption.
func (s *Server) Dial() net.Conn {
	near, far := net.Pipe()
	s.begin(far)
	return local{near}
}

// local is a connection that is said to lead to loopback.
type local struct{ net.Conn }

// RemoteAddr is that of a server on this machine.
func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 25} }

func (s *Server) begin(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = struct{}{}
	s.serving.Go(func() {
		s.serve(conn)
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	})
}

// Close ends the server and cuts off what is under way.
func (s *Server) Close() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	for account := range s.fails {
		s.heal(account)
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Fail sets an account's fault and replaces an earlier one.
func (s *Server) Fail(account string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heal(account)
	s.fails[account] = &failing{f, make(chan struct{})}
}

// Heal ends an account's fault and releases what hangs.
func (s *Server) Heal(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heal(account)
}

func (s *Server) heal(account string) {
	if f := s.fails[account]; f != nil {
		close(f.healed)
		delete(s.fails, account)
	}
}

// Mails returns what the server took of an account.
func (s *Server) Mails(account string) []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails[account])
}

// Accounts returns the accounts that have mails.
func (s *Server) Accounts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.mails))
}

// Calls returns how many mails were announced, of all accounts.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// session is one connection.
type session struct {
	*Server
	conn    net.Conn
	text    *textproto.Conn
	secure  bool
	account string
	mail    Mail
}

func (s *Server) serve(conn net.Conn) {
	one := &session{Server: s, conn: conn}
	if s.encryption == "implicit" {
		one.encrypt()
	}
	one.text = textproto.NewConn(one.conn)
	if !one.reply(Greeting, "220 smtpd ESMTP") {
		return
	}
	for {
		line, err := one.text.ReadLine()
		if err != nil || !one.command(line) {
			return
		}
	}
}

func (s *session) encrypt() {
	s.conn = tls.Server(s.conn, s.settings)
	s.secure = true
}

// command answers a command, and reports whether the connection goes on.
func (s *session) command(line string) bool {
	name, rest, _ := strings.Cut(line, " ")
	switch strings.ToUpper(name) {
	case "EHLO":
		return s.reply(Hello, s.hello())
	case "STARTTLS":
		if s.encryption != "starttls" || s.secure || !s.reply("STARTTLS", "220 go on") {
			return false
		}
		s.encrypt()
		s.text = textproto.NewConn(s.conn)
		return true
	case "AUTH":
		return s.login(rest)
	case "MAIL":
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		s.mail = Mail{}
		s.mail.From, s.mail.Parameters = path(rest)
		return s.reply(Sender, "250 2.1.0 ok")
	case "RCPT":
		s.mail.To, _ = path(rest)
		return s.reply(Recipient, "250 2.1.5 ok")
	case "DATA":
		return s.data()
	case "QUIT":
		_ = s.text.PrintfLine("221 2.0.0 bye")
		return false
	}
	return s.text.PrintfLine("500 5.5.1 what") == nil
}

func (s *session) hello() string {
	offers := slices.Clone(s.Offer)
	if s.encryption == "starttls" && !s.secure {
		offers = append(offers, "STARTTLS")
	} else if s.Logins != "" {
		offers = append(offers, "AUTH "+s.Logins)
	}
	var lines strings.Builder
	lines.WriteString("250-smtpd")
	for i, offer := range offers {
		between := "-"
		if i == len(offers)-1 {
			between = " "
		}
		fmt.Fprintf(&lines, "\r\n250%s%s", between, offer)
	}
	return lines.String()
}

// path returns the address of FROM:<ADDRESS> or TO:<ADDRESS>, and what follows.
func path(rest string) (address, parameters string) {
	_, rest, _ = strings.Cut(rest, "<")
	address, parameters, _ = strings.Cut(rest, ">")
	return address, strings.TrimSpace(parameters)
}

func (s *session) login(rest string) bool {
	mechanism, initial, _ := strings.Cut(rest, " ")
	if mechanism == "LOGIN" {
		user, err1 := s.ask("User Name")
		password, err2 := s.ask("Password")
		if err1 != nil || err2 != nil {
			return false
		}
		initial = base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
	}
	text, _ := base64.StdEncoding.DecodeString(initial)
	parts := strings.Split(string(text), "\x00")
	if len(parts) == 3 {
		s.account = parts[1]
	}
	if len(parts) != 3 || parts[2] != s.Secret {
		return s.text.PrintfLine("535 5.7.8 wrong") == nil
	}
	return s.reply(Login, "235 2.7.0 in")
}

// ask asks for a line of AUTH LOGIN.
func (s *session) ask(what string) (string, error) {
	if err := s.text.PrintfLine("334 %s", base64.StdEncoding.EncodeToString([]byte(what))); err != nil {
		return "", err
	}
	line, err := s.text.ReadLine()
	if err != nil {
		return "", err
	}
	answer, err := base64.StdEncoding.DecodeString(line)
	return string(answer), err
}

// data takes a mail.
func (s *session) data() bool {
	if f := s.fault(Within); f != nil {
		_ = s.text.PrintfLine("354 go on")
		_, _ = bufio.NewReader(io.LimitReader(s.text.R, 64)).Peek(64)
		return false
	}
	if !s.reply(Data, "354 go on") {
		return false
	}
	var raw strings.Builder
	for {
		line, err := s.text.R.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		raw.WriteString(strings.TrimPrefix(line, "."))
	}
	s.mail.Text = raw.String()
	f := s.fault(End)
	if f == nil || f.Takes {
		s.mu.Lock()
		s.mails[s.account] = append(s.mails[s.account], s.mail)
		s.mu.Unlock()
	}
	return s.answer(f, "250 2.0.0 queued as 1")
}

// reply answers a step, and reports whether the connection goes on.
func (s *session) reply(step, text string) bool { return s.answer(s.fault(step), text) }

func (s *session) answer(f *failing, text string) bool {
	if f != nil {
		if f.Hang {
			<-f.healed
			return false
		}
		if text = f.Reply; text == "" {
			return false
		}
	}
	return s.text.PrintfLine("%s", text) == nil
}

// fault returns the account's fault if it is one of a step.
func (s *session) fault(step string) *failing {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fails[s.account]
	if f == nil || f.Step != step {
		return nil
	}
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			delete(s.fails, s.account)
		}
	}
	return f
}
