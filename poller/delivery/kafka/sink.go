package kafka

import (
	"cmp"
	"context"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

const (
	// bufferMost is the most bytes of records of an endpoint whose outcome is not known, in a process.
	bufferMost = 128 << 20
	// overhead is more than a record has besides its key and its value.
	overhead = 1 << 10
	// rememberFor is how long the outcome of a record is kept for a message that did not get it.
	rememberFor = time.Hour
	// troubleFor is how long a failed connection is the reason why records wait.
	troubleFor = time.Minute
)

// Sink writes messages into a topic. It is safe for concurrent use.
type Sink struct {
	*config
	room    *semaphore.Weighted // bytes
	trouble trouble

	turn   chan struct{} // has room for one, who may use:
	client *kgo.Client   // nil: nothing was written yet
	closed bool

	writers writers // with positions

	mu      sync.Mutex
	flights map[string]*flight // by sink.Key
	swept   time.Time
}

// flight is a record that was given to the client, or whose outcome a message did not get yet.
type flight struct {
	done chan struct{} // closed when the outcome is known
	err  error
	at   time.Time
}

// ended waits for the outcome. It reports whether it is known, also if ctx is done.
func (f *flight) ended(ctx context.Context) bool {
	select {
	case <-f.done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

var _ sink.Testable = (*Sink)(nil)

func newSink(c *config) *Sink {
	return &Sink{config: c, room: semaphore.NewWeighted(bufferMost), turn: make(chan struct{}, 1), flights: make(map[string]*flight)}
}

// Prepare connects and looks for the topic. Its error is always a Later: somebody may start the
// brokers, create the topic or set the secret.
func (s *Sink) Prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	client, err := s.ready(ctx)
	if err != nil {
		return s.later(err)
	}
	for _, topic := range s.topics() {
		if err := s.look(ctx, client, topic); err != nil {
			return s.later(err)
		}
	}
	return nil
}

// Handle writes the messages, and returns once all replicas in sync have them. A message whose
// outcome is not known in time is for later.
func (s *Sink) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	if s.positions != "" {
		return s.once(ctx, batch)
	}
	ctx, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	errs := make([]error, len(batch))
	client, err := s.ready(ctx)
	if err != nil {
		return broker.Refuse(errs, s.later(err))
	}
	flights := make([]*flight, len(batch))
	for i, d := range batch {
		var record *kgo.Record
		if record, errs[i] = s.record(d); errs[i] != nil {
			continue
		}
		if flights[i], err = s.launch(ctx, client, sink.Key(s.Namespace, d), record); err != nil {
			broker.Refuse(errs[i:], s.later(err)) // nothing goes behind what did not go
			break
		}
	}
	waits := make(map[string]bool) // accounts
	for i, f := range flights {
		switch account := batch[i].Account; {
		case f == nil:
		case waits[account]: // its outcome, which may come meanwhile, is for its next delivery
			errs[i] = delivery.ErrHeld
		case !f.ended(ctx):
			errs[i], waits[account] = s.later(ctx.Err()), true
		default:
			errs[i], waits[account] = f.err, f.err != nil
			s.landed(sink.Key(s.Namespace, batch[i]), f)
		}
	}
	return errs
}

// Test writes the record of a test event. It is in no transaction, because another process may have the
// producers of the shards, and has no position.
func (s *Sink) Test(ctx context.Context, event delivery.Delivery) sink.Tested {
	ctx, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	record, err := s.record(event)
	if err != nil {
		return sink.TestedBy(err)
	}
	client, err := s.ready(ctx)
	if err == nil {
		err = client.ProduceSync(ctx, record).FirstErr()
	}
	if err != nil {
		err = s.later(err)
	}
	return sink.TestedBy(err)
}

// record returns the record of a message, or a Dead.
func (s *Sink) record(d delivery.Delivery) (*kgo.Record, error) {
	value, err := s.encoding.Encode(d, nil)
	if err != nil {
		return nil, &delivery.Dead{Err: broker.Plain("kafka: the message is not JSON")}
	}
	if len(value)+len(d.Account)+overhead > int(s.maxBytes) {
		return nil, &delivery.Dead{Err: broker.Plain("kafka: the message is larger than max_bytes of the endpoint")}
	}
	headers := []kgo.RecordHeader{
		{Key: "id", Value: []byte(sink.Key(s.Namespace, d))}, {Key: "content-type", Value: []byte(s.encoding.Format.ContentType())},
	}
	if trace := sink.Traceparent(d); trace != "" {
		headers = append(headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(trace)})
	}
	return &kgo.Record{Topic: s.topic, Key: []byte(d.Account), Value: value, Headers: headers}, nil
}

