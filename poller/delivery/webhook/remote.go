package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

const (
	lookEvery   = time.Second // between two looks for orders and changes to report
	lookTimeout = 5 * time.Second
	// reportMost is the most waiting messages of an endpoint that a report names. The
	// others are only counted.
	reportMost = 500
	whyMost    = 200 // bytes of a message's failure
	// testsMost is how many tests of an endpoint a process makes at once, and how many ended ones a
	// report has.
	testsMost = 4
)

// Board is where a Remote reports and finds its orders. document.Endpoints is one.
type Board interface {
	// Report replaces the reports of a process about its endpoints.
	Report(ctx context.Context, process string, reports []document.Report) error
	// Tried replaces the latest attempts of a process, by endpoint.
	Tried(ctx context.Context, process string, attempts map[string][]document.Attempt) error
	// Withdraw removes the reports of a process.
	Withdraw(ctx context.Context, process string) error
	// Orders returns the orders after a position, the position from which to go on, and Redis' time.
	Orders(ctx context.Context, after string) ([]document.Order, string, time.Time, error)
}

var _ Board = document.Endpoints{}

// Remote reports the state of this process' sinks to operators, and carries out their orders. It
// is safe for concurrent use.
type Remote struct {
	board   Board
	log     *slog.Logger
	process string

	mu    sync.Mutex
	posts map[string]post // by endpoint
	tests map[string]*tests
}

// tests are the tests of an endpoint.
type tests struct {
	running int
	ended   []document.Tested
}

// post is the sink and consumer that deliver to an endpoint in this process.
type post struct {
	name    string
	kinds   []string
	sink    *Sink       // nil: the endpoint is no webhook
	other   *sink.Guard // of an endpoint that is no webhook
	control *delivery.Control
	most    int
	added   int64  // the revision of an endpoint that was added while the service runs; 0: it is declared
	fault   string // why nothing is delivered to it; then it has no sink
}

// NewRemote returns a Remote without endpoints. A nil log is silent.
func NewRemote(board Board, log *slog.Logger) *Remote {
	return &Remote{board: board, log: cmp.Or(log, slog.New(slog.DiscardHandler)), process: circulate.NewReplica(), posts: make(map[string]post), tests: make(map[string]*tests)}
}

// Add adds a sink and its consumer's control. A message is a dead letter after maxDeliveries failed
// deliveries. Add replaces a sink of the same endpoint.
func (r *Remote) Add(to *Sink, control *delivery.Control, maxDeliveries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts[to.endpoint.Name] = post{name: to.endpoint.Name, kinds: to.endpoint.Kinds, sink: to, control: control, most: maxDeliveries, added: to.endpoint.Revision}
}

// AddOther is Add for an endpoint that is no webhook. It returns the function that removes it.
func (r *Remote) AddOther(e sink.Endpoint, to *sink.Guard, control *delivery.Control, maxDeliveries int) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts[e.Name] = post{name: e.Name, kinds: e.Filter.Kinds, other: to, control: control, most: maxDeliveries, added: e.Revision}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.posts[e.Name].other == to {
			delete(r.posts, e.Name)
		}
	}
}

// AddFaulty reports an added endpoint to which this process cannot deliver, and why, until
// RemoveFaulty or until the endpoint has a sink.
func (r *Remote) AddFaulty(name string, revision int64, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts[name] = post{name: name, added: revision, fault: why}
}

// RemoveFaulty ends the report of AddFaulty.
func (r *Remote) RemoveFaulty(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.posts[name].fault != "" {
		delete(r.posts, name)
	}
}

// Remove removes a sink, unless another sink has replaced it.
func (r *Remote) Remove(sink *Sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.posts[sink.endpoint.Name].sink == sink {
		delete(r.posts, sink.endpoint.Name)
	}
}

func (r *Remote) all() map[string]post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.posts)
}

// Run looks for orders every second and reports changes, until ctx is done. Then it removes its
// reports and returns nil. While Redis is away it tries again.
func (r *Remote) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var t lookState
	var testing sync.WaitGroup
	defer testing.Wait()
	for {
		r.look(ctx, &t, func(test func()) { testing.Go(test) })
		select {
		case <-ctx.Done():
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := r.board.Withdraw(bye, r.process); err != nil {
				r.log.Debug("could not remove the reports about webhook endpoints; they stay for a minute", "error", err)
			}
			return nil
		case <-tick.C:
		}
	}
}

// lookState is what one look leaves for the next.
type lookState struct {
	after    string            // the position of the last order
	reported []document.Report // the last reports
	at       time.Time         // when they were written
	tried    triedState
}

