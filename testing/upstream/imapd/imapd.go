// Package imapd is a fake mail server for tests: IMAP over TCP or TLS on a free port of
// 127.0.0.1, with any number of accounts, that fails on demand.
//
// An account exists as soon as it is named, with a mailbox INBOX. Its user is its name,
// and its password Password. Its mails are numbered from 1, and their subjects have the
// number.
//
// With Options.Valid it takes access tokens too.
//
// Like real servers, it offers ID, IDLE, SPECIAL-USE and CONDSTORE, but ID not with "starttls".
package imapd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
)

// Password is the password of every account.
const Password = "correct-horse-battery"

// Server is the fake. It is safe for concurrent use.
type Server struct {
	Port  int            // of 127.0.0.1
	Roots *x509.CertPool // the authority of its certificate

	options  Options
	settings *tls.Config
	server   *imapserver.Server
	done     chan struct{}
	boxes    sync.RWMutex // while a mailbox is made anew nobody opens one

	mu       sync.Mutex
	byes     int // connections that are refused
	accounts map[string]*account
	logins   int
	expired  int // access tokens that were refused
	id       string
	turned   chan struct{} // closed and replaced when an account begins or ends IDLE
	opened   []string
}

// account is one user.
type account struct {
	user   *imapmemserver.User
	posted int
	fault  *Fault
	healed chan struct{}                 // closed when the fault ends
	uses   map[string][]imap.MailboxAttr // by mailbox

	conns  map[net.Conn]bool // that are logged in
	idling int               // of them in IDLE
}

// Options are the settings of a server.
type Options struct {
	Encryption  string           // "implicit", "starttls" or "none"
	Address     string           // that it listens at; empty: 127.0.0.1, on a free port
	Certificate *tls.Certificate // nil: one of its own

	// Idled gets how many connections of an account are in IDLE, each time that changes. Nil: nobody does.
	Idled func(name string, idling int)
	// Valid reports whether an access token is an account's. Nil: the server takes none.
	Valid func(name, token string) bool
	// Connected gets each connection and what it returns is called at its end. Nil: nobody does.
	Connected func(net.Conn) (ended func())
}

// Start starts a server; encryption is as in Options. Close ends it.
func Start(encryption string) (*Server, error) { return StartWith(Options{Encryption: encryption}) }

// StartWith starts a server with options. Close ends it.
func StartWith(o Options) (*Server, error) {
	certificate, err := NewCertificate()
	if err != nil {
		return nil, err
	}
	if o.Certificate != nil {
		certificate = *o.Certificate
	}
	s := &Server{options: o, Roots: x509.NewCertPool(), accounts: make(map[string]*account), done: make(chan struct{}), turned: make(chan struct{})}
	if certificate.Leaf != nil {
		s.Roots.AddCert(certificate.Leaf)
	}
	s.settings = &tls.Config{Certificates: []tls.Certificate{certificate}}
	if err := s.listen(cmp.Or(o.Address, "127.0.0.1:0")); err != nil {
		return nil, err
	}
	return s, nil
}

// listen serves at an address.
func (s *Server) listen(address string) error {
	listener, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port
	options := &imapserver.Options{
		NewSession:   s.greet,
		Caps:         imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapListExtended: {}, imap.CapSpecialUse: {}},
		Logger:       log.New(io.Discard, "", 0),
		InsecureAuth: s.options.Encryption != "starttls", // of TLS below identified it does not know
	}
	switch s.options.Encryption {
	case "implicit":
		listener = identified{tls.NewListener(listener, s.settings)}
	case "none":
		listener = identified{listener}
	case "starttls":
		options.TLSConfig = s.settings
	}
	server, done := imapserver.New(options), make(chan struct{})
	s.server, s.done = server, done
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return nil
}

// greet begins a session, or refuses it.
func (s *Server) greet(conn *imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
	s.mu.Lock()
	refused := s.byes > 0
	if refused {
		s.byes--
	}
	s.mu.Unlock()
	if refused {
		return nil, nil, &imap.Error{Type: imap.StatusResponseTypeBye, Text: "Too many connections from your address"}
	}
	session := &session{server: s, conn: conn}
	if s.options.Connected != nil {
		session.ended = s.options.Connected(conn.NetConn())
	}
	return session, nil, nil
}

// Refuse has the server greet the next n connections with BYE, since there are too many.
func (s *Server) Refuse(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byes = n
}

// Refusing reports whether the server refuses the next connection.
func (s *Server) Refusing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byes > 0
}

// Down ends all connections, and refuses new ones until Up. The mailboxes stay.
func (s *Server) Down() {
	_ = s.server.Close()
	<-s.done
}

// Up serves again after Down, at the same address.
func (s *Server) Up() error { return s.listen(fmt.Sprintf("127.0.0.1:%d", s.Port)) }

// Close ends the server and cuts off what is under way.
func (s *Server) Close() {
	s.mu.Lock()
	for _, a := range s.accounts {
		a.heal()
	}
	s.mu.Unlock()
	s.Down()
}

