package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

const (
	// lanesMost is the most messages of a batch that are sent at once.
	lanesMost = 64
	// shortWindow is a duplicate window that outages are likely to outlast.
	shortWindow = 10 * time.Minute
)

// Sink writes messages into a stream. It is safe for concurrent use.
type Sink struct {
	*config
	log *slog.Logger

	turn   chan struct{} // has room for one, who may use:
	to     *connection   // nil: there was none yet
	closed bool
	warned bool
}

var _ sink.Testable = (*Sink)(nil)

func newSink(c *config) *Sink {
	return &Sink{config: c, turn: make(chan struct{}, 1), log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)).With("endpoint", c.name)}
}

// Prepare connects and looks for the stream. Its error is always a Later: somebody may start the
// servers, create the stream or set the secret.
func (s *Sink) Prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	to, err := s.ready(ctx)
	if err != nil {
		return s.later(err)
	}
	stream, err := s.look(ctx, to)
	if err != nil {
		return s.later(err)
	}
	if stream.Duplicates < shortWindow && !s.warned {
		s.warned = true
		s.log.Warn("the stream remembers message ids for a short time, so a message whose outcome is unknown for longer may be stored twice: give it a longer duplicate window",
			"stream", s.stream, "duplicate_window", stream.Duplicates, "wanted", shortWindow)
	}
	return nil
}

// Handle stores the messages, those of an account one after another.
func (s *Sink) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	begin, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	to, err := s.ready(begin)
	if err != nil {
		return broker.Refuse(errs, s.later(err))
	}
	var lanes sync.WaitGroup
	slots := make(chan struct{}, lanesMost)
	for _, lane := range lanesOf(batch) {
		slots <- struct{}{}
		lanes.Go(func() {
			defer func() { <-slots }()
			s.walk(ctx, begin, to, batch, lane, errs)
		})
	}
	lanes.Wait()
	return errs
}

// lanesOf returns the messages of each account, by index.
func lanesOf(batch []delivery.Delivery) (lanes [][]int) {
	of := make(map[string]int)
	for i, d := range batch {
		n, ok := of[d.Account]
		if !ok {
			n = len(lanes)
			of[d.Account] = n
			lanes = append(lanes, nil)
		}
		lanes[n] = append(lanes[n], i)
	}
	return lanes
}

// walk stores the messages of an account up to the first that waits.
func (s *Sink) walk(ctx, begin context.Context, to *connection, batch []delivery.Delivery, lane []int, errs []error) {
	for n, i := range lane {
		if begin.Err() != nil {
			errs[i] = &delivery.Later{Err: broker.Plain("nats: the batch takes too long")}
		} else {
			errs[i] = s.store(ctx, to, batch[i])
		}
		var dead *delivery.Dead
		if errs[i] == nil || errors.As(errs[i], &dead) {
			continue
		}
		for _, later := range lane[n+1:] {
			errs[later] = delivery.ErrHeld
		}
		return
	}
}

// store stores a message.
func (s *Sink) store(ctx context.Context, to *connection, d delivery.Delivery) error {
	data, err := s.encoding.Encode(d, nil)
	if err != nil {
		return &delivery.Dead{Err: broker.Plain("nats: the message is not JSON")}
	}
	header := nats.Header{"Content-Type": {s.encoding.Format.ContentType()}}
	if trace := sink.Traceparent(d); trace != "" {
		header["traceparent"] = []string{trace} // servers and other clients compare it as it is
	}
	ctx, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	ctx, cancel = to.while(ctx)
	defer cancel()
	_, err = to.stream.PublishMsg(ctx, &nats.Msg{Subject: s.subject, Data: data, Header: header},
		jetstream.WithMsgID(sink.Key(s.Namespace, d)), jetstream.WithExpectStream(s.stream))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return &delivery.Dead{Err: fmt.Errorf("nats: the message has %d bytes, which is more than max_payload of the server", len(data))}
	case errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return &delivery.Dead{Err: fmt.Errorf("nats: the message has %d bytes, which is more than max_msg_size of the stream", len(data))}
	}
	return s.later(err)
}

// Test stores a test event.
func (s *Sink) Test(ctx context.Context, event delivery.Delivery) sink.Tested {
	begin, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	to, err := s.ready(begin)
	if err != nil {
		return sink.TestedBy(s.later(err))
	}
	return sink.TestedBy(s.store(ctx, to, event))
}

// ready returns the connection.
func (s *Sink) ready(ctx context.Context) (*connection, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.closed {
		return nil, broker.Plain("the process ends")
	}
	if s.to == nil || s.to.conn.IsClosed() {
		to, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		s.to = to
	}
	return s.to, nil
}

// Close closes the connection.
func (s *Sink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closed = true
	if s.to != nil {
		s.to.conn.Close()
	}
	return nil
}

func (s *Sink) later(err error) error {
	return broker.Later(s.name, broker.Plain("nats: "+reason(err).Error()))
}