// look carries out new orders. It reports changes at once, and an unchanged state from time to
// time.
func (r *Remote) look(ctx context.Context, t *lookState, beside func(func())) {
	working := ctx
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	posts := r.all()
	r.forgetTests(posts)
	standings := make(map[string]delivery.Standing, len(posts))
	for name, p := range posts {
		if p.control != nil {
			standings[name] = p.control.Standing()
		}
		if p.sink == nil {
			continue
		}
		p.sink.record.tick(slices.ContainsFunc(standings[name].First, func(w delivery.Waiting) bool { return w.Failed > 0 }))
	}
	orders, next, redisNow, err := r.board.Orders(ctx, t.after)
	if err != nil {
		return // the ring logs once that Redis is away
	}
	t.after = next
	for _, o := range orders {
		switch p, ok := posts[o.Endpoint]; {
		case !ok, o.Process != "" && o.Process != r.process:
		case o.Action == document.Test:
			r.test(working, p, o.ID, redisNow, beside)
		case p.control != nil:
			r.obey(p, o)
		}
	}
	ahead := time.Until(redisNow) // about how far Redis' clock is ahead
	r.reportTried(ctx, &t.tried, posts, ahead)
	reports := make([]document.Report, 0, len(posts))
	for name, p := range posts {
		report := p.report(standings[name], ahead)
		report.Process, report.Tests = r.process, r.tested(name)
		reports = append(reports, report)
	}
	slices.SortFunc(reports, func(a, b document.Report) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	if slices.EqualFunc(reports, t.reported, same) && time.Since(t.at) < document.ReportEvery {
		return
	}
	if err := r.board.Report(ctx, r.process, reports); err == nil {
		t.reported, t.at = reports, time.Now()
	}
}

// forgetTests forgets the tests of endpoints that are gone.
func (r *Remote) forgetTests(posts map[string]post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.tests, func(name string, t *tests) bool {
		_, there := posts[name]
		return !there && t.running == 0
	})
}

func (r *Remote) obey(p post, o document.Order) {
	switch o.Action {
	case document.Retry:
		if p.sink != nil {
			p.sink.standing.doubt()
			p.sink.gate.reopen()
		}
		n := p.control.Hasten(o.Account)
		r.log.Info("webhook endpoint is retried at once, as ordered", "endpoint", o.Endpoint, "accounts", n)
	case document.Refresh:
		if p.sink != nil {
			p.sink.standing.doubt()
		}
		p.control.Hasten(o.Account)
	}
}

// test makes a test, and remembers how it ended for the next reports.
func (r *Remote) test(ctx context.Context, p post, id string, now time.Time, beside func(func())) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.tests[p.name]
	if of == nil {
		of = &tests{}
		r.tests[p.name] = of
	}
	done := document.Tested{ID: id, At: now.UTC().Round(time.Second), Outcome: string(Unready)}
	var to delivery.Sink = p.sink
	if p.other != nil {
		to = p.other.Sink
	}
	testable, ok := to.(sink.Testable)
	switch {
	case p.fault != "":
		done.Why = shorten(p.fault)
	case !ok:
		done.Why = "endpoints of this type take no test events"
	case of.running >= testsMost:
		done.Why = "too many tests of the endpoint are under way"
	default:
		of.running++
		beside(func() {
			ended := testable.Test(ctx, sink.TestEvent(p.name, id, now))
			done.Outcome, done.Status, done.Why = string(ended.Outcome), ended.Status, shorten(ended.Why)
			r.mu.Lock()
			defer r.mu.Unlock()
			of.running--
			of.end(done)
		})
		return
	}
	of.end(done)
}

// end remembers how a test ended.
func (t *tests) end(done document.Tested) {
	t.ended = append(t.ended, done)
	t.ended = t.ended[max(0, len(t.ended)-testsMost):]
}

// tested returns how the last tests of an endpoint ended.
func (r *Remote) tested(name string) []document.Tested {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.tests[name]; of != nil {
		return slices.Clone(of.ended)
	}
	return nil
}

// report returns the state of an endpoint, with times by Redis' clock.
func (p post) report(standing delivery.Standing, ahead time.Duration) document.Report {
	report := document.Report{Endpoint: p.name, Most: p.most, Kinds: p.kinds, Revision: p.added}
	if p.fault != "" {
		report.Outcome, report.Why = string(Unready), shorten(p.fault)
		return report
	}
	in := func(at time.Time) time.Time {
		if at.IsZero() {
			return at
		}
		return at.Add(ahead).UTC().Round(time.Second)
	}
	if p.sink != nil {
		p.sink.record.mu.Lock()
		report.Status, report.Outcome = p.sink.record.status, string(p.sink.record.outcome)
		if report.Status == 0 {
			report.Why = shorten(p.sink.record.why)
		}
		report.At, report.Delivered = in(p.sink.record.at), in(p.sink.record.delivered)
		p.sink.record.mu.Unlock()
		breaker, until := p.sink.gate.look()
		report.Breaker, report.Until = breaker, in(until)
	} else {
		last := p.other.Last()
		report.Outcome, report.Why, report.At, report.Delivered = string(last.Outcome), shorten(last.Why), in(last.At), in(last.Delivered)
	}
	report.Accounts, report.Messages = standing.Accounts, standing.Messages
	for _, w := range standing.First[:min(len(standing.First), reportMost)] {
		waiting := document.Waiting{Account: w.Account, Shard: w.Shard, Position: w.Position, Failed: w.Failed, Behind: w.Behind, Next: in(w.Next)}
		if w.Err != nil {
			waiting.Why = shorten(w.Err.Error())
		}
		report.Waiting = append(report.Waiting, waiting)
	}
	return report
}

// same reports whether two reports have the same state. The time of a healthy endpoint's last
// answer does not matter.
func same(a, b document.Report) bool {
	return a.Endpoint == b.Endpoint && a.Status == b.Status && a.Outcome == b.Outcome && a.Why == b.Why && a.Breaker == b.Breaker && a.Until.Equal(b.Until) &&
		a.Most == b.Most && a.Accounts == b.Accounts && a.Messages == b.Messages && slices.Equal(a.Waiting, b.Waiting) && slices.Equal(a.Kinds, b.Kinds) && a.Revision == b.Revision && slices.Equal(a.Tests, b.Tests)
}

func shorten(text string) string {
	if len(text) > whyMost {
		return strings.ToValidUTF8(text[:whyMost], "")
	}
	return text
}
