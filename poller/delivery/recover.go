package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// suspect is the number of deliveries without a known outcome after which a message may
// be what kills its consumers. It is then delivered alone, so that no other message is
// blamed.
const suspect = 2

// inherit begins a session: it makes sure that the group exists, delivers all messages that are
// pending in the shard, whichever consumer they were given to, and removes the consumers that have
// none left.
func (s *session) inherit() {
	for s.goesOn() && !s.ensure() {
		_ = sleep(s.reading, time.Second)
	}
	if !s.recover() {
		return
	}
	err := s.step(func(ctx context.Context) error {
		_, err := group.Of(s.Ring).Forget(ctx, s.lease)
		return err
	})
	if err != nil {
		s.trouble("forget consumers", err) // they cost nothing, and the next session asks again
	}
}

// recover delivers the shard's pending messages after the last position that are not held here. It
// reports whether it reached their end: it stops early when the session ends, or when the target of
// its messages is away.
//
// XAUTOCLAIM would take messages over without saying how often they were delivered, and
// would change that number. So recover lists messages with XPENDING, and takes over
// with XCLAIM only what it is about to deliver.
func (s *session) recover() bool {
	s.unsure = true // until the end is reached
	for s.goesOn() && s.away == "" {
		var pending []group.Pending
		err := s.step(func(ctx context.Context) (err error) {
			pending, err = group.Of(s.Ring).Pending(ctx, s.lease, s.last, s.Batch)
			return err
		})
		if err != nil {
			s.trouble("pending", err)
			continue
		}
		if len(pending) == 0 {
			break
		}
		if s.takeOver(s.held.others(pending)) {
			s.last = pending[len(pending)-1].Position
		}
	}
	if !s.goesOn() || s.away != "" {
		return false
	}
	s.unsure, s.atEnd = false, false
	return true
}

// takeOver delivers pending messages in their order, and reports whether it reached the
// end of them.
func (s *session) takeOver(pending []group.Pending) bool {
	for from := 0; from < len(pending) && s.goesOn() && s.away == ""; {
		to := from
		for to < len(pending) && pending[to].Deliveries < suspect {
			to++
		}
		var ok bool
		switch {
		case to > from:
			ok = s.deliverAgain(pending[from:to])
		case pending[from].Deliveries >= s.MaxDeliveries:
			to++
			why := fmt.Errorf("delivered %d times with no known outcome: its consumers may have died of it", pending[from].Deliveries)
			ok = s.bury(pending[from], why, s.named(pending[from].Position))
		default:
			to++
			ok = s.alone(pending[from])
		}
		if !ok {
			return false // the rest is asked for again
		}
		s.last = pending[to-1].Position
		from = to
	}
	return s.goesOn() && s.away == ""
}

// named returns the attributes of a message that was not read here, or none if it is gone.
func (s *session) named(position string) []any {
	ctx, cancel := context.WithTimeout(s.work, stepTimeout)
	defer cancel()
	id, err := circulate.ParseStreamID(position)
	if err != nil {
		return nil
	}
	found, err := s.Ring.Streams().Messages(ctx, s.shard, id.Previous().String(), 1)
	if err != nil || len(found) == 0 || found[0].Position != position {
		return nil
	}
	return attributesOf(Delivery{Found: found[0]})
}

// alone delivers a suspect while no other suspect is delivered in this process.
func (s *session) alone(p group.Pending) bool {
	select {
	case s.suspects <- struct{}{}:
	case <-s.reading.Done():
		return false
	case <-s.work.Done():
		return false
	}
	defer func() { <-s.suspects }()
	return s.deliverAgain([]group.Pending{p})
}

// deliverAgain delivers messages once more, if they are still pending, and reports whether it reached
// the end of them.
func (s *session) deliverAgain(pending []group.Pending) bool {
	if !s.takeSlot() {
		return false
	}
	defer s.giveSlot()
	next := make([]group.Pending, len(pending))
	for i, p := range pending {
		next[i] = group.Pending{Position: p.Position, Deliveries: p.Deliveries + 1}
	}
	for len(next) > 0 && !s.stuck && s.away == "" {
		batch, came, err := s.redeliver(next)
		if err != nil {
			s.trouble("redeliver", err)
			return false
		}
		s.meters.takenOver.Add(float64(len(batch.Messages)))
		s.deliver(batch, next[:came])
		next = next[came:]
	}
	return len(next) == 0 && !s.stuck
}

func (s *session) redeliver(pending []group.Pending) (batch group.Batch, came int, err error) {
	err = s.step(func(ctx context.Context) (err error) {
		batch, came, err = group.Of(s.Ring).Redeliver(ctx, s.lease, pending, s.BatchBytes)
		return err
	})
	return batch, came, err
}
