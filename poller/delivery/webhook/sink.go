package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/refusals"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// defaultAttemptWindow is the default of Options.AttemptWindow.
const defaultAttemptWindow = 20 * time.Second

// Client makes the calls. *fetch.Client is one, and refuses private addresses unless they are
// allowed.
type Client interface {
	// Do makes a call.
	Do(ctx context.Context, call fetch.Call) (*fetch.Response, error)
	// Validate returns an error for a URL that is not allowed.
	Validate(url string) error
}

// Options are what a sink needs beside its endpoint.
type Options struct {
	Client    Client         // required
	Secrets   secrets.Source // has the endpoint's secrets; read anew for each batch
	Namespace string         // the ring's namespace; required, since webhook-id depends on it
	Store     Store          // remembers which endpoints are disabled; nil: only this process knows
	Log       *slog.Logger   // nil: no log
	Metrics   *Metrics       // nil: no metrics

	// Files returns what the payload of a message says of the files that it carries; nil: nothing is
	// said. It is called once in each delivery, and a message waits while it fails.
	Files func(context.Context, *delivery.Delivery) ([]sink.File, error)

	// AttemptWindow is how long one call of Handle may begin attempts. Handle returns at
	// the latest when this time and then the endpoint's Timeout have passed, or at its
	// context's deadline. See Sink.HandlerTimeout. 0: defaultAttemptWindow.
	AttemptWindow time.Duration
}

// Sink delivers messages to one endpoint. It is safe for concurrent use.
type Sink struct {
	endpoint Endpoint
	options  Options
	log      *slog.Logger
	gate     *gate
	standing *standing
	record   *record
	unready  atomic.Bool // the log already says that a secret is missing
}

var (
	_ delivery.Sink   = (*Sink)(nil)
	_ refusals.Teller = (*Sink)(nil)
)

// TellsRefusals marks that the sink logs which messages its endpoint refuses.
func (s *Sink) TellsRefusals() {}

// New returns an endpoint's sink. The error has all faults of the endpoint, each with its field.
func New(endpoint Endpoint, o Options) (*Sink, error) {
	if o.Client == nil || o.Namespace == "" {
		return nil, errors.New("webhook: client and namespace are required")
	}
	r := strict.NewReader(nil)
	endpoint.check(r, o.Client)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("webhook %q: %w", strict.Printable(endpoint.Name), err)
	}
	endpoint.Timeout = cmp.Or(endpoint.Timeout, defaultTimeout)
	endpoint.Concurrency = cmp.Or(endpoint.Concurrency, defaultConcurrency)
	if o.AttemptWindow <= 0 {
		o.AttemptWindow = defaultAttemptWindow
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("endpoint", endpoint.Name)
	record := newRecord(log)
	return &Sink{
		endpoint: endpoint,
		options:  o,
		log:      log,
		record:   record,
		gate:     newGate(endpoint.Concurrency, log, record.trouble, o.Metrics.breaker.WithLabelValues(endpoint.Name)),
		standing: &standing{endpoint: endpoint.Name, store: o.Store, log: log, gauge: o.Metrics.disabled.WithLabelValues(endpoint.Name)},
	}, nil
}

// batchCall is one call of Handle.
type batchCall struct {
	ctx    context.Context // done when no further attempt may begin
	signer *signer
}

// Handle delivers a batch, up to Concurrency messages at once. It returns a [delivery.Later] for
// messages that it did not get to. If the endpoint is not Ordered, a message may be delivered
// although an earlier one of its account failed.
func (s *Sink) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	defer func() { s.count(batch, errs) }()
	starting, cancel := context.WithTimeout(ctx, s.window(ctx))
	defer cancel()
	t, unready := s.begin(starting)
	var lanes sync.WaitGroup
	for _, lane := range s.lanes(batch) {
		if unready != nil {
			for _, i := range lane {
				errs[i] = unready.answer()
			}
			continue
		}
		lanes.Go(func() { s.walk(ctx, t, batch, lane, errs) })
	}
	lanes.Wait()
	return errs
}

