package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// bareSubject is the pattern without tickets and scripts: RPOPLPUSH to claim; MULTI,
// LREM, LPUSH, EXEC to return. With several pairs of lists it shows the gain of sharding,
// and with batches that of batching: the RPOPLPUSHes of a batch go in one pipeline, its
// returns in one transaction. An entry is its account's record.
type bareSubject struct {
	spec   spec
	server connect.Server
	s      settings
	own    [][][]byte // what is held in each lane; each lane belongs to one worker
}

func (b *bareSubject) lists(n int) (queue, processing string) {
	tag := fmt.Sprintf("{bare%s:%02d}:", b.spec.Namespace, n%b.shards())
	return tag + "message_queue", tag + "processing_list"
}

func (b *bareSubject) shards() int { return max(1, b.spec.Shards) }

func (b *bareSubject) fill(ctx context.Context) error {
	var err error
	if b.server, err = connect.Open(b.spec.Redis, connect.Options{}); err != nil {
		return err
	}
	conn, err := b.server.Conn(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for n := range b.spec.Accounts {
		queue, _ := b.lists(n)
		if err := conn.Send("LPUSH", queue, payload(n, b.spec.Bytes)); err != nil {
			return err
		}
		if n%chunk == chunk-1 {
			if _, err := conn.Do(""); err != nil {
				return err
			}
		}
	}
	_, err = conn.Do("")
	return err
}

func (b *bareSubject) start(ctx context.Context, s settings) error {
	b.s, b.own = s, make([][][]byte, max(b.shards(), s.workers()))
	_, err := b.work(ctx, func(conn redis.Conn, lane int) (int, bool, error) {
		held := len(b.own[lane])
		done, err := b.turn(conn, lane, s.batch(), b.keep(lane))
		return done, len(b.own[lane]) > held && held < b.keep(lane), err
	})
	return err
}

func (b *bareSubject) stop(ctx context.Context) error {
	_, err := b.work(ctx, func(conn redis.Conn, lane int) (int, bool, error) {
		done, err := b.turn(conn, lane, 0, 0)
		return done, false, err
	})
	return err
}

// measure claims and returns for a while, with so many held at any time. It returns
// random ones of those held.
func (b *bareSubject) measure(ctx context.Context, d time.Duration) (int64, error) {
	stop := time.Now().Add(d)
	return b.work(ctx, func(conn redis.Conn, lane int) (int, bool, error) {
		if !time.Now().Before(stop) {
			return 0, false, nil
		}
		done, err := b.turn(conn, lane, b.s.batch(), b.keep(lane))
		return done, true, err
	})
}

func (b *bareSubject) keep(lane int) int {
	keep := b.s.InFlight / len(b.own)
	if lane < b.s.InFlight%len(b.own) {
		keep++
	}
	return keep
}

// work has the workers take their lanes in turns, each over its own connection, until
// none of them wants more.
func (b *bareSubject) work(ctx context.Context, turn func(conn redis.Conn, lane int) (done int, more bool, err error)) (int64, error) {
	var all atomic.Int64
	err := inParallel(b.s.workers(), func(w int) error {
		conn, err := b.server.Conn(ctx, "")
		if err != nil {
			return err
		}
		defer conn.Close()
		for more := true; more; {
			more = false
			for lane := w; lane < len(b.own); lane += b.s.workers() {
				done, again, err := turn(conn, lane)
				if err != nil {
					return err
				}
				all.Add(int64(done))
				more = more || again
			}
		}
		return nil
	})
	return all.Load(), err
}

// turn claims from a lane's list and returns as many as exceed keep.
func (b *bareSubject) turn(conn redis.Conn, lane, claim, keep int) (done int, err error) {
	queue, processing := b.lists(lane)
	for range claim {
		if err := conn.Send("RPOPLPUSH", queue, processing); err != nil {
			return 0, err
		}
	}
	if err := conn.Flush(); err != nil {
		return 0, err
	}
	for range claim {
		entry, err := redis.Bytes(conn.Receive())
		if errors.Is(err, redis.ErrNil) {
			continue // the list is empty
		}
		if err != nil {
			return 0, err
		}
		b.own[lane] = append(b.own[lane], entry)
	}
	for held := b.own[lane]; len(held) > keep; held = b.own[lane] {
		n := min(len(held)-keep, b.s.batch())
		for range n {
			i, last := rand.IntN(len(held)), len(held)-1
			held[i], held[last] = held[last], held[i]
			held = held[:last]
		}
		if err := giveBack(conn, queue, processing, b.own[lane][len(held):]); err != nil {
			return done, err
		}
		b.own[lane] = held
		done += n
	}
	return done, nil
}

func giveBack(conn redis.Conn, queue, processing string, entries [][]byte) error {
	if err := conn.Send("MULTI"); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := errors.Join(conn.Send("LREM", processing, -1, entry), conn.Send("LPUSH", queue, entry)); err != nil {
			return err
		}
	}
	results, err := redis.Ints(conn.Do("EXEC"))
	if err != nil {
		return err
	}
	for i := 0; i < len(results); i += 2 {
		if results[i] != 1 {
			return errors.New("an entry that was claimed is not in processing_list")
		}
	}
	return nil
}
