package imap

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

// fileIdle is how long a server may take until it sends a file, and for each further piece of it.
const fileIdle = 30 * time.Second

var _ poller.FileKeeper = (*Checker)(nil)

// Files returns the attachments of a mail, and the whole mail if not all of it was read, because it may
// have more of them.
func (*Checker) Files(m *poller.Message) []poller.File {
	return email.FilesOf(m)
}

// Forgets is false: a mailbox has its mails until somebody deletes them.
func (*Checker) Forgets() bool { return false }

// errIdle ends a fetch whose server says nothing for too long.
var errIdle = errors.New("imap: the server said nothing for too long")

// FetchFile fetches an attachment by the UID of its mail and the number of its part, and decodes it
// while it comes. Nothing in the mailbox changes. All its errors are *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	wanted, failed := email.SectionAt(r)
	if failed != nil {
		return nil, failed
	}
	mail, err := parseMark(r.Message.ID)
	if err != nil || mail.last == 0 {
		return nil, poller.NoFile("no_file", "the message's id is no UID")
	}
	if mail.name == "" {
		mail.name, _ = strict.Text(message.Fields(r.Message)["mailbox"])
	}
	within, cancel := context.WithCancelCause(ctx)
	f := &fetched{cancel: cancel, idle: time.AfterFunc(fileIdle, func() { cancel(errIdle) })}
	if err := f.begin(within, c, r.Account, config, mail, wanted); err != nil {
		f.end()
		return nil, f.slow(within, err)
	}
	f.idle.Stop()
	body := &poller.FileBody{ReadCloser: &content{wanted.Decode(f), f}}
	if wanted.Encoding == "" {
		body.Size = f.literal.Size()
	}
	return body, nil
}

// fetched is a section while it comes.
type fetched struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	idle    *time.Timer
	session *session
	command *imapclient.FetchCommand
	item    *imapclient.FetchMessageData
	literal imap.LiteralReader
	read    int64
	ended   error // what Read returns from now on
}

// begin opens the mailbox and asks for a section, up to its first byte.
func (f *fetched) begin(ctx context.Context, c *Checker, account string, config config, mail mark, wanted email.Section) error {
	f.ctx = ctx
	with, err := c.credential(ctx, account, config, config.imap(), nil)
	if err != nil {
		return err
	}
	s, err := c.enter(ctx, account, config, with)
	if err != nil {
		return err
	}
	f.session = s
	if mail.name == "" {
		mail.name = s.mailboxes[0] // it was found by a version that did not say where
	} else if !slices.Contains(s.mailboxes, mail.name) {
		return poller.NoFile("no_mailbox", "the account no longer reads the mail's mailbox")
	}
	box, err := s.examine(mail.name)
	if err != nil {
		return err
	}
	if box.validity != mail.validity {
		return poller.NoFile("uidvalidity", "the mailbox counts its mails anew, so nobody knows which one it was")
	}
	s.conn.allow(math.MaxInt64 / 2) // the caller bounds what is read
	f.command = s.client.Fetch(imap.UIDSetNum(imap.UID(mail.last)), &imap.FetchOptions{
		UID: true, BodySection: []*imap.FetchItemBodySection{{Part: wanted.Part, Peek: true}},
	})
	if f.item = f.command.Next(); f.item == nil {
		if err := f.command.Close(); err != nil {
			return s.failed(err, "read", readRefused)
		}
		return poller.NoFile("expunged", "the mail was deleted")
	}
	for item := f.item.Next(); item != nil; item = f.item.Next() {
		if body, ok := item.(imapclient.FetchItemDataBodySection); ok && body.Literal != nil {
			f.literal = body.Literal
			return nil
		}
	}
	if err := f.command.Close(); err != nil {
		return s.failed(err, "read", readRefused)
	}
	return poller.NoFile("no_part", "the mail has no such part")
}

// slow returns the error of a fetch, or that the server was too slow.
func (*fetched) slow(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errIdle) {
		return &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "timeout", Message: "read: the server said nothing for half a minute", Network: true, Err: context.DeadlineExceeded}
	}
	return err
}

// Read implements io.Reader. The end is an error unless all bytes have come that the server had
// announced, and it says that the command has succeeded.
func (f *fetched) Read(p []byte) (int, error) {
	if f.ended != nil {
		return 0, f.ended
	}
	f.idle.Reset(fileIdle)
	defer f.idle.Stop()
	n, err := f.literal.Read(p)
	f.read += int64(n)
	if err == nil {
		return n, nil
	}
	if f.read == f.literal.Size() {
		err = f.command.Close()
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	f.ended = io.EOF
	if err != nil {
		f.ended = f.slow(f.ctx, f.session.failed(err, "read", readRefused))
	}
	return n, f.ended
}

// end ends the connection. The library waits for everything that it has read, so that is read too.
func (f *fetched) end() {
	f.idle.Stop()
	defer f.cancel(nil)
	if f.session == nil {
		return
	}
	_ = f.session.conn.Close()
	if f.literal != nil && f.ended == nil {
		_, _ = io.Copy(io.Discard, f.literal)
		_ = f.command.Close()
	}
	f.session.close()
}

// content is a file with its transfer encoding taken away.
type content struct {
	from    io.Reader
	fetched *fetched // nil: it is closed
}

// Read implements io.Reader.
func (d *content) Read(p []byte) (int, error) { return d.from.Read(p) }

// Close implements io.Closer.
func (d *content) Close() error {
	if d.fetched != nil {
		d.fetched.end()
		d.fetched = nil
	}
	return nil
}
