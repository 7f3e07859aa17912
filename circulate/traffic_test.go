package circulate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// traffic has one worker for each shard, which claims accounts and returns them at once,
// each with its own message, whatever happens to Redis meanwhile.
type traffic struct {
	ring *circulate.Ring

	mu       sync.Mutex
	turns    []int // written turns, by shard
	unknown  int
	refused  map[string]int // by code
	messages map[string]bool
	end      context.CancelFunc
	workers  sync.WaitGroup
}

// startTraffic registers accounts, ten for each shard, and starts the workers.
func startTraffic(t *testing.T, ring *circulate.Ring) *traffic {
	t.Helper()
	perShard := make([]int, ring.Shards())
	for i := 0; ; i++ {
		id := fmt.Sprint("account", i)
		if shard := ring.ShardOf(id); perShard[shard] < 10 {
			perShard[shard]++
			register(t, ring, id)
		}
		full := true
		for _, n := range perShard {
			full = full && n == 10
		}
		if full {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	tr := &traffic{ring: ring, turns: make([]int, ring.Shards()), refused: make(map[string]int), messages: make(map[string]bool), end: cancel}
	for shard := range ring.Shards() {
		tr.workers.Go(func() {
			for ctx.Err() == nil {
				if err := tr.turn(ctx, t, shard); err != nil && ctx.Err() == nil {
					tr.failed(t, err)
					<-time.After(5 * time.Millisecond) // real Redis, real time: do not spin
				}
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

func (tr *traffic) stop() {
	tr.end()
	tr.workers.Wait()
}

func (tr *traffic) turn(ctx context.Context, t *testing.T, shard int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	b, err := tr.ring.Claim(ctx, shard, fmt.Sprintf("worker%04d", shard), 3, 0)
	if err != nil || len(b.Claims) == 0 {
		return err
	}
	items := make([]circulate.Return, len(b.Claims))
	for i := range b.Claims {
		c := &b.Claims[i]
		items[i] = circulate.Return{Claim: c, Messages: []circulate.Message{{ID: c.ID + "/" + c.Ticket()}}, Cursor: []byte(c.Ticket())}
	}
	for {
		outcomes, err := tr.ring.Return(ctx, shard, items)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			tr.failed(t, err)
			<-time.After(5 * time.Millisecond)
			continue
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for i, outcome := range outcomes {
			if outcome == circulate.Written {
				tr.turns[shard]++
				tr.messages[items[i].Messages[0].ID] = true
			}
		}
		return nil
	}
}

func (tr *traffic) failed(t *testing.T, err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !circulate.Unavailable(err) {
		t.Errorf("neither done nor unavailable: %v", err)
	}
	if circulate.Unknown(err) {
		tr.unknown++
		return
	}
	var reply redis.Error
	code := "not sent"
	if errors.As(err, &reply) {
		_, _ = fmt.Sscan(string(reply), &code)
	}
	tr.refused[code]++
}

// goesOn waits until each shard has had more turns.
func (tr *traffic) goesOn(t *testing.T) {
	t.Helper()
	tr.mu.Lock()
	before := append([]int(nil), tr.turns...)
	tr.mu.Unlock()
	deadline := time.After(20 * time.Second)
	for {
		tr.mu.Lock()
		waiting := false
		for shard, n := range tr.turns {
			waiting = waiting || n < before[shard]+20
		}
		tr.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-deadline:
			tr.mu.Lock()
			defer tr.mu.Unlock()
			t.Fatalf("some shard stands still: %v, before %v; refused %v", tr.turns, before, tr.refused)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settle ends the traffic and expects the law to hold: each account in one place, each
// message once. If Redis forgets nothing, no message may be missing.
func (tr *traffic) settle(t *testing.T, server redistest.Redis, forgets bool) {
	t.Helper()
	tr.stop()
	t.Logf("turns %v, of unknown outcome %d, refused %v", tr.turns, tr.unknown, tr.refused)
	expectLaw(t, server, tr.ring, 10*tr.ring.Shards())
	requeueAll(t, tr.ring)
	claimed := make(map[string]int)
	stream := make(map[string]int)
	for shard := range tr.ring.Shards() {
		b, err := tr.ring.Claim(t.Context(), shard, alice, 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Claims {
			claimed[b.Claims[i].ID]++
		}
		found, err := tr.ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			stream[f.Message.ID]++
		}
	}
	if len(claimed) != 10*tr.ring.Shards() {
		t.Errorf("%d accounts can be claimed, want %d", len(claimed), 10*tr.ring.Shards())
	}
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("%q was claimed %d times", id, n)
		}
	}
	for id, n := range stream {
		if n != 1 {
			t.Errorf("message %q is there %d times", id, n)
		}
	}
	if forgets {
		return
	}
	for id := range tr.messages {
		if stream[id] == 0 {
			t.Errorf("message %q was written and is not there", id)
		}
	}
}
