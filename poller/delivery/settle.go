package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery/internal/refusals"
)

// heldPause is the least wait before an account's messages are delivered again.
const heldPause = 20 * time.Millisecond

// settle acknowledges handled messages and messages of other groups, turns messages that failed too
// often into dead letters, and holds the rest to be delivered again. It returns the lines, by lineOf,
// that it holds messages of.
func (s *session) settle(batch []Delivery, errs []error, panicked bool, others []string) map[string]bool {
	done := others
	type line struct {
		account string
		back    []group.Pending
		due     time.Time
		alone   bool
		why     error // the error of the first of them
		later   bool  // the first of them was put off
	}
	var failed map[string]*line
	now := time.Now()
	var target string
	var until time.Time
	counted := make(map[string]int, 4)
	var refused, putOff []int // of batch
	for i, d := range batch {
		outcome := outcomeOf(s.work, errs[i])
		if outcome == outcomeFailed && !isDead(errs[i]) {
			refused = append(refused, i)
		}
		if outcome == outcomeFailed && (d.Attempt >= s.MaxDeliveries || isDead(errs[i])) {
			if s.bury(group.Pending{Position: d.Position, Deliveries: d.Attempt}, errs[i], attributesOf(d)) {
				counted[outcomeDead]++
				continue
			}
		}
		counted[outcome]++
		switch outcome {
		case outcomeOK:
			done = append(done, d.Position)
			continue
		case outcomeDone:
			continue
		}
		name := s.lineOf(d.Found)
		a := failed[name]
		if a == nil {
			if failed == nil {
				failed = make(map[string]*line)
			}
			a = &line{account: d.Account, due: now.Add(heldPause), why: reasonOf(errs[i]), later: outcome == outcomeLater}
			failed[name] = a
		}
		p := group.Pending{Position: d.Position, Deliveries: d.Attempt}
		later, isLater := laterOf(errs[i])
		switch {
		case outcome == outcomeFailed:
			p.Deliveries++
			a.due = latest(a.due, now.Add(s.Backoff(d.Attempt)))
			a.alone = a.alone || panicked
			s.Log.Debug("message failed", "account", d.Account, "message", d.Message.ID, "shard", s.shard, "position", d.Position, "attempt", d.Attempt, "error", errs[i])
		case isLater:
			a.due = latest(a.due, now.Add(later.After))
			putOff = append(putOff, i)
			if later.Target != "" {
				target, until = later.Target, latest(until, a.due)
			}
		case len(a.back) == 0: // ErrHeld, but behind no message that we know
			a.due = latest(a.due, now.Add(time.Second))
		}
		a.back = append(a.back, p)
	}
	for outcome, n := range counted {
		s.meters.handled.WithLabelValues(s.Group, outcome).Add(float64(n))
	}
	s.acknowledge(done)
	s.judge(target, until, counted[outcomeOK]+counted[outcomeDone]+counted[outcomeFailed]+counted[outcomeDead] > 0)
	kept := make(map[string]bool, len(failed))
	for name, a := range failed {
		kept[name] = true
		s.held.back(name, a.account, a.back, a.due, a.alone, a.why, a.later)
	}
	handled := counted[outcomeOK] + counted[outcomeDone]
	s.takes.Store(handled > 0)
	s.refused.Took(handled)
	s.deferred.Took(handled)
	note := func(in *refusals.Record, which []int) { // only now that they are held, so that they count as waiting
		for _, i := range which {
			why := reasonOf(errs[i])
			in.Refused(why, attributesOf(batch[i]), append([]any{"error", why}, attributesOf(batch[i])...))
		}
	}
	note(s.refused, refused)
	if s.work.Err() == nil { // else the handler puts them off because its context is done
		note(s.deferred, putOff)
	}
	return kept
}

// isDead reports whether the handler has given a message up.
func isDead(err error) bool {
	dead, ok := errors.AsType[*Dead](err)
	return ok && dead != nil
}

// reasonOf returns the reason in a handler's error, without Later's time.
func reasonOf(err error) error {
	if later, ok := laterOf(err); ok {
		return later.reason()
	}
	return err
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// The outcomes of a delivery.
const (
	outcomeOK     = "ok"
	outcomeDone   = "acknowledged" // by the handler itself
	outcomeFailed = "failed"
	outcomeLater  = "later"
	outcomeHeld   = "held"
	outcomeCut    = "cut"  // the consumer ends, or lost the shard
	outcomeDead   = "dead" // failed too often
)

func outcomes() []string {
	return []string{outcomeOK, outcomeDone, outcomeFailed, outcomeLater, outcomeHeld, outcomeCut, outcomeDead}
}

func outcomeOf(work context.Context, err error) string {
	_, later := laterOf(err)
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, ErrAcknowledged):
		return outcomeDone
	case errors.Is(err, ErrHeld):
		return outcomeHeld
	case later:
		return outcomeLater
	case work.Err() != nil:
		return outcomeCut
	}
	return outcomeFailed
}

// acknowledge acknowledges handled messages in Redis. It tries again until that succeeds, or until
// another consumer has the shard.
func (s *session) acknowledge(positions []string) {
	if len(positions) == 0 {
		return
	}
	// It acknowledges even if the lease is lost or the grace period is over: the messages were
	// handled.
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.work), stepTimeout)
		_, err := group.Of(s.Ring).Acknowledge(ctx, s.shard, s.Group, positions)
		cancel()
		if err == nil {
			return
		}
		s.failed("acknowledge", err)
		if !sleep(s.work, 50*time.Millisecond<<min(try, 5)) {
			return
		}
	}
}

// bury turns a message into a dead letter. It reports whether that is done or no longer needed.
// attributes name the message in the log.
func (s *session) bury(p group.Pending, why error, attributes []any) bool {
	dead := false
	err := s.step(func(ctx context.Context) (err error) {
		dead, err = group.Of(s.Ring).Bury(ctx, s.lease, p, why.Error())
		return err
	})
	if err != nil {
		s.trouble("bury", err)
		return false
	}
	if dead {
		s.Log.Error("message is a dead letter", append(attributes, "shard", s.shard, "position", p.Position, "deliveries", p.Deliveries, "error", why)...)
	}
	return true
}

// writtenAt returns when a message was written, by Redis' clock.
func writtenAt(position string) time.Time {
	id, _ := circulate.ParseStreamID(position)
	return id.Time()
}