// Post adds n mails to an account.
func (s *Server) Post(name string, n int) {
	for range n {
		s.mu.Lock()
		a := s.account(name)
		a.posted++
		number := a.posted
		s.mu.Unlock()
		s.Deliver(name, fmt.Sprintf("From: Anna <anna@example.com>\r\nTo: %s@example.com\r\nSubject: mail %d\r\n"+
			"Message-ID: <%d.%s@example.com>\r\nDate: Sun, 06 Nov 1994 08:49:37 +0000\r\n\r\nHello %d\r\n", name, number, number, name, number))
	}
}

// Create makes another mailbox of an account, with special uses.
func (s *Server) Create(name, mailbox string, uses ...imap.MailboxAttr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(name)
	a.uses[mailbox] = uses
	return a.user.Create(mailbox, nil)
}

// Deliver adds a mail to INBOX without changes, with flags.
func (s *Server) Deliver(name, mail string, flags ...imap.Flag) {
	s.DeliverTo(name, "INBOX", mail, flags...)
}

// DeliverTo is Deliver for another mailbox, which exists.
func (s *Server) DeliverTo(name, mailbox, mail string, flags ...imap.Flag) {
	s.mu.Lock()
	user := s.account(name).user
	s.mu.Unlock()
	if _, err := user.Append(mailbox, literal{bytes.NewReader([]byte(mail))}, &imap.AppendOptions{Time: time.Now(), Flags: flags}); err != nil {
		panic(err) // the mailbox exists
	}
}

// Folder makes a folder of an account, unless it exists.
func (s *Server) Folder(name, folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.account(name).user.Create(folder, nil) // the only error is that it exists
}

// literal is a mail in the library's form.
type literal struct{ *bytes.Reader }

// Expunge removes the mail with a UID.
func (s *Server) Expunge(name string, uid uint32) error {
	s.mu.Lock()
	user := s.account(name).user
	s.mu.Unlock()
	box := imapmemserver.NewUserSession(user)
	if _, err := box.Select("INBOX", &imap.SelectOptions{}); err != nil {
		return err
	}
	defer func() { _ = box.Close() }()
	set := imap.UIDSetNum(imap.UID(uid))
	if err := box.Store(nil, set, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}, nil); err != nil {
		return err
	}
	return box.Expunge(nil, &set)
}

// Recreate deletes INBOX and makes it again, under another UIDVALIDITY.
func (s *Server) Recreate(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(name)
	if err := a.user.Delete("INBOX"); err != nil {
		return err
	}
	a.posted = 0
	return a.user.Create("INBOX", nil)
}

// Renumber gives the mails of a mailbox other UIDs under another UIDVALIDITY, as a server does whose
// index is lost, and cuts off the account's connections.
func (s *Server) Renumber(name, mailbox string) error {
	s.mu.Lock()
	user := s.account(name).user
	s.mu.Unlock()
	s.boxes.Lock()
	err := renumber(user, mailbox)
	s.boxes.Unlock()
	s.Cut(name)
	return err
}

func renumber(user *imapmemserver.User, mailbox string) error {
	const anew = "made anew"
	if err := user.Create(anew, nil); err != nil {
		return err
	}
	box := imapmemserver.NewUserSession(user)
	data, err := box.Select(mailbox, &imap.SelectOptions{})
	if err != nil {
		return err
	}
	if data.NumMessages > 0 {
		if _, err := box.Copy(imap.UIDSet{{Start: 1, Stop: 0}}, anew); err != nil {
			return err
		}
	}
	return errors.Join(box.Close(), user.Delete(mailbox), user.Rename(anew, mailbox, nil))
}

// UIDValidity returns the UIDVALIDITY of a mailbox, which exists.
func (s *Server) UIDValidity(name, mailbox string) uint32 {
	s.mu.Lock()
	user := s.account(name).user
	s.mu.Unlock()
	data, err := user.Status(mailbox, &imap.StatusOptions{UIDValidity: true})
	if err != nil {
		panic(err)
	}
	return data.UIDValidity
}

// Logins returns how many logins were tried.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// AwaitIdle waits until so many connections of an account are in IDLE.
func (s *Server) AwaitIdle(ctx context.Context, name string, n int) error {
	for {
		s.mu.Lock()
		idling, turned := s.account(name).idling, s.turned
		s.mu.Unlock()
		if idling == n {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return fmt.Errorf("imapd: %d connections of %s are in IDLE, not %d: %w", idling, name, n, ctx.Err())
		}
	}
}

// Connections returns how many connections of an account are logged in.
func (s *Server) Connections(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.account(name).conns)
}

// Cut cuts off an account's connections.
func (s *Server) Cut(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.account(name).conns {
		_ = conn.Close()
	}
}

// Opened returns the mailboxes that were opened since the last call.
func (s *Server) Opened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.opened
	s.opened = nil
	return opened
}

// ID returns what the client said of itself that opened a mailbox last.
func (s *Server) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// account finds or makes an account. The caller holds the lock.
func (s *Server) account(name string) *account {
	a := s.accounts[name]
	if a == nil {
		a = &account{user: imapmemserver.NewUser(name, Password), conns: make(map[net.Conn]bool), uses: map[string][]imap.MailboxAttr{"INBOX": nil}}
		if err := a.user.Create("INBOX", nil); err != nil {
			panic(err) // it is the first mailbox
		}
		s.accounts[name] = a
	}
	return a
}
