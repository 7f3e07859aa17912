package imap

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	// idleHold is how long one IDLE lasts. Servers end it after 29 minutes at the latest, some after
	// ten, and routers forget connections without traffic sooner.
	idleHold = 2 * time.Minute
	keepFor  = 10 * time.Second // how long a connection waits for the account's next call
	maxLooks = 3                // of one call

	pollPause = time.Minute // between two checks of a mailbox whose server has no IDLE
)

var (
	_ poller.Holder   = (*Checker)(nil)
	_ poller.Pollable = (*Checker)(nil)
)

// Hold returns how long a call waits in IDLE.
func (*Checker) Hold(json.RawMessage) time.Duration { return idleHold }

// Pollable is true: a mailbox can be polled as well.
func (*Checker) Pollable() bool { return true }

// lent has the connections of held checks between two calls of an account. A connection is taken by one
// call at a time. The zero lent is ready to use.
type lent struct {
	mu      sync.Mutex
	waiting map[string]*session // by account
}

// take returns an account's connection, or nil if there is none.
func (l *lent) take(account string) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.waiting[account]
	if s != nil {
		delete(l.waiting, account)
		s.closing.Stop()
	}
	return s
}

// keep keeps a connection for the account's next call, for a while.
func (l *lent) keep(account string, s *session) {
	s.ctx = context.Background()
	if !s.conn.release() { // the call's context has just ended
		s.close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.waiting[account]; other != nil { // of a claim that was lost meanwhile
		other.closing.Stop()
		go other.close()
	}
	if l.waiting == nil {
		l.waiting = make(map[string]*session)
	}
	l.waiting[account] = s
	s.closing = time.AfterFunc(keepFor, func() { l.end(account, s) })
}

// end closes a connection for which no call has come.
func (l *lent) end(account string, s *session) {
	l.mu.Lock()
	late := l.waiting[account] == s
	if late {
		delete(l.waiting, account)
	}
	l.mu.Unlock()
	if late {
		s.close()
	}
}

// A call is a check's call. While a held one waits, its goroutine must have a small stack: thousands
// wait at once. So what the functions share is here, and not in their frames.
type call struct {
	account string
	config  config
	with    credential
	marks   []mark
	limit   int
	until   time.Time // the end of the hold

	session *session
	result  poller.Result
}

// held makes a call that may be held. Its connection is kept for the account's next call, unless the
// server holds none. Then the mailbox is polled.
func (c *Checker) held(ctx context.Context, k *call) (poller.Result, error) {
	err := c.connect(ctx, k)
	if err == nil {
		err = k.await()
	}
	c.leave(k, err)
	if err != nil {
		return poller.Result{}, err
	}
	return k.result, nil
}

// connect finds the account's connection of the call before, or makes one.
func (c *Checker) connect(ctx context.Context, k *call) (err error) {
	if s := c.lent.take(k.account); s != nil {
		s.ctx = ctx
		s.conn.bind(ctx, overhead)
		if reflect.DeepEqual(s.config, k.config) && s.proof == k.with.proof() && !s.over() {
			k.session = s
			return nil
		}
		s.close()
	}
	if k.session, err = c.enter(ctx, k.account, k.config, k.with); err == nil {
		k.session.unheld = !k.session.client.Caps().Has(imap.CapIdle)
	}
	return err
}

// leave keeps the connection for the next call, or closes it.
func (c *Checker) leave(k *call, err error) {
	switch {
	case err != nil:
		if k.session != nil {
			k.session.close()
		}
	case k.session.unheld:
		k.session.close()
		if !k.result.HasMore {
			k.result.NextPollAfter = pollPause
		}
	default:
		c.lent.keep(k.account, k.session)
	}
}

// over reports whether the connection is known to have ended: nobody reads a parked one.
func (s *session) over() bool {
	if s.client == nil {
		return false
	}
	select {
	case <-s.client.Closed():
		return true
	default:
		return false
	}
}

// await finds the messages after the marks. If there are none, it waits for some of the first mailbox in
// IDLE until the end of the hold, unless the session is unheld.
func (k *call) await() error {
	for looks := 1; ; looks++ {
		if done, err := k.look(); err != nil || done || looks == maxLooks {
			return err
		}
		if quiet, err := k.stay(); err != nil {
			return err
		} else if !quiet {
			continue
		}
		if err := k.session.park(); err != nil {
			return err
		}
		if k.session.hear() { // perhaps of what came too late for the look
			continue
		}
		if woken, err := k.session.idle(k.until); err != nil || !woken {
			return err
		}
	}
}

// look looks for messages, and reports whether there is something to return.
func (k *call) look() (done bool, err error) {
	k.session.hear()
	k.result, err = k.session.look(k.marks, k.limit)
	return k.session.unheld || len(k.result.Messages) > 0 || k.result.Cursor != nil || k.result.HasMore, err
}

// stay opens the first mailbox again, if another one was read last, and reports whether it has no news.
func (k *call) stay() (quiet bool, err error) {
	s := k.session
	first := s.mailboxes[0]
	if s.box.name == first {
		return true, nil
	}
	if s.box, err = s.examine(first); err != nil {
		return false, err
	}
	s.looked = !s.box.news(onlyMark(k.marks, first))
	return s.looked, nil
}

// hear reports whether the server has said since the last call that the mailbox has other messages.
func (s *session) hear() bool {
	select {
	case <-s.changed:
		return true
	default:
		return false
	}
}

// resumed is what the library reads first of a connection that was parked. The commands that follow
// need no other capability.
const resumed = "* PREAUTH [CAPABILITY IMAP4rev1] IDLE is over\r\n"

// park ends the client, which takes twice as much memory as the rest of a connection that waits: it
// has large buffers and reads in a goroutine of its own.
func (s *session) park() error {
	if s.client == nil {
		return nil
	}
	s.plain.park()
	<-s.client.Closed()
	if !s.plain.atStop {
		return s.failed(io.ErrUnexpectedEOF, "IDLE", readRefused)
	}
	s.client, s.plain = nil, nil
	return nil
}

// unpark makes a client again.
func (s *session) unpark() error {
	if s.client != nil {
		return nil
	}
	s.conn.parking.Store(false)
	_ = s.secure.SetDeadline(time.Time{})
	s.plain = &guarded{below: s.conn, greeting: strings.NewReader(resumed), greeted: true}
	s.begin()
	if err := s.client.WaitGreeting(); err != nil {
		return s.failed(err, "IDLE", readRefused)
	}
	return nil
}

// idle waits on a parked connection until the server says that the mailbox has other messages, and
// reports whether it did. It waits until the given time at most. A server that refuses IDLE makes the
// session unheld.
func (s *session) idle(until time.Time) (woken bool, err error) {
	i := &idling{session: s, lines: lines{from: s.secure}}
	if err := i.begin(); err != nil || s.unheld {
		return false, err
	}
	poller.Begun(s.ctx)
	for over := false; !over && !i.woken; {
		for nothing := false; !nothing && !i.woken; { // what TLS has already
			if nothing, err = i.wait(time.Unix(1, 0)); err != nil {
				return false, err
			}
		}
		if i.woken {
			break
		}
		_ = s.conn.SetReadDeadline(until)
		awaitInput(s.conn.Conn)
		if over, err = i.wait(until); err != nil {
			return false, err
		}
	}
	if err := i.end(); err != nil {
		return false, err
	}
	return i.woken, nil
}

const (
	idleTag    = "I1"
	idleAnswer = 30 * time.Second // for an answer that the server owes

	continues imap.StatusResponseType = "+" // the server's answer to IDLE
)

// idling is a session in IDLE.
type idling struct {
	*session
	lines lines
	woken bool // the mailbox has other messages
}

// begin begins IDLE.
func (i *idling) begin() error {
	switch status, err := i.command(idleTag + " IDLE\r\n"); {
	case err != nil:
		return err
	case status.Type == continues:
	case status.Type == imap.StatusResponseTypeNo, status.Type == imap.StatusResponseTypeBad:
		i.unheld = true
	default:
		return i.broken(errPlain)
	}
	return nil
}

// end ends IDLE.
func (i *idling) end() error {
	switch status, err := i.command("DONE\r\n"); {
	case err != nil:
		return err
	case status.Type != imap.StatusResponseTypeOK:
		return i.broken(&status)
	}
	return nil
}

// command sends a line, and returns the server's answer.
func (i *idling) command(line string) (imap.Error, error) {
	_ = i.secure.SetDeadline(time.Now().Add(idleAnswer))
	if _, err := io.WriteString(i.secure, line); err != nil {
		return imap.Error{}, i.broken(err)
	}
	for {
		switch status, err := i.read(); {
		case err != nil:
			return imap.Error{}, i.broken(err)
		case status.Type != "":
			return status, nil
		}
	}
}

// wait reads a line, and reports whether the time was over before it came.
func (i *idling) wait(until time.Time) (over bool, err error) {
	_ = i.secure.SetReadDeadline(until)
	switch status, err := i.read(); {
	case errors.Is(err, os.ErrDeadlineExceeded) && i.ctx.Err() == nil:
		return true, nil
	case err != nil:
		return false, i.broken(err)
	case status.Type != "":
		return false, i.broken(errPlain) // the server has ended IDLE by itself
	}
	return false, nil
}

// read reads a line, and returns the status if it answers the command.
func (i *idling) read() (imap.Error, error) {
	line, err := i.lines.next()
	if err != nil {
		return imap.Error{}, err
	}
	switch tag, status := statusOf(line); {
	case strings.HasPrefix(line, string(continues)):
		return imap.Error{Type: continues}, nil
	case tag == idleTag:
		return status, nil
	case tag != "*":
		return imap.Error{}, errPlain
	case status.Type == imap.StatusResponseTypeBye:
		if _, limited := limitOf(&status); limited {
			return imap.Error{}, &status
		}
		return imap.Error{}, io.EOF
	case strings.EqualFold(status.Text, "EXISTS"): // after a number
		i.woken = true
	}
	return imap.Error{}, nil
}

// broken returns the error of IDLE that failed.
func (i *idling) broken(err error) error {
	var status *imap.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && i.ctx.Err() == nil:
		return fetch.CheckError(fetch.Broken(i.ctx, err))
	case !errors.Is(err, errPlain) && !errors.As(err, &status):
		i.conn.note(err) // TLS can end while the connection below it stays open
	}
	return i.failed(err, "IDLE", readRefused)
}

// lines reads line by line, and goes on after a read that a deadline has ended.
type lines struct {
	from io.Reader
	line []byte
}

// next returns the next line. It must be short.
func (l *lines) next() (string, error) {
	for one := make([]byte, 1); len(l.line) < maxGreeting; l.line = append(l.line, one[0]) {
		if _, err := io.ReadFull(l.from, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			line := strings.TrimSuffix(string(l.line), "\r")
			l.line = l.line[:0]
			return line, nil
		}
	}
	return "", errPlain
}
