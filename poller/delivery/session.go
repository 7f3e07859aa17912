package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// session reads one shard under one lease. Apart from keep, it runs in one goroutine.
type session struct {
	*member
	shard int
	lease *group.Lease
	watch *group.Watch
	yield func()        // ends the session after its current work
	ended chan struct{} // closed when the session has ended

	reading context.Context // done: read no more
	work    context.Context // done: the lease is lost, or the grace period over
	lose    context.CancelCauseFunc

	held     *held
	hurry    chan struct{} // has a value when held messages may be due earlier than known
	away     string        // the target that held messages wait for; see outages
	last     string        // the last position seen; pending messages after it are unknown
	atEnd    bool          // the last read reached the end of the stream
	woken    bool          // there should be messages to read
	unsure   bool          // there may be pending messages that are not held; see doubt
	failures int           // failed steps with Redis in a row
	stuck    bool          // a handler did not return

	mu       sync.Mutex
	live     time.Time      // when the last step that found the lease valid was sent
	asleep   bool           // the session waits, and renews the lease itself
	renewals sync.WaitGroup // renewals that renewLeases has begun
	renewing bool           // such a renewal is under way
}

func (g *member) begin(ctx context.Context, begun group.Begun) *session {
	s := &session{member: g, shard: begun.Lease.Shard, lease: begun.Lease, ended: make(chan struct{}), held: newHeld(&g.waiting), hurry: make(chan struct{}, 1), last: circulate.StreamStart, live: begun.Asked}
	if begun.End != "" { // there is nothing to do until a message comes
		s.last, s.atEnd = begun.End, true
		g.reach(s.shard, s.last)
	}
	s.reading, s.yield = context.WithCancel(ctx)
	s.work, s.lose = context.WithCancelCause(g.work)
	go s.run()
	return s
}

func (s *session) run() {
	defer close(s.ended)
	s.reads(s.shard, s)
	s.watch = group.Of(s.Ring).Watch(s.shard)
	defer s.watch.Close()
	s.consume()
	s.reads(s.shard, nil) // no further renewal may begin
	s.renewals.Wait()
	if !s.stuck && (s.work.Err() == nil || errors.Is(context.Cause(s.work), errGraceOver)) {
		s.release()
	}
	s.held.clear()
	s.yield()
	s.lose(context.Canceled)
}

// consume reads and delivers until the session must end or the lease is lost. Pending messages and
// held ones that are due come before new ones.
func (s *session) consume() {
	if s.atEnd {
		s.idle(s.last)
	} else {
		s.inherit()
	}
	for s.goesOn() {
		if s.unsure && s.away == "" {
			s.recover()
			continue
		}
		if s.retry() {
			continue
		}
		if s.away != "" || s.held.count() >= s.HeldMax {
			s.idle("")
			continue
		}
		if s.unsure {
			continue // the target is back: pending messages come first
		}
		if !s.takeSlot() {
			return
		}
		batch, err := s.read()
		if err != nil {
			s.giveSlot()
			s.trouble("read", err)
			continue
		}
		s.deliver(batch, nil)
		s.giveSlot()
		if !batch.More && s.atEnd && s.goesOn() {
			s.idle(s.last)
		}
	}
}

func (s *session) goesOn() bool {
	return s.reading.Err() == nil && s.work.Err() == nil && !s.stuck
}

// read reads the next messages of the shard.
func (s *session) read() (group.Batch, error) {
	var batch group.Batch
	err := s.step(func(ctx context.Context) (err error) {
		batch, err = group.Of(s.Ring).Read(ctx, s.lease, s.Batch, s.BatchBytes, !s.atEnd)
		return err
	})
	if err != nil {
		return batch, err
	}
	defer func() { s.woken = false }()
	switch seen := len(batch.Messages) + len(batch.Others); {
	case seen > 0:
		s.see(batch)
		s.atEnd = true
	case s.atEnd && s.woken:
		s.atEnd = false // the stream ends elsewhere, where this group has been before
	case s.atEnd:
	default:
		if batch.End != "" {
			s.last = batch.End
		}
		s.atEnd = true
	}
	s.reach(s.shard, s.last)
	return batch, nil
}

// see moves last behind the messages of a batch.
func (s *session) see(batch group.Batch) {
	if n := len(batch.Messages); n > 0 && isAfter(batch.Messages[n-1].Position, s.last) {
		s.last = batch.Messages[n-1].Position
	}
	if n := len(batch.Others); n > 0 && isAfter(batch.Others[n-1], s.last) {
		s.last = batch.Others[n-1]
	}
}

// idle waits until the shard has a message after a position, or until a retry is due. Meanwhile it
// renews the lease, which also reports messages for which the session was not woken.
func (s *session) idle(after string) {
	woken := make(chan struct{})
	if after != "" {
		defer s.watch.Expect(after, func() { close(woken) })()
	}
	s.sleeps(true)
	defer s.sleeps(false)
	retry := s.due()
	for {
		wait := s.untilRenewal()
		if !retry.IsZero() {
			wait = min(wait, time.Until(retry))
		}
		timer := time.NewTimer(wait)
		select {
		case <-woken:
			s.woken = true
		case <-s.hurry:
		case <-timer.C:
			if !retry.IsZero() && !time.Now().Before(retry) {
				return
			}
			renewed, err := s.renew()
			if err == nil && renewed.Pending > s.held.count() {
				s.doubt() // Redis has forgotten an acknowledgement, or a read was lost
			} else if err == nil && !renewed.Behind && s.goesOn() {
				continue
			}
		case <-s.reading.Done():
		case <-s.work.Done():
		}
		timer.Stop()
		return
	}
}

func (s *session) takeSlot() bool {
	select {
	case s.slots <- struct{}{}:
		return true
	default:
	}
	select {
	case s.slots <- struct{}{}:
		return true
	case <-s.reading.Done():
	case <-s.work.Done():
	}
	return false
}

func (s *session) giveSlot() {
	if !s.stuck { // a stuck handler keeps the slot until it returns
		<-s.slots
	}
}

func (s *session) release() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.work), stepTimeout)
	defer cancel()
	// Correct the delivery counts of the waiting messages. Redis counts more deliveries than there
	// were, and a peer would turn the messages into dead letters too early.
	for waiting := range slices.Chunk(s.held.all(), s.Batch) {
		if _, _, err := group.Of(s.Ring).Redeliver(ctx, s.lease, waiting, 0); err != nil {
			s.failed("redeliver", err)
			break
		}
	}
	if _, err := group.Of(s.Ring).Release(ctx, s.lease); err != nil {
		s.failed("release", err)
	}
}