// Behind returns the sink behind a filter, which may ask for more than the endpoint's kinds.
func (s *Sink) Behind(f sink.Filter) delivery.Sink {
	return behind{sink.NewGuard(s, f, func(o sink.Outcome) {
		if o == sink.Filtered { // the sink counts what it gets
			s.options.Metrics.deliveries.WithLabelValues(s.endpoint.Name, string(o)).Inc()
		}
	})}
}

type behind struct{ *sink.Guard }

// TellsRefusals marks that the sink logs which messages its endpoint refuses.
func (behind) TellsRefusals() {}

// HandlerTimeout returns the time that Handle needs to use its whole window: AttemptWindow, the
// endpoint's Timeout and a second. Set it as Consumer.HandlerTimeout.
func (s *Sink) HandlerTimeout() time.Duration {
	return s.options.AttemptWindow + s.endpoint.Timeout + time.Second
}

// window returns how long attempts may begin. An attempt that the context's deadline would cut
// off does not begin, unless the time is too short for any other.
func (s *Sink) window(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.options.AttemptWindow
	}
	left := time.Until(deadline)
	return min(s.options.AttemptWindow, max(left-s.endpoint.Timeout, left/2))
}

// begin prepares what all messages of a batch need.
func (s *Sink) begin(ctx context.Context) (batchCall, *Error) {
	err := s.standing.refresh(ctx)
	if err == nil && s.standing.disabled.Load() {
		return batchCall{}, s.failure(Disabled, recheck, ErrDisabled)
	}
	var signer *signer
	if err == nil {
		signer, err = resolve(ctx, s.endpoint, s.options.Secrets)
	}
	if err != nil && ctx.Err() != nil {
		return batchCall{}, s.failure(Canceled, 0, ctx.Err())
	}
	if err != nil {
		if !s.unready.Swap(true) {
			s.log.Warn("webhook endpoint gets nothing until this is fixed", "error", err)
		}
		return batchCall{}, s.failure(Unready, recheck, err)
	}
	s.unready.Store(false)
	return batchCall{ctx: ctx, signer: signer}, nil
}

// Prepare warns if the endpoint would get nothing now, such as for want of a secret. It is called
// before there is a message, so that somebody who has just named the endpoint sees it. It returns
// nil.
func (s *Sink) Prepare(ctx context.Context) error {
	_, _ = s.begin(ctx) // it has warned
	return nil
}

// Close returns nil: the client belongs to the caller.
func (s *Sink) Close() error { return nil }

// lanes returns the messages to deliver, by index. The messages of a lane are delivered one after
// the other, and lanes side by side.
func (s *Sink) lanes(batch []delivery.Delivery) [][]int {
	var lanes [][]int
	of := make(map[string]int) // account -> lane
	for i, d := range batch {
		if !s.endpoint.wants(d.Kind) {
			continue
		}
		lane, ok := of[d.Account]
		if !ok || !s.endpoint.Ordered {
			lane = len(lanes)
			of[d.Account] = lane
			lanes = append(lanes, nil)
		}
		lanes[lane] = append(lanes[lane], i)
	}
	return lanes
}

// walk delivers the messages of a lane up to the first one that fails.
func (s *Sink) walk(ctx context.Context, t batchCall, batch []delivery.Delivery, lane []int, errs []error) {
	for n, i := range lane {
		if e := s.deliver(ctx, t, batch[i]); e != nil {
			errs[i] = e.answer()
			for _, later := range lane[n+1:] {
				errs[later] = delivery.ErrHeld
			}
			return
		}
	}
}

func (s *Sink) count(batch []delivery.Delivery, errs []error) {
	for i, d := range batch {
		outcome := outcomeOf(errs[i])
		if !s.endpoint.wants(d.Kind) {
			outcome = Filtered
		}
		s.options.Metrics.deliveries.WithLabelValues(s.endpoint.Name, string(outcome)).Inc()
	}
}

func (s *Sink) failure(outcome Outcome, after time.Duration, cause error) *Error {
	return &Error{Endpoint: s.endpoint.Name, Outcome: outcome, after: after, cause: cause}
}
