package imap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// overhead is how many bytes may be read besides searches and messages: a
// handshake, a greeting, capabilities, flags.
const overhead = 256 << 10

// session is one connection.
type session struct {
	ctx    context.Context // of the call that uses it
	conn   *metered
	secure net.Conn // conn, or TLS over it
	plain  *guarded
	client *imapclient.Client                           // nil: it is parked, and nobody reads
	hold   func(ctx context.Context, bytes int64) error // see fetch.Client.Hold
	secret string                                       // the password or access token; no error may have it
	proof  string                                       // see credential.proof

	config    config
	mailboxes []string      // the names of the config's mailboxes; nil: not asked for yet
	box       mailbox       // the open one; zero: none is open
	looked    bool          // its messages were looked for since it was opened
	changed   chan struct{} // has a value after the server said that the mailbox has other messages
	unheld    bool          // the server holds no call in IDLE
	closing   *time.Timer   // while it waits for a call
}

// open connects and waits for the greeting.
func (c *Checker) open(ctx context.Context, config config) (*session, error) {
	conn, err := c.client.Dial(ctx, net.JoinHostPort(config.host, strconv.Itoa(config.port)))
	if err != nil {
		return nil, fetch.CheckError(err)
	}
	if config.tls == tlsNone && !private(conn.RemoteAddr()) {
		_ = conn.Close()
		return nil, &poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: "config.tls: must not be none towards the public internet"}
	}
	s := &session{ctx: ctx, conn: meter(ctx, conn, overhead), hold: c.client.Hold, config: config, changed: make(chan struct{}, 1)}
	if err := s.encrypt(config, c.options); err != nil {
		_ = s.conn.Close()
		return nil, err
	}
	if err := s.greeted(); err != nil {
		err = s.failed(err, "greeting", readRefused)
		s.close()
		return nil, err
	}
	return s, nil
}

// greeted waits for the greeting. After a refusal the library stops reading, and then
// reports, by chance, either the refusal or the end of the connection. So greeted
// decides by what was read.
func (s *session) greeted() error {
	err := s.client.WaitGreeting()
	var status *imap.Error
	if err == nil || errors.As(err, &status) {
		return err
	}
	if refused := s.plain.refusal(); refused != nil {
		return refused
	}
	return err
}

