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

	pollPause = time.Minute // between two checks of a mailbox that is polled though it may be held
	limitedIn = time.Hour   // how long a mailbox is polled after a server has refused it for a limit
	limitedOf = 10_000      // mailboxes that are remembered for that
)

var (
	_ poller.Holder   = (*Checker)(nil)
	_ poller.Pollable = (*Checker)(nil)
)

// Hold returns how long a call waits in IDLE.
func (*Checker) Hold(json.RawMessage) time.Duration { return idleHold }

// Pollable is true: a mailbox can be polled as well.
func (*Checker) Pollable() bool { return true }

// lent has the connections of held checks between two calls of an account, and knows which accounts
// are not held for now. A connection is taken by one call at a time. The zero lent is ready to use.
type lent struct {
	mu      sync.Mutex
	waiting map[string]*session  // by account
	limited map[string]time.Time // when the servers' refusals of accounts are over
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
	if other := l.waiting[account]; other != nil && other.closing.Stop() {
		go other.close() // of a claim that was lost meanwhile
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

// refused notes that the server has refused an account for a limit, if that is what err says.
func (l *lent) refused(account string, err error, now time.Time) {
	var failed *poller.CheckError
	if !errors.As(err, &failed) || failed.Kind != poller.RateLimited {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limited == nil {
		l.limited = make(map[string]time.Time)
	}
	if len(l.limited) >= limitedOf {
		for other, until := range l.limited {
			if !now.Before(until) {
				delete(l.limited, other)
			}
		}
	}
	if len(l.limited) < limitedOf {
		l.limited[account] = now.Add(limitedIn)
	}
}

// isLimited reports whether the account is not held, because its server has refused it.
func (l *lent) isLimited(account string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.limited[account]
	if ok && !now.Before(until) {
		delete(l.limited, account)
		ok = false
	}
	return ok
}

// reused returns the account's connection of the call before, or nil if there is none for the config
// and the credential.
func (c *Checker) reused(ctx context.Context, account string, config config, with credential) *session {
	s := c.lent.take(account)
	if s == nil {
		return nil
	}
	s.ctx = ctx
	s.conn.bind(ctx, overhead)
	if reflect.DeepEqual(s.config, config) && s.proof == with.proof() && !s.over() {
		return s
	}
	s.close()
	return nil
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

// held makes a call that may be held. Its connection is kept for the account's next call, unless the
// server holds none. Then the mailbox is polled.
func (c *Checker) held(ctx context.Context, r poller.Request, config config, with credential, marks []mark, limit int) (poller.Result, error) {
	s := c.reused(ctx, r.Account, config, with)
	if s == nil {
		var err error
		if s, err = c.enter(ctx, r.Account, config, with); err != nil {
			c.lent.refused(r.Account, err, time.Now())
			return poller.Result{}, err
		}
		s.unheld = c.lent.isLimited(r.Account, time.Now()) || !s.client.Caps().Has(imap.CapIdle)
	}
	result, err := s.await(marks, limit, r.Hold)
	switch {
	case err != nil:
		s.close()
		c.lent.refused(r.Account, err, time.Now())
		return poller.Result{}, err
	case s.unheld:
		s.close()
		if !result.HasMore {
			result.NextPollAfter = pollPause
		}
	default:
		c.lent.keep(r.Account, s)
	}
	return result, nil
}

// await returns the messages after the marks. If there are none, it waits for some of the first mailbox
// in IDLE, at most for the hold, unless the session is unheld.
func (s *session) await(marks []mark, limit int, hold time.Duration) (poller.Result, error) {
	until := time.Now().Add(hold)
	for looks := 1; ; looks++ {
		s.hear()
		result, err := s.look(marks, limit)
		if err != nil || len(result.Messages) > 0 || result.Cursor != nil || result.HasMore || s.unheld || looks == maxLooks {
			return result, err
		}
		if first := s.mailboxes[0]; s.box.name != first { // another one was read last
			if s.box, err = s.examine(first); err != nil {
				return poller.Result{}, err
			}
			if s.looked = !s.box.news(onlyMark(marks, first)); !s.looked {
				continue
			}
		}
		if err := s.park(); err != nil {
			return poller.Result{}, err
		}
		if s.hear() { // perhaps of what came too late for the look
			continue
		}
		if woken, err := s.idle(until); err != nil || !woken {
			return poller.Result{}, err
		}
	}
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
	i := idling{session: s, lines: lines{from: s.secure}}
	if err := i.send(idleTag + " IDLE\r\n"); err != nil {
		return false, err
	}
	switch status, err := i.read(time.Now().Add(idleAnswer), false); {
	case err != nil:
		return false, err
	case status.Type == imap.StatusResponseTypeNo, status.Type == imap.StatusResponseTypeBad:
		s.unheld = true
		return false, nil
	case status.Type != continues:
		return false, s.failed(errPlain, "IDLE", readRefused)
	}
	poller.Begun(s.ctx)
	if !i.woken {
		switch status, err := i.read(until, true); {
		case err != nil:
			return false, err
		case status.Type != "":
			return false, s.failed(errPlain, "IDLE", readRefused) // the server ended it by itself
		}
	}
	if err := i.send("DONE\r\n"); err != nil {
		return false, err
	}
	switch status, err := i.read(time.Now().Add(idleAnswer), false); {
	case err != nil:
		return false, err
	case status.Type != imap.StatusResponseTypeOK:
		return false, s.failed(&status, "IDLE", readRefused)
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

func (i *idling) send(command string) error {
	_ = i.secure.SetWriteDeadline(time.Now().Add(idleAnswer))
	if _, err := io.WriteString(i.secure, command); err != nil {
		return i.failed(err, "IDLE", readRefused)
	}
	return nil
}

// read reads lines until one answers the command. With waits, the mailbox's change and the end of
// the time end it as well, with a zero status; otherwise that end is an error.
func (i *idling) read(until time.Time, waits bool) (imap.Error, error) {
	_ = i.secure.SetReadDeadline(until)
	for {
		line, err := i.lines.next()
		if waits && errors.Is(err, os.ErrDeadlineExceeded) && i.ctx.Err() == nil {
			return imap.Error{}, nil
		}
		if err != nil {
			if !errors.Is(err, errPlain) {
				i.conn.note(err) // TLS can end while the connection below it stays open
			}
			return imap.Error{}, i.failed(err, "IDLE", readRefused)
		}
		switch tag, status := statusOf(line); {
		case strings.HasPrefix(line, string(continues)):
			return imap.Error{Type: continues}, nil
		case tag == idleTag:
			return status, nil
		case tag != "*":
			return imap.Error{}, i.failed(errPlain, "IDLE", readRefused)
		case strings.EqualFold(status.Text, "EXISTS"): // after a number
			if i.woken = true; waits {
				return imap.Error{}, nil
			}
		case status.Type == imap.StatusResponseTypeBye:
			return imap.Error{}, i.closed()
		}
	}
}

// closed returns the error of a server that says goodbye, which ends the hold like the end of a
// connection.
func (i *idling) closed() error {
	return fetch.CheckError(fetch.Broken(i.ctx, io.EOF))
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
