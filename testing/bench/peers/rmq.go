package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/adjust/rmq/v5"
)

const (
	rmqQueue = "accounts"
	rmqPoll  = time.Millisecond // between two looks for deliveries
)

// rmqSubject is rmq's consumers, which publish each delivery again before they
// acknowledge it.
type rmqSubject struct {
	spec        spec
	connections []rmq.Connection
	queues      []rmq.Queue // of the run
	s           settings
	errs        chan error
	done        atomic.Int64
	faults      atomic.Int64

	mu   sync.Mutex
	held []rmq.Delivery

	working sync.RWMutex // held for reading while a delivery is published and acknowledged
	stopped bool
}

func (r *rmqSubject) fill(context.Context) error {
	r.errs = make(chan error)
	go func() {
		for range r.errs { // as long as the process lives
			r.faults.Add(1)
		}
	}()
	each := (r.spec.Accounts + r.queueCount() - 1) / r.queueCount()
	for q := range r.queueCount() {
		queue, err := r.queue(0, q)
		if err != nil {
			return err
		}
		for n := q * each; n < min((q+1)*each, r.spec.Accounts); n += chunk {
			var part [][]byte
			for i := n; i < min(n+chunk, (q+1)*each, r.spec.Accounts); i++ {
				part = append(part, payload(i, r.spec.Bytes))
			}
			if err := queue.PublishBytes(part...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rmqSubject) queueCount() int { return max(1, r.spec.Queues) }

// queue opens the q-th queue again over the i-th connection: a queue that has stopped
// must not be used again.
func (r *rmqSubject) queue(i, q int) (rmq.Queue, error) {
	for len(r.connections) <= i {
		c, err := rmq.OpenConnection("bench", "tcp", strings.TrimPrefix(r.spec.Redis, "redis://"), 0, r.errs)
		if err != nil {
			return nil, err
		}
		r.connections = append(r.connections, c)
	}
	name := rmqQueue
	if r.queueCount() > 1 {
		name = fmt.Sprintf("%s%d-%d", rmqQueue, r.queueCount(), q%r.queueCount())
	}
	return r.connections[i].OpenQueue(name)
}

func (r *rmqSubject) start(ctx context.Context, s settings) error {
	r.s, r.queues, r.held, r.stopped = s, nil, nil, false
	// Every connection has a queue, and every queue has a connection.
	readers := max(s.Servers, r.queueCount())
	for i := range readers {
		queue, err := r.queue(i%s.Servers, i)
		if err != nil {
			return err
		}
		if err := queue.StartConsuming(int64(s.Pool+(s.InFlight+readers-1)/readers), rmqPoll); err != nil {
			return err
		}
		for range s.Concurrency {
			if _, err := queue.AddConsumerFunc("bench", func(d rmq.Delivery) { r.consume(queue, d) }); err != nil {
				return err
			}
		}
		r.queues = append(r.queues, queue)
	}
	return await(ctx, "rmq holds what it is to hold", func() (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.held) >= s.InFlight, nil
	})
}

// consume works on a delivery, or keeps it and works on another that was kept.
func (r *rmqSubject) consume(queue rmq.Queue, d rmq.Delivery) {
	if r.s.InFlight > 0 {
		r.mu.Lock()
		r.held = append(r.held, d)
		if len(r.held) <= r.s.InFlight {
			r.mu.Unlock()
			return
		}
		i, last := rand.IntN(len(r.held)), len(r.held)-1
		d, r.held[i] = r.held[i], r.held[last]
		r.held = r.held[:last]
		r.mu.Unlock()
	}
	r.working.RLock()
	defer r.working.RUnlock()
	if r.stopped {
		return
	}
	if queue.Publish(d.Payload()) != nil || d.Ack() != nil {
		r.faults.Add(1)
		return
	}
	r.done.Add(1)
}

func (r *rmqSubject) measure(ctx context.Context, d time.Duration) (int64, error) {
	before, faults := r.done.Load(), r.faults.Load()
	err := pause(ctx, d)
	if n := r.faults.Load() - faults; n > 0 && err == nil {
		err = fmt.Errorf("%d calls failed", n)
	}
	return r.done.Load() - before, err
}

// stop ends the consumers and puts back what they held. None may be between publishing
// and acknowledging: rmq stops acknowledging when it stops, and the delivery would be
// there twice.
func (r *rmqSubject) stop(ctx context.Context) error {
	r.working.Lock()
	r.stopped = true
	r.working.Unlock()
	for _, queue := range r.queues {
		<-queue.StopConsuming()
		// Its reader may be in the middle of a call, and does not report when that ends.
		if err := pause(ctx, 10*rmqPoll); err != nil {
			return err
		}
		if _, err := queue.ReturnUnacked(math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}