// encrypt creates the client, with the TLS mode of the config.
func (s *session) encrypt(config config, o Options) error {
	s.secure = s.conn
	s.plain = &guarded{below: s.conn}
	if config.tls != tlsNone {
		settings := &tls.Config{ServerName: config.host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
		if config.tls == tlsStart {
			if err := upgrade(s.conn); err != nil {
				refused := startRefused
				if private(s.conn.RemoteAddr()) {
					refused = startRefusedNear
				}
				return s.failed(err, stepStart, refused)
			}
			s.plain.greeting = strings.NewReader("* OK TLS\r\n") // the server sends none after STARTTLS
		} else {
			settings.NextProtos = []string{"imap"} // RFC 8314, section 5
		}
		encrypted := tls.Client(s.conn, settings)
		if err := encrypted.HandshakeContext(s.ctx); err != nil {
			failed := fetch.CheckError(fetch.Broken(s.ctx, err))
			var plain tls.RecordHeaderError
			if errors.As(err, &plain) {
				failed.Message = "the server does not speak TLS on this port; set config.tls to starttls (mostly port 143) or none"
			}
			return failed
		}
		s.secure = encrypted
	}
	s.begin()
	return nil
}

// begin creates the client.
func (s *session) begin() {
	s.plain.Conn = s.secure
	s.client = imapclient.New(s.plain, &imapclient.Options{UnilateralDataHandler: &imapclient.UnilateralDataHandler{Mailbox: s.note}})
}

// note takes what the server says of the mailbox unasked.
func (s *session) note(data *imapclient.UnilateralDataMailbox) {
	if data.NumMessages == nil {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// private reports whether the address is known not to be on the public internet.
func private(remote net.Addr) bool {
	addr, err := netip.ParseAddrPort(remote.String())
	return err == nil && !fetch.Public(addr.Addr())
}

// close closes the connection without LOGOUT, which would cost a round trip. No change
// to the mailbox is pending.
func (s *session) close() {
	_ = s.conn.Close()
	if s.client != nil {
		_ = s.client.Close()
	}
}

// identify sends the name of this program where the server offers ID (RFC 2971). NetEase (163.com,
// 126.com, yeah.net) opens no mailbox for a client without a name. It does no harm if a server
// refuses the command.
func (s *session) identify(name, version string) error {
	if !s.client.Caps().Has(imap.CapID) {
		return nil
	}
	_, err := s.client.ID(&imap.IDData{Name: name, Version: version}).Wait()
	var refused *imap.Error
	if err == nil || errors.As(err, &refused) && refused.Type != imap.StatusResponseTypeBye {
		return nil
	}
	return s.failed(err, "ID", readRefused)
}

// mailbox is an open mailbox.
type mailbox struct {
	name     string
	several  bool // it is one of several, and its messages' ids have its name
	remember bool // its mails are known by their Message-IDs
	validity uint32
	next     uint32 // UIDNEXT; 0: the server did not say
	count    uint32
}

// examine opens a mailbox so that nothing in it changes.
func (s *session) examine(name string) (mailbox, error) {
	data, err := s.client.Select(name, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return mailbox{}, s.unopened(name, err)
	}
	if data.UIDValidity == 0 {
		step, _ := s.where(name)
		return mailbox{}, &poller.CheckError{Kind: poller.Protocol, Code: "protocol", Message: step + ": the server sends no UIDVALIDITY"}
	}
	return mailbox{name: name, several: s.config.several(), remember: s.config.remember, validity: data.UIDValidity, next: uint32(data.UIDNext), count: data.NumMessages}, nil
}

// where names a mailbox for errors: in the steps of a check, and in the config.
func (s *session) where(name string) (step, field string) {
	if !s.config.several() {
		return "mailbox", "config.mailbox"
	}
	return fmt.Sprintf("mailbox %q", name), fmt.Sprintf("config.mailboxes: %q", name)
}

// unopened returns the error for a mailbox that could not be opened. Many servers refuse without a
// code, and then only LIST tells whether the mailbox exists.
func (s *session) unopened(name string, err error) error {
	step, field := s.where(name)
	examineRefused := func(status *imap.Error) *poller.CheckError { return examineRefused(status, step, field) }
	failed := s.failed(err, step, examineRefused)
	var status *imap.Error
	if !errors.As(err, &status) || status.Type != imap.StatusResponseTypeNo || knownCode(status.Code) != "" {
		return failed
	}
	listed, err := s.client.List("", name, nil).Collect()
	switch {
	case s.ctx.Err() != nil:
		return s.failed(err, step, examineRefused)
	case err != nil:
		return failed
	}
	code, fault := imap.ResponseCodeNonExistent, "there is no such mailbox"
	for _, box := range listed {
		if box.Mailbox != name && !(strings.EqualFold(name, "INBOX") && strings.EqualFold(box.Mailbox, "INBOX")) {
			continue // the name has a wildcard
		}
		switch {
		case slices.Contains(box.Attrs, imap.MailboxAttrNonExistent):
		case slices.Contains(box.Attrs, imap.MailboxAttrNoSelect):
			code, fault = imap.ResponseCodeCannot, "it only holds other mailboxes"
		default:
			return failed
		}
	}
	return &poller.CheckError{Kind: poller.ConfigInvalid, Code: strings.ToLower(string(code)), Message: field + ": " + fault + ": " + said(s.shown(status))}
}

// metered is a connection that bounds how many bytes are read from it, because the
// client library bounds only time. It also stores the error that ended reading or
// writing, because the library's errors do not contain it, and tells the check how much
// was read.
type metered struct {
	net.Conn
	room     atomic.Int64
	heard    atomic.Bool // the server sent something
	tooLarge atomic.Bool
	broken   atomic.Pointer[error]      // the error of the first failed read or write
	unusable atomic.Bool                // see grammar
	goodbye  atomic.Pointer[imap.Error] // the last untagged BYE
	followed atomic.Bool                // an answer to a command came after it
	parking  atomic.Bool                // this side ends reads by deadlines, which are no errors

	mu    sync.Mutex
	ended func() bool     // stops the watch of the context; nil: none is watched
	of    context.Context // of the call that reads; nil: none does
}

// meter returns a connection that allows most bytes to be read and is closed when ctx
// is done.
func meter(ctx context.Context, conn net.Conn, most int64) *metered {
	m := &metered{Conn: conn}
	m.bind(ctx, most)
	return m
}

// bind allows most bytes to be read, and has the connection closed when ctx is done, until it is
// released.
func (m *metered) bind(ctx context.Context, most int64) {
	m.room.Store(most)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of, m.ended = ctx, context.AfterFunc(ctx, func() { _ = m.Conn.Close() })
}

// tell tells the call how much was read.
func (m *metered) tell(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != nil {
		poller.Answered(m.of, 0, n)
	}
}

// release ends the watch of the context. It reports false if the connection is closed, or about to be.
func (m *metered) release() bool {
	m.mu.Lock()
	ended := m.ended
	m.of, m.ended = nil, nil
	m.mu.Unlock()
	return ended != nil && ended()
}

// allow allows n more bytes to be read.
func (m *metered) allow(n int64) { m.room.Add(n) }

// Read reads while there is room.
func (m *metered) Read(p []byte) (int, error) {
	if m.room.Load() <= 0 {
		m.tooLarge.Store(true)
		return 0, net.ErrClosed
	}
	n, err := m.Conn.Read(p)
	m.room.Add(-int64(n))
	if n > 0 {
		m.heard.Store(true)
		m.tell(n)
	}
	m.note(err)
	return n, err
}

// Write writes, and stores why it failed. The library closes a connection to which it
// cannot write. Reading may end only later, with an error about the closing.
func (m *metered) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	m.note(err)
	return n, err
}

// note stores an error, unless it only says that this side has closed the connection or ended a read.
func (m *metered) note(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !(errors.Is(err, os.ErrDeadlineExceeded) && m.parking.Load()) {
		m.broken.CompareAndSwap(nil, &err)
	}
}

// Close closes the connection and ends the watch.
func (m *metered) Close() error {
	m.release()
	return m.Conn.Close()
}

const (
	maxGreeting = 8 << 10 // bytes of a line before TLS
	maxUntagged = 16      // lines before the answer to STARTTLS
	startTag    = "S1"
)

var errPlain = errors.New("imap: not usable before TLS")

// upgrade asks a newly connected server to begin TLS (RFC 3501, section 6.2.1). It
// reads byte by byte, and no byte after the answer, so that plain bytes are never taken
// for encrypted ones. The library's own STARTTLS is not used, because its reads cannot
// be checked.
func upgrade(conn io.ReadWriter) error {
	greeting, err := readLine(conn)
	if err != nil {
		return err
	}
	tag, status := statusOf(greeting)
	if tag == "*" && status.Type == imap.StatusResponseTypeBye {
		return &status
	}
	if tag != "*" || status.Type != imap.StatusResponseTypeOK {
		return errPlain // also PREAUTH, which would come from somebody in the middle
	}
	if _, err := io.WriteString(conn, startTag+" STARTTLS\r\n"); err != nil {
		return err
	}
	for range maxUntagged {
		line, err := readLine(conn)
		if err != nil {
			return err
		}
		switch tag, status := statusOf(line); {
		case tag == "*" && status.Type == imap.StatusResponseTypeBye:
			return &status
		case tag == "*":
		case tag != startTag:
			return errPlain
		case status.Type == imap.StatusResponseTypeOK:
			return nil
		case status.Type == imap.StatusResponseTypeNo, status.Type == imap.StatusResponseTypeBad:
			return &status
		default:
			return errPlain
		}
	}
	return errPlain
}

func readLine(r io.Reader) (string, error) {
	l := lines{from: r}
	return l.next()
}

// statusOf reads a status line: TAG TYPE [CODE …] TEXT.
func statusOf(line string) (tag string, status imap.Error) {
	tag, rest, _ := strings.Cut(line, " ")
	kind, text, _ := strings.Cut(rest, " ")
	status.Type = imap.StatusResponseType(strings.ToUpper(kind))
	if code, ok := strings.CutPrefix(text, "["); ok {
		code, text, _ = strings.Cut(code, "]")
		code, _, _ = strings.Cut(code, " ")
		status.Code = imap.ResponseCode(code)
	}
	status.Text = strings.TrimSpace(text)
	return tag, status
}
