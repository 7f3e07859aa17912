package imap

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// overhead is how many bytes may be read besides searches and messages: a
// handshake, a greeting, capabilities, flags.
const overhead = 256 << 10

// session is one connection.
type session struct {
	ctx    context.Context
	conn   *metered
	plain  *guarded
	client *imapclient.Client
	hold   func(ctx context.Context, bytes int64) error // see fetch.Client.Hold
	secret string                                       // the password; no error may have it
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
	s := &session{ctx: ctx, conn: meter(ctx, conn, overhead), hold: c.client.Hold}
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

// greeted waits for the greeting. After one that refuses, the library stops to read,
// and then says by chance that the server refused or that the connection ended. What
// was read decides.
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
	s.plain = &guarded{Conn: s.conn, below: s.conn}
	if config.tls != tlsNone {
		settings := &tls.Config{ServerName: config.host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
		if config.tls == tlsStart {
			if err := upgrade(s.conn); err != nil {
				return s.failed(err, "STARTTLS", startRefused)
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
				failed.Message += ": the server does not speak TLS on this port; set config.tls to starttls (mostly port 143) or none"
			}
			return failed
		}
		s.plain.Conn = encrypted
	}
	s.client = imapclient.New(s.plain, nil)
	return nil
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
	_ = s.client.Close()
}

// login logs in by LOGIN, or by SASL PLAIN if the server disables LOGIN. After a
// greeting with PREAUTH no login is needed.
func (s *session) login(user, password string) error {
	if s.client.State() == imap.ConnStateAuthenticated {
		return nil
	}
	s.secret = password
	caps := s.client.Caps()
	var err error
	if caps.Has(imap.CapLoginDisabled) && caps.Has(imap.AuthCap("PLAIN")) {
		err = s.client.Authenticate(sasl.NewPlainClient("", user, password))
	} else {
		err = s.client.Login(user, password).Wait()
	}
	if err != nil {
		return s.failed(err, "login", loginRefused)
	}
	return nil
}

// identify sends the name of this program where the server offers ID (RFC 2971). NetEase
// (163.com, 126.com, yeah.net) opens no mailbox for a client without a name. A server
// that refuses the command has lost nothing.
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
	validity uint32
	next     uint32 // UIDNEXT; 0: the server does not say
	count    uint32
}

// examine opens a mailbox so that nothing in it changes.
func (s *session) examine(name string) (mailbox, error) {
	data, err := s.client.Select(name, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return mailbox{}, s.unopened(name, err)
	}
	if data.UIDValidity == 0 {
		return mailbox{}, &poller.CheckError{Kind: poller.Protocol, Code: "protocol", Message: "mailbox: the server sends no UIDVALIDITY"}
	}
	return mailbox{validity: data.UIDValidity, next: uint32(data.UIDNext), count: data.NumMessages}, nil
}

// unopened returns the error for a mailbox that could not be opened. Many servers refuse
// without a code, so that only LIST tells whether the mailbox exists. Without an answer to
// LIST that is unknown.
func (s *session) unopened(name string, err error) error {
	failed := s.failed(err, "mailbox", examineRefused)
	var status *imap.Error
	if !errors.As(err, &status) || status.Type != imap.StatusResponseTypeNo || clean(status.Code) != "" {
		return failed
	}
	listed, err := s.client.List("", name, nil).Collect()
	switch {
	case s.ctx.Err() != nil:
		return s.failed(err, "mailbox", examineRefused)
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
	return &poller.CheckError{Kind: poller.ConfigInvalid, Code: strings.ToLower(string(code)), Message: "config.mailbox: " + fault + ": " + said(s.shown(status))}
}
