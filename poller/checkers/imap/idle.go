package imap

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
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

// reused returns the account's connection of the call before, or nil if there is none that can be
// used.
func (c *Checker) reused(ctx context.Context, account string, config config, with credential) *session {
	s := c.lent.take(account)
	if s == nil {
		return nil
	}
	s.ctx = ctx
	s.conn.bind(ctx, overhead)
	select {
	case <-s.client.Closed():
	default:
		if s.config == config && s.proof == with.proof() && s.client.State() == imap.ConnStateSelected {
			return s
		}
	}
	s.close()
	return nil
}

// held makes a call that may be held. Its connection is kept for the account's next call, unless the
// server holds none. Then the mailbox is polled.
func (c *Checker) held(ctx context.Context, r poller.Request, config config, with credential, at cursor, limit int) (poller.Result, error) {
	limited := c.lent.isLimited(r.Account, time.Now())
	s := c.reused(ctx, r.Account, config, with)
	if s == nil {
		var err error
		if s, err = c.enter(ctx, r.Account, config, with); err != nil {
			c.lent.refused(r.Account, err, time.Now())
			return poller.Result{}, err
		}
	}
	var result poller.Result
	var err error
	if limited {
		result, err = s.look(at, limit)
	} else {
		result, err = s.await(at, limit, r.Hold)
	}
	switch {
	case err != nil:
		s.close()
		c.lent.refused(r.Account, err, time.Now())
		return poller.Result{}, err
	case limited || s.unheld:
		s.close()
		if !result.HasMore {
			result.NextPollAfter = pollPause
		}
	default:
		c.lent.keep(r.Account, s)
	}
	return result, nil
}

// await returns the messages after the cursor. If there are none, it waits for some in IDLE, at most
// for the hold. If the server has no IDLE, the session is unheld.
func (s *session) await(at cursor, limit int, hold time.Duration) (poller.Result, error) {
	until := time.Now().Add(hold)
	s.unheld = !s.client.Caps().Has(imap.CapIdle)
	for looks := 1; ; looks++ {
		s.hear()
		result, err := s.look(at, limit)
		if err != nil || len(result.Messages) > 0 || result.Cursor != nil || result.HasMore || s.unheld || looks == maxLooks {
			return result, err
		}
		if s.hear() { // perhaps of what came too late for the look
			continue
		}
		if woken, err := s.idle(time.Until(until)); err != nil || !woken {
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

// look returns the messages after the cursor, as page does. Only of a mailbox that was just opened
// the server has said where it ends.
func (s *session) look(at cursor, limit int) (poller.Result, error) {
	if s.looked && at.validity != s.box.validity {
		box, err := s.examine(s.config.mailbox)
		if err != nil {
			return poller.Result{}, err
		}
		s.box, s.looked = box, false
	}
	box := s.box
	if s.looked && at.last >= box.next-1 {
		box.next = 0
	}
	s.looked = true
	return s.page(box, at, limit)
}

// idle waits until the server says that the mailbox has other messages, and reports whether it did. It
// waits for the given time at most.
func (s *session) idle(most time.Duration) (woken bool, err error) {
	if most <= 0 {
		return false, nil
	}
	command, err := s.client.Idle()
	var refused *imap.Error
	if errors.As(err, &refused) && s.ctx.Err() == nil {
		s.unheld = true
		return false, nil
	}
	if err != nil {
		return false, s.failed(err, "IDLE", readRefused)
	}
	poller.Begun(s.ctx)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-s.changed:
		woken = true
	case <-timer.C:
	case <-s.client.Closed():
	case <-s.ctx.Done():
	}
	if err := errors.Join(command.Close(), command.Wait()); err != nil {
		return false, s.failed(err, "IDLE", readRefused)
	}
	return woken, nil
}
