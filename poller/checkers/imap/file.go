package imap

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// fileIdle is how long a server may take until it sends a file, and for each further piece of it.
const fileIdle = 30 * time.Second

var _ poller.FileKeeper = (*Checker)(nil)

// section is a file of a mail: one of its parts, or the whole mail.
type section struct {
	file     poller.File
	part     []int // nil: the whole mail
	encoding string
}

// Files returns the attachments of a mail, and the whole mail if not all of it was read, because it may
// have more of them.
func (*Checker) Files(m *poller.Message) []poller.File {
	return message.FilesOf(sectionsOf(m), func(s *section) poller.File { return s.file })
}

// Forgets is false: a mailbox has its mails until somebody deletes them.
func (*Checker) Forgets() bool { return false }

// sectionsOf returns the files of a mail.
func sectionsOf(m *poller.Message) (all []section) {
	fields := message.Fields(m)
	var listed []json.RawMessage
	_ = json.Unmarshal(fields["attachments"], &listed) // what is no array has none
	for _, raw := range listed {
		var a attachment
		if json.Unmarshal(raw, &a) != nil || len(all) == poller.MaxFiles-1 {
			continue
		}
		if part, ok := parsePart(a.Part); ok {
			all = append(all, section{poller.CleanFile(poller.File{Name: a.Name, Type: a.Type, Size: int64(a.Size)}), part, a.Encoding})
		}
	}
	var size int64
	if json.Unmarshal(fields["size"], &size) == nil && size > maxRaw {
		all = append(all, section{file: poller.File{Name: "mail.eml", Type: "message/rfc822", Size: size}})
	}
	return all
}

// parsePart reads a part's number, such as 2.1.
func parsePart(text string) (part []int, ok bool) {
	for number := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxParts+1 || len(part) > 2*maxDepth || strconv.Itoa(n) != number {
			return nil, false
		}
		part = append(part, n)
	}
	return part, true
}

// errIdle ends a fetch whose server says nothing for too long.
var errIdle = errors.New("imap: the server said nothing for too long")

// FetchFile fetches an attachment by the UID of its mail and the number of its part, and decodes it
// while it comes. Nothing in the mailbox changes. All its errors are *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	wanted, failed := message.FileAt(sectionsOf(r.Message), r)
	if failed != nil {
		return nil, failed
	}
	mail, err := parseCursor([]byte(r.Message.ID))
	if err != nil || mail.last == 0 {
		return nil, poller.NoFile("no_file", "the message's id is no UID")
	}
	password, err := c.password(ctx, config)
	if err != nil {
		return nil, secrets.CheckError(err)
	}
	within, cancel := context.WithCancelCause(ctx)
	f := &fetched{cancel: cancel, idle: time.AfterFunc(fileIdle, func() { cancel(errIdle) })}
	if err := f.begin(within, c, config, password, mail, wanted); err != nil {
		f.end()
		return nil, f.slow(within, err)
	}
	f.idle.Stop()
	body := &poller.FileBody{ReadCloser: &content{from: f, fetched: f}}
	switch wanted.encoding {
	case encodingBase64:
		body.ReadCloser = &content{&base64Reader{from: f}, f}
	case encodingQuoted:
		body.ReadCloser = &content{&quotedReader{from: bufio.NewReader(f)}, f}
	default:
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
func (f *fetched) begin(ctx context.Context, c *Checker, config config, password string, mail cursor, wanted section) error {
	f.ctx = ctx
	s, err := c.open(ctx, config)
	if err != nil {
		return err
	}
	f.session = s
	if err := s.login(config.user, password); err != nil {
		return err
	}
	if err := s.identify(c.client.Product()); err != nil {
		return err
	}
	box, err := s.examine(config.mailbox)
	if err != nil {
		return err
	}
	if box.validity != mail.validity {
		return poller.NoFile("uidvalidity", "the mailbox counts its mails anew, so nobody knows which one it was")
	}
	s.conn.allow(math.MaxInt64 / 2) // the caller bounds what is read
	f.command = s.client.Fetch(imap.UIDSetNum(imap.UID(mail.last)), &imap.FetchOptions{
		UID: true, BodySection: []*imap.FetchItemBodySection{{Part: wanted.part, Peek: true}},
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

// base64Reader is decodeBase64 for what comes piece by piece.
type base64Reader struct {
	from  io.Reader
	raw   [4 << 10]byte
	group []byte // base64 that is no whole group of 4 yet, or not decoded
	ready []byte // decoded
	err   error  // after ready
}

// Read implements io.Reader.
func (r *base64Reader) Read(p []byte) (int, error) {
	for len(p) > 0 && len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

func (r *base64Reader) fill() {
	n, err := r.from.Read(r.raw[:])
	r.ready, r.err = r.ready[:0], err
	for _, b := range r.raw[:n] {
		switch {
		case b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '+', b == '/':
			r.group = append(r.group, b)
		case b == '=':
			r.flush(len(r.group))
		}
	}
	if err != nil {
		r.flush(len(r.group))
	} else {
		r.flush(len(r.group) / 4 * 4)
	}
}

// flush decodes the first bytes of the group.
func (r *base64Reader) flush(n int) {
	whole := n
	if n%4 == 1 {
		whole-- // 6 bits are no byte
	}
	r.ready, _ = base64.RawStdEncoding.AppendDecode(r.ready, r.group[:whole]) // it has no other characters
	r.group = append(r.group[:0], r.group[n:]...)
}

// quotedReader is decodeQuoted for what comes piece by piece.
type quotedReader struct{ from *bufio.Reader }

// maxBlank is how many blanks may be between an equals sign and the end of its line.
const maxBlank = 1 << 10

// Read implements io.Reader. It returns some bytes when no more can be had without waiting.
func (r *quotedReader) Read(p []byte) (n int, err error) {
	for n < len(p) && (n == 0 || r.from.Buffered() > 0) {
		b, err := r.from.ReadByte()
		if err != nil {
			return n, err
		}
		if b == '=' {
			var kept bool
			if b, kept, err = r.escaped(); err != nil {
				return n, err
			}
			if !kept {
				continue
			}
		}
		p[n] = b
		n++
	}
	return n, nil
}

// escaped reads what follows an equals sign; kept is false if that is the end of a line. An error is
// kept for the next read, unless it comes before the end.
func (r *quotedReader) escaped() (b byte, kept bool, err error) {
	if next, _ := r.from.Peek(2); len(next) == 2 {
		if b, err := strconv.ParseUint(string(next), 16, 8); err == nil {
			_, _ = r.from.Discard(2)
			return byte(b), true, nil
		}
	}
	for blanks := 1; blanks <= maxBlank; blanks++ {
		next, err := r.from.Peek(blanks)
		if len(next) < blanks {
			if errors.Is(err, io.EOF) {
				_, _ = r.from.Discard(len(next))
				return 0, false, nil
			}
			return 0, false, err
		}
		switch next[blanks-1] {
		case ' ', '\t', '\r':
		case '\n':
			_, _ = r.from.Discard(blanks)
			return 0, false, nil
		default:
			return '=', true, nil
		}
	}
	return '=', true, nil
}
