// Package imap checks mailboxes over IMAP4rev1 (RFC 3501) and IMAP4rev2 (RFC
// 9051), and answers by SMTP (RFC 5321): the kind "imap".
//
// The config has
//
//	host      a name or an address; required
//	port      993 by default, or 143 if tls is not implicit
//	tls       "implicit", the default, "starttls", or "none", which is refused
//	          towards the public internet, and unless the host is loopback or named
//	          as package secrets says
//	user      required
//	password  {"secret": "NAME"}, or
//	oauth     {"secret": "NAME"}: what a sign-in has stored, see package oauth
//	mailbox   INBOX by default
//	mailboxes several of them in its place, at most 16
//	remember  "message_id": mails are written once by their Message-IDs
//	smtp      {"host", "tls", "port"}: the server that takes what the account sends, under the
//	          same rules; port is 465, or 587 if tls is not implicit. Without, it cannot send
//	from      the address that it sends from; the user by default
//
// A mailbox is named by its name in UTF-8, or by the use that the server says it has (RFC 6154), such
// as \Sent.
//
// A check opens a connection, reads new messages, and closes it. The mailbox is opened
// with EXAMINE and read with PEEK: nothing in it changes, no message becomes seen.
//
// With the cadence "every 0" a check is held: its calls share one connection, which waits for new
// messages in IDLE (RFC 2177). Every two minutes the next call looks for messages anyway, and begins
// IDLE anew. Between two calls a connection waits for ten seconds, in which the account may have gone
// to another replica. If the server has no IDLE, the mailbox is polled each minute. So it is for an hour
// after the server has refused it for a limit, such as that of connections: see poller.Pollable.
//
// A message is reported once, by its UID. Its id is UIDVALIDITY:UID, or UIDVALIDITY:UID:MAILBOX if
// the account has several mailboxes. See email.Data for its fields. Its time is the INTERNALDATE, at
// which the server received it.
//
// # Several mailboxes
//
// They share one connection. STATUS, sent for all of them at once, tells in one round trip which of
// them may have new messages (UIDNEXT), and only those are opened. Of one mailbox STATUS would cost the
// round trip that it saves. HIGHESTMODSEQ of CONDSTORE (RFC 7162) is not asked for: it also grows with
// changes of flags, which are not reported, and so would open more mailboxes than UIDNEXT does.
//
// Mailboxes with new messages share a page equally, and what one leaves of its share goes to the next.
// On the next page those come first that had their turn the longest time ago. A held check waits in
// IDLE on the first mailbox, and looks at the others at the end of each IDLE.
//
// # Cursor
//
// The cursor is the UIDVALIDITY:UID of the last reported message. With several mailboxes it has a line
// for each, UIDVALIDITY:UID:MAILBOX, in the order of their turns, and also for up to 16 others that the
// account had before: a mailbox that comes back goes on where it was. A first check begins
// with the mailbox' newest 10,000 messages, and pages through them. If UIDVALIDITY has
// changed, the UIDs now mean other messages (RFC 3501, section 2.3.1.1). The check then
// begins like a first one and reports CursorReset. It reports messages again, under
// other ids and the same message_id.
//
// # Memory
//
// An account that remembers mails knows them by their Message-IDs ([poller.Rememberer]): after
// UIDVALIDITY has changed, only mails are written that it does not know, and a mail that is in several
// mailboxes is written once. It knows as many of the last mails as a first check begins with, whatever
// their age. A mail without a Message-ID is known by its id alone. Of two mails with the same Message-ID
// only the first is written, whoever made the second.
//
// # Failures
//
// A refused access token is dropped, and the check tries once more with a new one. A refused login
// is an auth error, unless the answer's code says that the server is unavailable,
// or that a limit was reached, which is a rate_limited error. A BYE before the refusal says why the
// server refuses, if its code does not: such a login may be right. A greeting of BYE is a transient
// error of the host. An answer that cannot be read, or is longer than was asked for, is a protocol
// error. Errors quote what the server said, as one short line, unless it repeats the password.
//
// A mailbox that cannot be opened, also one of several, is a config error if the server says, or its
// answer to LIST shows, that there is no such mailbox.
//
// # Mail that breaks the rules
//
// A mail is reported whatever is wrong with it: see package email. A page with mails that break the
// rules of MIME has a warning, "malformed", which names the first of them.
//
// # Files
//
// A mail's files are its attachments, fetched by its UID and the part's number, with the transfer
// encoding taken away. If a mail has more than 128 KiB, the whole mail is a file too, because
// attachments behind that are not listed. After UIDVALIDITY has changed, the files of earlier mails
// cannot be had.
//
// # Sends
//
// A send is one mail, perhaps with a file attached, handed over by SMTP submission (RFC 6409) with the
// user and credential of the mailbox. Its Message-ID is made of the send's id, so that it is the same
// for each attempt and nobody can guess it. Before the end of the mail every failure is certain: the
// server must not deliver a mail without its end (RFC 5321, section 4.1.1.4). The end is unknown if no
// answer to it came. A refusal of the sender, the recipient or the mail is for good with 5xx, except for
// 5.4.5, a limit that passes, such as that of a day. A refusal of the connection or the login is not the
// mail's fault.
//
// A mail that was accepted is appended to the folder of sent mail (RFC 6154, or one with a usual name),
// unless the server has put it there itself. An append that fails, as in a mailbox that is over its
// quota, is left out with a warning: the mail is accepted.
// After an unknown end the mail is searched there, and in the folder of all mail, by its Message-ID.
//
// A mail that reports that a send's mail could not be delivered (RFC 3464) is found like any other, and
// says that the send has failed.
package imap

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	defaultLimit   = 200              // messages, for a request without a limit
	defaultTimeout = 30 * time.Second // of a check whose context has no deadline

	// rememberFor has mails forgotten only for their number. Servers number mails anew once in years.
	rememberFor = 10 * 365 * 24 * time.Hour
)

