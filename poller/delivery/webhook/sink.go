package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// DefaultAttemptWindow is Options.AttemptWindow unless told otherwise.
const DefaultAttemptWindow = 20 * time.Second

// Client makes the calls; *fetch.Client is one, and refuses private addresses
// unless told to allow them.
type Client interface {
	Do(ctx context.Context, call fetch.Call) (*fetch.Response, error)
	Validate(url string) error
}

// Options are what a sink needs beside its endpoint.
type Options struct {
	Client    Client         // required
	Secrets   secrets.Source // where the endpoint's references lead; read anew for each batch
	Namespace string         // the ring's; required, since webhook-id depends on it
	Store     Store          // nil: that an endpoint is disabled is forgotten with the process
	Log       *slog.Logger   // nil: nowhere
	Metrics   *Metrics       // nil: for nobody

	// AttemptWindow is for how long one call of Handle goes on beginning attempts; it
	// returns at the latest after that and the endpoint's Timeout, or when its
	// context's deadline has come. See Sink.HandlerTimeout. 0: DefaultAttemptWindow.
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
	unready  atomic.Bool // told already
}

var _ delivery.Handler = (*Sink)(nil)

// New makes an endpoint's sink. The error has all that is wrong with the
// endpoint, each fault with its field.
func New(endpoint Endpoint, o Options) (*Sink, error) {
	if o.Client == nil || o.Namespace == "" {
		return nil, errors.New("webhook: client and namespace are required")
	}
	r := strict.NewReader(nil)
	endpoint.check(r, o.Client)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("webhook %q: %w", strict.Printable(endpoint.Name), err)
	}
	if endpoint.Timeout == 0 {
		endpoint.Timeout = DefaultTimeout
	}
	if endpoint.Concurrency == 0 {
		endpoint.Concurrency = DefaultConcurrency
	}
	if o.AttemptWindow <= 0 {
		o.AttemptWindow = DefaultAttemptWindow
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	log := o.Log.With("endpoint", endpoint.Name)
	return &Sink{
		endpoint: endpoint,
		options:  o,
		log:      log,
		record:   newRecord(log),
		gate:     newGate(endpoint.Concurrency, log, o.Metrics.breaker.WithLabelValues(endpoint.Name)),
		standing: &standing{endpoint: endpoint.Name, store: o.Store, log: log, gauge: o.Metrics.disabled.WithLabelValues(endpoint.Name)},
	}, nil
}

// batchCall is one call of Handle.
type batchCall struct {
	ctx    context.Context // done when no attempt may begin any more
	signer *signer
}

// Handle delivers a batch, up to Concurrency messages at once. What it could not
// get to is a [delivery.Later]. Where the endpoint is not Ordered, a message may
// be delivered although an earlier one of its account failed.
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

// HandlerTimeout is what a consumer must grant a call of Handle for it to use its
// whole window: AttemptWindow, the endpoint's Timeout and a second.
func (s *Sink) HandlerTimeout() time.Duration {
	return s.options.AttemptWindow + s.endpoint.Timeout + time.Second
}

// window is for how long attempts may begin. One that the context's deadline would
// cut off had better not, unless there is no time for any other.
func (s *Sink) window(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.options.AttemptWindow
	}
	left := time.Until(deadline)
	return min(s.options.AttemptWindow, max(left-s.endpoint.Timeout, left/2))
}

// begin readies what all of a batch needs.
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
			s.log.Warn("webhook endpoint gets nothing until this is mended", "error", err)
		}
		return batchCall{}, s.failure(Unready, recheck, err)
	}
	s.unready.Store(false)
	return batchCall{ctx: ctx, signer: signer}, nil
}

// lanes are the messages to deliver, by index: those of a lane one after the
// other, lanes side by side.
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

// walk delivers the messages of a lane up to the first that fails.
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