// launch gives a record to the client, unless one of the same message is already with it, or its
// outcome is known and nobody has got it.
func (s *Sink) launch(ctx context.Context, client *kgo.Client, key string, record *kgo.Record) (*flight, error) {
	s.mu.Lock()
	f := s.flights[key]
	s.mu.Unlock()
	if f != nil {
		return f, nil
	}
	size := int64(len(record.Value) + len(record.Key) + overhead)
	if err := s.room.Acquire(ctx, size); err != nil {
		return nil, broker.Plain("too much waits for the brokers")
	}
	f = &flight{done: make(chan struct{})}
	s.mu.Lock()
	s.flights[key] = f
	s.mu.Unlock()
	client.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
		s.room.Release(size)
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.at = time.Now(); err != nil {
			f.err = s.later(err)
			delete(s.flights, key) // it was certainly not written: the next delivery is a new record
		}
		close(f.done)
	})
	return f, nil
}

// landed forgets a record whose message got the outcome, and those that nobody asked for in time:
// another process has got their messages.
func (s *Sink) landed(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[key] == f {
		delete(s.flights, key)
	}
	now := time.Now()
	if now.Sub(s.swept) < rememberFor {
		return
	}
	s.swept = now
	for key, f := range s.flights {
		if !f.at.IsZero() && now.Sub(f.at) > rememberFor {
			delete(s.flights, key)
		}
	}
}

// ready returns the client, once it may write.
func (s *Sink) ready(ctx context.Context) (*kgo.Client, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.closed {
		return nil, broker.Plain("the process ends")
	}
	if s.client == nil {
		client, err := s.connect(ctx, kgo.WithHooks(&s.trouble))
		if err != nil {
			return nil, err
		}
		s.client = client
	}
	if _, _, err := s.client.ProducerID(ctx); err != nil { // it is asked for once
		return nil, err
	}
	return s.client, nil
}

// Close closes the connections. What the client still has was not acknowledged.
func (s *Sink) Close() error {
	s.turn <- struct{}{}
	s.closed = true
	defer func() { <-s.turn }()
	s.writers.sweep(0)
	if s.client != nil {
		s.client.Close()
	}
	return nil
}

func (s *Sink) later(err error) error {
	return broker.Later(s.name, broker.Plain("kafka: "+s.trouble.reason(err).Error()))
}

// trouble remembers why the last connection to each broker failed, which the client does not say of
// records that wait.
type trouble struct {
	mu   sync.Mutex
	last map[int32]failure // by broker; without those whose last connection was made
}

type failure struct {
	err error
	at  time.Time
}

var _ kgo.HookBrokerConnect = (*trouble)(nil)

// OnBrokerConnect notes how an attempt to connect and sign in ended.
func (t *trouble) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.last, func(_ int32, f failure) bool { return now.Sub(f.at) > troubleFor })
	if err == nil {
		delete(t.last, to.NodeID)
		return
	}
	if t.last == nil {
		t.last = make(map[int32]failure)
	}
	t.last[to.NodeID] = failure{err, now}
}

// reason returns what went wrong: the latest trouble with a connection, if the error only says that it
// took too long.
func (t *trouble) reason(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isLate(err) {
		return reason(err)
	}
	var latest failure
	for _, f := range t.last {
		if f.at.After(latest.at) && time.Since(f.at) <= troubleFor {
			latest = f
		}
	}
	return reason(cmp.Or(latest.err, err))
}
