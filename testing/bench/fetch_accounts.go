package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// pass makes the next accounts due, n of the first of them, spread over a time, and waits until
// all are checked.
func (b *fetchBench) pass(ctx context.Context, n, of int, spread time.Duration) error {
	conn, err := b.server.Conn(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := b.back(ctx, conn); err != nil {
		return err
	}
	calls, err := b.calls()
	if err != nil {
		return err
	}
	now, err := b.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	now = now.Add(500 * time.Millisecond) // all are in the schedule by then
	byShard := make([]redis.Args, b.ring.Shards())
	for i := range n {
		id := fetchID((b.next + i) % of)
		shard := b.ring.ShardOf(id)
		byShard[shard] = append(byShard[shard], now.Add(spread*time.Duration(i)/time.Duration(n)).UnixMilli(), id)
	}
	b.next = (b.next + n) % of
	for shard, all := range byShard {
		if len(all) == 0 {
			continue
		}
		// The due time itself, as if it had come by its cadence.
		if _, err := conn.Do("ZADD", append(redis.Args{b.ring.Tag(shard) + ":schedule", "XX"}, all...)...); err != nil {
			return err
		}
		// What is due earlier than was known is told.
		if err := b.ring.Account(all[1].(string)).Nudge(ctx, circulate.Nudge{}); err != nil {
			return err
		}
	}
	return b.settled(ctx, calls+n)
}

// back waits until all accounts are in the schedule.
func (b *fetchBench) back(ctx context.Context, conn redis.Conn) error {
	for end := time.Now().Add(fetchWait); ; {
		n := 0
		for shard := range b.ring.Shards() {
			some, err := redis.Int(conn.Do("ZCARD", b.ring.Tag(shard)+":schedule"))
			if err != nil {
				return err
			}
			n += some
		}
		if n == b.accounts {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d accounts are scheduled", n, b.accounts)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// calls returns how many calls the fake was asked so far.
func (b *fetchBench) calls() (int, error) {
	var stats fetchStats
	err := b.fake.ask("stats", &stats)
	return stats.Calls, err
}

// settled waits until the fake was asked so many calls.
func (b *fetchBench) settled(ctx context.Context, calls int) error {
	for end := time.Now().Add(fetchWait); ; {
		n, err := b.calls()
		if err != nil || n >= calls {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d calls were made", n, calls)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// register registers the accounts, due at once, of which every second one is a feed.
func (b *fetchBench) register(ctx context.Context, port int) error {
	byShard := make(map[int][]circulate.Registration)
	for i := range b.accounts {
		id := fetchID(i)
		kind := "feed"
		if !isFeed(i) {
			kind = "http"
		}
		record := fmt.Appendf(nil, `{"id":%q,"kind":%q,"config":{"url":%q},"cadence":"every 24h"}`, id, kind, fetchURL(port, i, b.hosts))
		shard := b.ring.ShardOf(id)
		byShard[shard] = append(byShard[shard], circulate.Registration{ID: id, Record: record})
	}
	for shard, all := range byShard {
		for some := range slices.Chunk(all, circulate.MaxBatch) {
			if _, err := b.ring.Register(ctx, shard, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// failures returns how many checks have failed.
func (b *fetchBench) failures(ctx context.Context) (uint64, error) {
	if err := pause(ctx, 3*time.Second); err != nil { // the replica has reported since
		return 0, err
	}
	all, err := reports(ctx, b.ring)
	if err != nil {
		return 0, err
	}
	var n uint64
	for _, r := range all {
		if r.Totals != nil {
			n += r.Totals.Failures
		}
	}
	return n, nil
}

func fetchID(i int) string { return fmt.Sprintf("fetch-%06d", i) }

// isFeed reports whether an account is a feed, or else a connector.
func isFeed(i int) bool { return i%2 == 0 }

// fetchURL returns where an account is fetched from: accounts of a host follow each other by as
// many as there are hosts, so that two of one host are seldom checked at once.
func fetchURL(port, i, hosts int) string {
	host := i % hosts
	return fmt.Sprintf("https://127.%d.%d.%d:%d/accounts/%d", 1+host/250/250, 1+host/250%250, 1+host%250, port, i)
}
