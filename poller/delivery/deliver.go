package delivery

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// deliver hands over a batch and settles the result. pending has the delivery counts of messages
// that are delivered again.
func (s *session) deliver(batch group.Batch, pending []group.Pending) {
	s.failures = 0
	attempts := make(map[string]int, len(pending))
	for _, p := range pending {
		attempts[p.Position] = p.Deliveries
	}
	received := time.Now()
	deliveries := make([]Delivery, 0, len(batch.Messages))
	for _, f := range batch.Messages {
		attempt := attempts[f.Position]
		if attempt == 0 {
			attempt = 1
		}
		if line := s.lineOf(f); s.held.has(line) {
			s.held.add(line, group.Pending{Position: f.Position, Deliveries: attempt})
			continue
		}
		deliveries = append(deliveries, s.delivery(f, attempt))
	}
	if len(deliveries)+len(batch.Others) > 0 {
		s.handle(deliveries, batch.Now, received, batch.Others)
	}
}

// lineOf names the line that a message waits in: its account, or itself if order means nothing.
func (g *member) lineOf(f circulate.Found) string {
	if g.Unordered {
		return f.Position
	}
	return f.Account
}

func (s *session) delivery(f circulate.Found, attempt int) Delivery {
	d := Delivery{Found: f, Group: s.Group, Attempt: attempt}
	if !f.Event {
		d.Handle = s.Ring.ShardName(f.Shard).Handle(f.Position)
	}
	return d
}

// retry delivers the held messages that are due, and reports whether there were any.
func (s *session) retry() bool {
	if next := s.due(); next.IsZero() || next.After(time.Now()) {
		return false
	}
	if !s.takeSlot() {
		return true
	}
	defer s.giveSlot()
	most := s.Batch
	if s.away != "" {
		done, may := s.outages.probe(s.away)
		if !may {
			return true // another session probes the target
		}
		defer done()
		most = 1
	}
	taken, accounts := s.held.take(time.Now(), most)
	again := make([]group.Pending, len(taken))
	attempts := make(map[string]int, len(taken))
	for i, p := range taken {
		again[i], attempts[p.Position] = p.Pending, p.Deliveries
	}
	batch, came, err := s.redeliver(again)
	if err != nil {
		// Read everything pending again, because only Redis knows which messages were redelivered.
		s.held.clear()
		s.doubt()
		s.trouble("redeliver", err)
		return true
	}
	s.held.untake(taken[came:])
	deliveries := make([]Delivery, len(batch.Messages))
	for i, f := range batch.Messages {
		deliveries[i] = s.delivery(f, attempts[f.Position])
	}
	var failed map[string]bool
	if len(deliveries) > 0 {
		failed = s.handle(deliveries, batch.Now, time.Now(), batch.Others)
	}
	s.held.settled(accounts, failed, time.Now())
	return true
}

// handle calls the handler, with parts of the batch side by side, and settles the result. It
// returns the accounts that failed.
func (s *session) handle(deliveries []Delivery, redisNow, received time.Time, others []string) map[string]bool {
	waited := time.Since(received)
	for i := range deliveries {
		if deliveries[i].Attempt == 1 {
			s.meters.latency.Observe((redisNow.Sub(writtenAt(deliveries[i].Position)) + waited).Seconds())
		}
	}
	s.record(deliveries)
	errs, panicked, ok := s.call(deliveries)
	s.recorded(deliveries, errs)
	if !ok {
		return nil
	}
	failed := s.settle(deliveries, errs, panicked, others)
	s.noteDelays(deliveries, errs, redisNow.Add(time.Since(received)))
	return failed
}

// call calls the handler. ok is false if a handler does not return long after its context is done.
// Then the shard is left to another consumer, and the handler keeps its slot until it returns.
func (s *session) call(batch []Delivery) (errs []error, panicked, ok bool) {
	if len(batch) == 0 {
		return nil, false, true
	}
	parts := make([][]int, s.Parallel)
	for i := range batch {
		part := 0
		if s.Parallel > 1 {
			part = int(maphash.String(s.seed, s.lineOf(batch[i].Found)) % uint64(s.Parallel))
		}
		parts[part] = append(parts[part], i)
	}
	ctx, cancel := context.WithTimeout(s.work, s.HandlerTimeout)
	type answers struct {
		errs     []error
		panicked bool
	}
	done := make(chan answers, 1)
	var verdict atomic.Int32 // the first to set it decides: 1 returned, 2 given up
	go func() {
		defer cancel()
		a := answers{errs: make([]error, len(batch))}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, part := range parts {
			if len(part) == 0 {
				continue
			}
			all.Go(func() {
				some := make([]Delivery, len(part))
				for k, i := range part {
					some[k] = batch[i]
				}
				answered, p := s.contain(ctx, some)
				mu.Lock()
				defer mu.Unlock()
				a.panicked = a.panicked || p
				for k, i := range part {
					a.errs[i] = answered[k]
				}
			})
		}
		all.Wait()
		done <- a
		if !verdict.CompareAndSwap(0, 1) {
			<-s.slots
			s.hanging.remove(s.shard)
			s.meters.stuck.Dec()
			s.Log.Warn("handler returned after all", "shard", s.shard)
		}
	}()
	select {
	case a := <-done:
		return a.errs, a.panicked, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.errs, a.panicked, true
	case <-timer.C:
	}
	if !verdict.CompareAndSwap(0, 2) {
		a := <-done
		return a.errs, a.panicked, true
	}
	s.stuck = true
	s.hanging.add(s.shard)
	s.meters.stuck.Inc()
	s.meters.givenUp.Inc()
	s.Log.Error("handler does not return although its context is done; its shard is left to other consumers", "shard", s.shard, "messages", len(batch))
	return nil, false, false
}

var errAnswer = errors.New("the handler did not answer for each message")

// contain calls the handler and turns a panic into an error.
func (s *session) contain(ctx context.Context, batch []Delivery) (errs []error, panicked bool) {
	defer func() {
		if value := recover(); value != nil {
			errs, panicked = repeat(&panicError{value: value, stack: debug.Stack()}, len(batch)), true
		}
		s.tellPanic(errs)
	}()
	errs = s.Handler.Handle(ctx, batch)
	switch len(errs) {
	case len(batch):
	case 0:
		errs = make([]error, len(batch))
	default:
		errs = repeat(errAnswer, len(batch))
	}
	return errs, false
}

// tellPanic counts and logs the first panic of a batch.
func (s *session) tellPanic(errs []error) {
	for _, err := range errs {
		if p, ok := errors.AsType[panicked](err); ok {
			s.meters.panics.Inc()
			s.Log.Error("handler panicked", "shard", s.shard, "error", p, "stack", string(p.PanicStack()))
			return
		}
	}
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
