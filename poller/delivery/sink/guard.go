package sink

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// Outcome is how the delivery of a message to a sink ended. It is a label of metrics.
type Outcome string

// The outcomes that sinks of all types have.
const (
	Delivered   Outcome = "delivered"   // stored
	Filtered    Outcome = "filtered"    // the endpoint does not get it
	Held        Outcome = "held"        // an earlier message of the account failed
	Failed      Outcome = "failed"      // it counts as a failed delivery
	Rejected    Outcome = "rejected"    // it can never be stored
	Unreachable Outcome = "unreachable" // not now: the message is not to blame
)

func outcomeOf(err error) Outcome {
	var later *delivery.Later
	var dead *delivery.Dead
	switch {
	case err == nil, errors.Is(err, delivery.ErrAcknowledged):
		return Delivered
	case errors.Is(err, delivery.ErrHeld):
		return Held
	case errors.As(err, &later):
		return Unreachable
	case errors.As(err, &dead):
		return Rejected
	}
	return Failed
}

var errAnswer = errors.New("the sink did not answer for each message")

// Guard is a sink behind the filter of its endpoint.
type Guard struct {
	delivery.Sink
	filter Filter
	count  func(Outcome)

	mu   sync.Mutex
	last Last
}

// Last is how the last deliveries of a Guard ended.
type Last struct {
	Outcome   Outcome   // empty: there was none
	Why       string    // what went wrong; empty: nothing
	At        time.Time // when
	Delivered time.Time // when a message was last stored
}

// NewGuard returns a sink's guard. It calls count with the outcome of each message.
func NewGuard(to delivery.Sink, filter Filter, count func(Outcome)) *Guard {
	return &Guard{Sink: to, filter: filter, count: count}
}

// Last returns how the last deliveries ended.
func (g *Guard) Last() Last {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// Handle has the sink handle the messages that pass the filter. The others are done.
func (g *Guard) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	var places []int
	var wanted []delivery.Delivery
	errs := make([]error, len(batch))
	for i, v := range g.filter.judge(ctx, batch) {
		switch {
		case v.err != nil:
			errs[i] = v.err
			g.note(v.err)
		case v.passes:
			places, wanted = append(places, i), append(wanted, batch[i])
		default:
			g.count(Filtered)
		}
	}
	if len(wanted) == 0 {
		if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			return errs
		}
		return nil
	}
	answered := g.Sink.Handle(ctx, wanted)
	for k, i := range places {
		switch len(answered) {
		case 0:
		case len(wanted):
			errs[i] = answered[k]
		default:
			errs[i] = errAnswer
		}
		g.note(errs[i])
	}
	return errs
}

func (g *Guard) note(err error) {
	outcome := outcomeOf(err)
	g.count(outcome)
	if outcome == Held {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last.Outcome, g.last.At, g.last.Why = outcome, time.Now(), ""
	if outcome == Delivered {
		g.last.Delivered = g.last.At
		return
	}
	var later *delivery.Later
	if errors.As(err, &later) && later.Err != nil {
		err = later.Err
	}
	g.last.Why = err.Error()
}
