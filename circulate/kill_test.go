package circulate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestKilledServerKeepsWhatItAcknowledged kills Redis, under AOF always, in the middle of
// registrations, claims and returns, twice.
func TestKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF())
	server := redistest.Connect(t, process)
	a := &acknowledged{
		ring:    openRing(t, server, 4),
		ids:     make(map[string]bool),
		written: make(map[string]bool),
		tickets: make(map[int]map[string]int),
		enough:  make(chan struct{}, 1),
	}
	before := make(map[int]string) // the last ticket that a shard had issued
	for life := range 3 {
		a.work(t, life, 500, process.Kill)
		process.Restart(t)
		until(t, "check", a.ring.Check)
		a.verify(t, server, life, before)
		requeueAll(t, a.ring) // of those that were held at that moment
	}
	expectLaw(t, server, a.ring, len(places(t, server, a.ring)))
}

// acknowledged is everything that Redis has acknowledged.
type acknowledged struct {
	ring *circulate.Ring

	mu      sync.Mutex
	ids     map[string]bool
	written map[string]bool        // message ids
	tickets map[int]map[string]int // by shard, ticket and id: the life of the server
	left    int
	enough  chan struct{}
}

func (a *acknowledged) note(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	if a.left--; a.left == 0 {
		a.enough <- struct{}{}
	}
}

// work has workers go on until Redis has acknowledged n steps and then calls kill, while
// they work.
func (a *acknowledged) work(t *testing.T, life, n int, kill func()) {
	t.Helper()
	a.mu.Lock()
	a.left = n
	a.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				a.turn(ctx, t, life, worker, fmt.Sprintf("%d-%d-%d", life, worker, i))
			}
		})
	}
	select {
	case <-a.enough:
	case <-time.After(20 * time.Second):
		t.Error("too few steps were acknowledged in 20 s")
	}
	kill()
	cancel()
	workers.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.enough: // nothing waits for this one
	default:
	}
}

// turn registers an account, claims some of a shard, and returns each with a
// message.
func (a *acknowledged) turn(ctx context.Context, t *testing.T, life, worker int, id string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	refused := func(err error) bool {
		if err != nil && !circulate.Unavailable(err) {
			t.Error(err)
		}
		return err != nil
	}
	outcomes, err := a.ring.Register(ctx, a.ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte("{}")}})
	if refused(err) {
		return
	}
	if outcomes[0] != circulate.Created {
		t.Errorf("register %q: %c", id, outcomes[0])
	}
	a.note(func() { a.ids[id] = true })

	b, err := a.ring.Claim(ctx, worker, fmt.Sprintf("worker%04d", worker), 3, 0)
	if refused(err) || len(b.Claims) == 0 {
		return
	}
	items := make([]circulate.Return, len(b.Claims))
	for i := range b.Claims {
		c := &b.Claims[i]
		items[i] = circulate.Return{Claim: c, Messages: []circulate.Message{{ID: c.ID + "/" + c.Ticket()}}, Cursor: []byte(c.Ticket())}
		a.note(func() {
			if a.tickets[worker] == nil {
				a.tickets[worker] = make(map[string]int)
			}
			given := c.Ticket() + " " + c.ID
			if _, twice := a.tickets[worker][given]; twice {
				t.Errorf("ticket %s of shard %d was given out twice", given, worker)
			}
			a.tickets[worker][given] = life
		})
	}
	given, err := a.ring.Return(ctx, worker, items)
	if refused(err) {
		return
	}
	for i, outcome := range given {
		if outcome != circulate.Written {
			t.Errorf("return of %q: %v", items[i].Claim.ID, outcome)
		}
		a.note(func() { a.written[items[i].Messages[0].ID] = true })
	}
}

// verify compares Redis with what it acknowledged, in this life and those before.
func (a *acknowledged) verify(t *testing.T, server redistest.Redis, life int, before map[int]string) {
	t.Helper()
	all := places(t, server, a.ring)
	for id, in := range all {
		if len(in) != 1 {
			t.Errorf("life %d: %q is in %v", life, id, in)
		}
	}
	for id := range a.ids {
		if _, ok := all[id]; !ok {
			t.Errorf("life %d: %q was registered and is not there", life, id)
		}
	}
	stream := make(map[string]int)
	for shard := range a.ring.Shards() {
		found, err := a.ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			stream[f.Message.ID]++
		}
		highest := before[shard]
		for given, of := range a.tickets[shard] {
			ticket, _, _ := strings.Cut(given, " ")
			if of == life && ticket <= before[shard] {
				t.Errorf("life %d: ticket %s of shard %d, and before the restart there was %s", life, ticket, shard, before[shard])
			}
			highest = max(highest, ticket)
		}
		before[shard] = highest
	}
	for id := range a.written {
		if stream[id] == 0 {
			t.Errorf("life %d: message %q was written and is not there", life, id)
		}
	}
	for id, n := range stream {
		if n > 1 {
			t.Errorf("life %d: message %q is there %d times", life, id, n)
		}
	}
	t.Logf("life %d: %d registrations and %d messages acknowledged; %d and %d are there", life, len(a.ids), len(a.written), len(all), len(stream))
}
