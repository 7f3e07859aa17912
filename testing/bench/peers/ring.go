package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

const (
	batch       = 128
	ringWorkers = 4
)

// ringSubject is claim and return: the ring alone, without checks.
type ringSubject struct {
	spec    spec
	server  connect.Server
	ring    *circulate.Ring
	records *circulate.Records[int]
	s       settings
	own     [][]circulate.Claim // what is held in each lane; each lane belongs to one worker
}

// fill registers the accounts and has each checked once, which leaves it a cursor of 13
// bytes. They rest in the schedule until start.
func (r *ringSubject) fill(ctx context.Context) error {
	var err error
	if r.server, err = connect.Open(r.spec.Redis, connect.Options{}); err != nil {
		return err
	}
	if r.ring, err = circulate.Open(ctx, r.server, circulate.Options{Namespace: r.spec.Namespace, Shards: r.spec.Shards}); err != nil {
		return err
	}
	r.records = circulate.NewRecords(r.ring, 2*r.spec.Accounts, 1<<40, 24*time.Hour, func(_ string, text []byte) int { return len(text) })
	text := func(n int) []byte { return record(n, r.spec.Bytes, "noop", "every 60s", "") }
	if err := register(ctx, r.ring, r.spec.Accounts, text, func(int) time.Time { return time.Time{} }); err != nil {
		return err
	}
	inAnHour := time.Now().Add(time.Hour)
	return eachShard(r.ring, func(shard int) error {
		return r.pass(ctx, shard, func(it *circulate.Return) { it.Due, it.Cursor = inAnHour, []byte("1795226313819") })
	})
}

// pass claims every waiting account of a shard once and returns it as give says.
func (r *ringSubject) pass(ctx context.Context, shard int, give func(*circulate.Return)) error {
	var held []circulate.Return
	for more := true; more; {
		b, err := r.claim(ctx, shard, "benchmark0", circulate.MaxBatch)
		if err != nil {
			return err
		}
		for i := range b.Claims {
			held = append(held, circulate.Return{Claim: &b.Claims[i]})
			give(&held[len(held)-1])
		}
		more = b.More
	}
	for items := range slices.Chunk(held, circulate.MaxBatch) {
		if _, err := r.ring.Return(ctx, shard, items); err != nil {
			return err
		}
	}
	return nil
}

func (r *ringSubject) claim(ctx context.Context, shard int, replica string, n int) (circulate.Batch, error) {
	b, err := r.ring.Claim(ctx, shard, replica, n, r.records.Known(shard))
	if err == nil {
		_, err = r.records.Resolve(ctx, shard, &b)
	}
	return b, err
}

// start makes what is scheduled due and puts it into message_queue, where the tight ring
// has its accounts. It also claims what should be held.
func (r *ringSubject) start(ctx context.Context, s settings) error {
	// A lane is a shard. If there are more workers than shards, workers share them.
	r.s, r.own = s, make([][]circulate.Claim, max(r.ring.Shards(), s.workers()))
	err := eachShard(r.ring, func(shard int) error {
		key := r.ring.Tag(shard) + ":schedule"
		conn, err := r.server.Conn(ctx, key)
		if err != nil {
			return err
		}
		defer conn.Close()
		n, err := conn.Do("ZUNIONSTORE", key, 1, key, "WEIGHTS", 0)
		if err != nil || n == int64(0) {
			return err
		}
		return r.pass(ctx, shard, func(*circulate.Return) {})
	})
	if err != nil {
		return err
	}
	_, err = r.work(func(t *turns, lane int) (bool, error) {
		held := len(r.own[lane])
		if err := t.turn(ctx, lane, s.batch(), r.keep(lane)); err != nil {
			return false, err
		}
		return len(r.own[lane]) > held && held < r.keep(lane), nil
	})
	return err
}

// stop returns what is held.
func (r *ringSubject) stop(ctx context.Context) error {
	_, err := r.work(func(t *turns, lane int) (bool, error) { return false, t.turn(ctx, lane, 0, 0) })
	return err
}

// measure claims and returns for a while, with so many claims held at any time, and
// counts the returns that were written. It returns random ones of those held.
func (r *ringSubject) measure(ctx context.Context, d time.Duration) (int64, error) {
	stop := time.Now().Add(d)
	return r.work(func(t *turns, lane int) (bool, error) {
		if !time.Now().Before(stop) {
			return false, nil
		}
		return true, t.turn(ctx, lane, r.s.batch(), r.keep(lane))
	})
}

// work has the workers take their lanes in turns until none of them wants more, and
// counts the returns that were written.
func (r *ringSubject) work(turn func(t *turns, lane int) (more bool, err error)) (int64, error) {
	var done atomic.Int64
	err := inParallel(r.s.workers(), func(w int) error {
		t := &turns{ringSubject: r, replica: fmt.Sprintf("bench%05d", w), items: make([]circulate.Return, 0, r.s.batch())}
		defer func() { done.Add(t.done) }()
		for more := true; more; {
			more = false
			for lane := w; lane < len(r.own); lane += r.s.workers() {
				again, err := turn(t, lane)
				if err != nil {
					return err
				}
				more = more || again
			}
		}
		return nil
	})
	return done.Load(), err
}

// keep is a lane's part of what is held.
func (r *ringSubject) keep(lane int) int {
	keep := r.s.InFlight / len(r.own)
	if lane < r.s.InFlight%len(r.own) {
		keep++
	}
	return keep
}

// turns is the work of one worker.
type turns struct {
	*ringSubject
	replica string
	items   []circulate.Return
	done    int64
}

// turn claims accounts of a lane's shard and returns as many of the lane's as exceed
// keep. Workers that share a shard share its records as well: no record changes here.
func (t *turns) turn(ctx context.Context, lane, claim, keep int) error {
	shard := lane % t.ring.Shards()
	var now time.Time
	if claim > 0 {
		b, err := t.claim(ctx, shard, t.replica, claim)
		if err != nil {
			return err
		}
		t.own[lane], now = append(t.own[lane], b.Claims...), b.Now
	}
	held := t.own[lane]
	for len(held) > keep {
		t.items = t.items[:0]
		for len(held) > keep && len(t.items) < t.s.batch() {
			i, last := rand.IntN(len(held)), len(held)-1
			held[i], held[last] = held[last], held[i]
			t.items = append(t.items, circulate.Return{Claim: &held[last]})
			give(&t.items[len(t.items)-1], t.s.Give, now)
			held = held[:last]
		}
		outcomes, err := t.ring.Return(ctx, shard, t.items)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if o == circulate.Written {
				t.done++
			}
		}
	}
	t.own[lane] = held
	return nil
}

// give decides where an account is returned to: message_queue at once, the schedule for a
// moment, or message_queue with a cursor and a message.
func give(it *circulate.Return, how string, now time.Time) {
	switch how {
	case "later":
		it.Due = now.Add(20 * time.Millisecond) // not due before the step ends
	case "news":
		it.Kind, it.Cursor = "noop", []byte("1795226313820")
		it.Messages = []circulate.Message{{ID: "m", Type: "text", Data: []byte(`{"text":"hello"}`)}}
	}
}