// Options are the settings of a Checker. The zero Options are usable.
type Options struct {
	// Roots are the certificate authorities that verify servers' certificates; nil: the
	// system's.
	Roots *x509.CertPool
	// OAuth has the access tokens of accounts that are signed in; nil: there are none.
	OAuth *oauth.Tokens
}

// Checker checks mailboxes. It is safe for concurrent use.
type Checker struct {
	*form
	client  *fetch.Client
	secrets secrets.Source
	options Options
	lent    lent
}

var (
	_ poller.Checker    = (*Checker)(nil)
	_ poller.Rememberer = (*Checker)(nil)
)

// New returns a checker that connects to the addresses that client allows, and finds
// the configs' secrets in secrets.
func New(client *fetch.Client, secrets secrets.Source, o Options) *Checker {
	return &Checker{form: newForm(client), client: client, secrets: secrets, options: o}
}

// Kind is the kind's name in records.
const Kind = "imap"

// Kind is "imap".
func (*Checker) Kind() string { return Kind }

// RateKey returns the server: its host, with the port unless that is 993 or 143.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, err := c.form.Read(raw)
	if err != nil {
		return ""
	}
	if config.port == portImplicit || config.port == portPlain {
		return config.host
	}
	return net.JoinHostPort(config.host, strconv.Itoa(config.port))
}

// Remembers returns what the config asks for.
func (c *Checker) Remembers(raw json.RawMessage) poller.Remember {
	if config, _ := c.form.Read(raw); !config.remember {
		return poller.Remember{}
	}
	return poller.Remember{Messages: 2 * firstMost, For: rememberFor}
}

// Check returns the messages after the cursor, oldest first. All its errors are
// *poller.CheckError. The connection is closed as soon as ctx is done.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	k, err := c.prepare(ctx, &r)
	if err != nil {
		return poller.Result{}, err
	}
	if r.Hold > 0 {
		return c.held(ctx, k)
	}
	return c.polled(ctx, k)
}

// prepare reads a request, and finds what the account logs in with.
func (c *Checker) prepare(ctx context.Context, r *poller.Request) (*call, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	marks, err := parseMarks(r.Cursor)
	if err != nil {
		return nil, poller.CursorError(err)
	}
	limit := defaultLimit
	if r.Limit > 0 {
		limit = r.Limit
	}
	with, err := c.credential(ctx, r.Account, config, config.imap(), nil)
	if err != nil {
		return nil, err
	}
	return &call{account: r.Account, config: config, with: with, marks: marks, limit: limit, until: time.Now().Add(r.Hold)}, nil
}

// polled makes a call that is not held, with a connection of its own.
func (c *Checker) polled(ctx context.Context, k *call) (poller.Result, error) {
	s, err := c.enter(ctx, k.account, k.config, k.with)
	if err != nil {
		return poller.Result{}, err
	}
	defer s.close()
	return s.look(k.marks, k.limit)
}
