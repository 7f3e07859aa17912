package circulate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Records caches the decoded records of accounts that a replica claims again and again.
// Records rarely change, and reading one with every claim would cost more than the claim.
// The cache drops a record when a claim reports a change. It also drops every record
// after a fixed time. So a change that no claim reported, as after a failover that lost
// the latest writes, shows all the same.
//
// A shard must be claimed by one goroutine at a time, and its batches resolved in their
// order.
type Records[T any] struct {
	ring   *Ring
	decode func(id string, record []byte) T
	keep   time.Duration
	began  time.Time
	most   int64        // bytes
	bytes  atomic.Int64 // of all cached texts
	shards []recordShard[T]
}

type recordShard[T any] struct {
	mu     sync.Mutex
	change int64
	known  map[string]kept[T]
	limit  int
}

type kept[T any] struct {
	record T
	id     string        // a copy for claims, whose own id holds their whole batch in memory
	size   int64         // of its text; the decoded record takes about as much again
	until  time.Duration // since Records.began
}

// lookedAt is how many cached records are looked at to make room.
const lookedAt = 16

// NewRecords caches up to limit records, whose texts have up to that many bytes in all,
// each for at most keep. Decode gets nil for a missing record. Records beyond the limits
// are read at each claim.
func NewRecords[T any](ring *Ring, limit int, bytes int64, keep time.Duration, decode func(id string, record []byte) T) *Records[T] {
	r := &Records[T]{ring: ring, decode: decode, keep: keep, began: time.Now(), most: bytes, shards: make([]recordShard[T], ring.Shards())}
	for i := range r.shards {
		r.shards[i].known = make(map[string]kept[T])
		r.shards[i].limit = (limit + len(r.shards) - 1) / len(r.shards)
	}
	return r
}

// Known returns the known of the next claim of a shard.
func (r *Records[T]) Known(shard int) int64 {
	s := &r.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// Resolve returns the records of a batch's claims, in their order. It reads the records
// that are not cached from Redis. Callers may store the claims' ids afterwards. Before,
// each id holds the texts of its whole batch in memory.
func (r *Records[T]) Resolve(ctx context.Context, shard int, b *Batch) ([]T, error) {
	s := &r.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.ForgetAll {
		for _, k := range s.known {
			r.bytes.Add(-k.size)
		}
		clear(s.known)
	}
	for _, id := range b.Changed {
		r.forget(s, id)
	}
	s.change = b.Change

	now := time.Since(r.began)
	records := make([]T, len(b.Claims))
	var unknown []int
	for i := range b.Claims {
		k, ok := s.known[b.Claims[i].ID]
		if !ok || now > k.until {
			unknown = append(unknown, i)
			continue
		}
		records[i], b.Claims[i].ID = k.record, k.id
	}
	if len(unknown) == 0 {
		return records, nil
	}
	args := wire.Command{"HMGET", r.ring.keys[shard].accounts}
	for _, i := range unknown {
		args = append(args, b.Claims[i].ID)
	}
	replies, err := r.ring.wire.Pipeline(ctx, r.ring.keys[shard].accounts, args)
	if err != nil {
		return nil, fmt.Errorf("records, shard %d: %w", shard, err)
	}
	texts, err := redis.ByteSlices(replies[0], nil)
	if err != nil || len(texts) != len(unknown) {
		return nil, fmt.Errorf("records, shard %d: %w", shard, wire.ErrReply)
	}
	for j, i := range unknown {
		id := strings.Clone(b.Claims[i].ID)
		records[i], b.Claims[i].ID = r.decode(id, texts[j]), id
		r.remember(s, kept[T]{records[i], id, int64(len(texts[j])), now + r.keep}, now)
	}
	return records, nil
}

// Bytes returns how many bytes the cached texts have.
func (r *Records[T]) Bytes() int64 { return r.bytes.Load() }

func (r *Records[T]) forget(s *recordShard[T], id string) {
	r.bytes.Add(-s.known[id].size)
	delete(s.known, id)
}

// remember caches a record if there is room, or if other records have been cached for too
// long.
func (r *Records[T]) remember(s *recordShard[T], k kept[T], now time.Duration) {
	r.forget(s, k.id)
	for try := range 2 {
		if len(s.known) < s.limit {
			if r.bytes.Add(k.size) <= r.most {
				s.known[k.id] = k
				return
			}
			r.bytes.Add(-k.size)
		}
		if try == 0 {
			r.makeRoom(s, now)
		}
	}
}

// makeRoom looks at a few records and forgets those that would be read again anyway.
func (r *Records[T]) makeRoom(s *recordShard[T], now time.Duration) {
	looked := 0
	for id, k := range s.known {
		if now > k.until {
			r.forget(s, id)
		}
		if looked++; looked == lookedAt {
			return
		}
	}
}
