package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const (
	asynqTask    = "check"
	asynqQueue   = "default"
	asynqFillers = 32
)

// asynqSubject is whole asynq servers whose handler only enqueues its payload again.
// Nothing is retained.
type asynqSubject struct {
	spec    spec
	redis   asynq.RedisClientOpt
	client  *asynq.Client
	servers []*asynq.Server
	hold    *hold
	done    atomic.Int64
}

// queue returns the n-th task's queue: there is one, or there are several of one weight.
func (a *asynqSubject) queue(n int) string {
	if a.spec.Queues <= 1 {
		return asynqQueue
	}
	return fmt.Sprintf("%s%d-%d", asynqQueue, a.spec.Queues, n%a.spec.Queues)
}

func (a *asynqSubject) queues() map[string]int {
	all := make(map[string]int)
	for n := range max(1, a.spec.Queues) {
		all[a.queue(n)] = 1
	}
	return all
}

func (a *asynqSubject) fill(ctx context.Context) error {
	a.redis = asynq.RedisClientOpt{Addr: strings.TrimPrefix(a.spec.Redis, "redis://"), PoolSize: asynqFillers}
	client := asynq.NewClient(a.redis)
	defer client.Close()
	var next atomic.Int64
	return inParallel(asynqFillers, func(int) error {
		for n := next.Add(1) - 1; n < int64(a.spec.Accounts); n = next.Add(1) - 1 {
			if _, err := client.EnqueueContext(ctx, asynq.NewTask(asynqTask, payload(int(n), a.spec.Bytes)), asynq.Queue(a.queue(int(n)))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *asynqSubject) start(ctx context.Context, s settings) error {
	a.redis.PoolSize = s.Pool
	a.client, a.hold, a.servers = asynq.NewClient(a.redis), &hold{n: s.InFlight}, nil
	for range s.Servers {
		server := asynq.NewServer(a.redis, asynq.Config{
			Concurrency: s.Concurrency + s.InFlight/s.Servers, LogLevel: asynq.FatalLevel,
			Queues:            a.queues(),
			TaskCheckInterval: 10 * time.Millisecond, // so that it does not wait long after it found nothing
		})
		if err := server.Start(asynq.HandlerFunc(a.handle)); err != nil {
			return err
		}
		a.servers = append(a.servers, server)
	}
	// The tasks that should be in flight must be in flight first.
	return await(ctx, "asynq holds what it is to hold", func() (bool, error) { return a.hold.full(), nil })
}

func (a *asynqSubject) handle(ctx context.Context, t *asynq.Task) error {
	a.hold.wait()
	queue, _ := asynq.GetQueueName(ctx) // a handler's context always has it
	if _, err := a.client.EnqueueContext(ctx, asynq.NewTask(t.Type(), t.Payload()), asynq.Queue(queue)); err != nil {
		return err
	}
	a.done.Add(1)
	return nil
}

func (a *asynqSubject) measure(ctx context.Context, d time.Duration) (int64, error) {
	before := a.done.Load()
	err := pause(ctx, d)
	return a.done.Load() - before, err
}

func (a *asynqSubject) stop(context.Context) error {
	for _, s := range a.servers {
		s.Stop() // process no more tasks
	}
	a.hold.open()
	for _, s := range a.servers {
		s.Shutdown()
	}
	return a.client.Close()
}

// hold keeps n handlers waiting. Each new one releases another, picked at random.
type hold struct {
	n       int
	mu      sync.Mutex
	waiting []chan struct{}
	opened  bool
}

func (h *hold) wait() {
	h.mu.Lock()
	if h.n == 0 || h.opened {
		h.mu.Unlock()
		return
	}
	own := make(chan struct{})
	h.waiting = append(h.waiting, own)
	if len(h.waiting) > h.n {
		i, last := rand.IntN(len(h.waiting)), len(h.waiting)-1
		close(h.waiting[i])
		h.waiting[i] = h.waiting[last]
		h.waiting = h.waiting[:last]
	}
	h.mu.Unlock()
	<-own
}

func (h *hold) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) >= h.n
}

// open releases all of them.
func (h *hold) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = true
	for _, w := range h.waiting {
		close(w)
	}
	h.waiting = nil
}
