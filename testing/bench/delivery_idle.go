package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
)

const (
	commitEvery = 20 * time.Millisecond // on average, over all streams
	settleIdle  = 3 * time.Second       // from the start of a consumer until it has its shards
)

// idle measures a consumer that has nothing to do: what it costs, and then how soon its
// handler gets a message that a check's return commits.
func (b *deliveryBench) idle(ctx context.Context, server *connect.Single) error {
	l, err := newLoad(ctx, server, "idle", fillAccounts)
	if err != nil {
		return err
	}
	if err := l.queueAll(ctx); err != nil {
		return err
	}
	var latencies latencies
	consuming, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- delivery.Consumer{Ring: l.ring, Group: "bench", Handler: &latencies}.Run(consuming)
	}()
	if err := pause(ctx, settleIdle); err != nil {
		return err
	}
	before, err := commandCalls(server)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, idleFor); err != nil { // twice the time between two looks of a consumer at its lag
		return err
	}
	after, err := commandCalls(server)
	if err != nil {
		return err
	}
	b.report.figure("idle_commands_per_s", (after-before)/time.Since(began).Seconds(), "commands/s, those of scripts among them")

	committed, err := l.trickle(ctx, b.each)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil { // the last are on their way
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return latencies.tell(b.report, committed)
}

// trickle has an account return a message from time to time, at random, each with the
// time just before its commit. It returns how many.
func (l *load) trickle(ctx context.Context, d time.Duration) (committed int, err error) {
	for end := time.Now().Add(d); time.Now().Before(end); committed++ {
		if err := pause(ctx, time.Duration(rand.ExpFloat64()*float64(commitEvery))); err != nil {
			return committed, err
		}
		shard := rand.IntN(l.ring.Shards())
		batch, err := l.ring.Claim(ctx, shard, "benchmark0", 1, l.records.Known(shard))
		if err != nil {
			return committed, err
		}
		if len(batch.Claims) != 1 {
			return committed, fmt.Errorf("shard %d has no account to claim", shard)
		}
		found := circulate.Message{ID: strconv.Itoa(committed), Type: "text", Data: strconv.AppendInt(nil, time.Now().UnixNano(), 10)}
		if _, err := l.ring.Return(ctx, shard, []circulate.Return{{Claim: &batch.Claims[0], Kind: "bench", Messages: []circulate.Message{found}}}); err != nil {
			return committed, err
		}
	}
	return committed, nil
}

// latencies is a handler that records how long ago each message was committed.
type latencies struct {
	mu sync.Mutex
	ms []float64
}

// Handle records them.
func (l *latencies) Handle(_ context.Context, batch []delivery.Delivery) []error {
	now := time.Now().UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range batch {
		at, _ := strconv.ParseInt(string(d.Message.Data), 10, 64) // trickle wrote it
		l.ms = append(l.ms, float64(now-at)/1e6)
	}
	return nil
}

func (l *latencies) tell(r reporter, committed int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ms) != committed || committed == 0 {
		return fmt.Errorf("%d messages were committed, %d handled", committed, len(l.ms))
	}
	r.quantile("idle_latency_p%.0f_ms", l.ms, 0.5, "ms")
	r.quantile("idle_latency_p%.0f_ms", l.ms, 0.99, "ms")
	r.figure("idle_latency_worst_ms", slices.Max(l.ms), "ms")
	return nil
}

// commandCalls returns how many commands the server has run, counting each script and
// each command that a script called.
func commandCalls(server *connect.Single) (float64, error) {
	stats, err := infoOf(server, "commandstats")
	if err != nil {
		return 0, err
	}
	var sum float64
	for name, stat := range stats {
		calls, _, ok := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		if !ok {
			return 0, fmt.Errorf("info commandstats: %s: %q", name, stat)
		}
		n, err := strconv.ParseFloat(calls, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// flush deletes everything that the server holds.
func flush(server *connect.Single) error {
	conn, err := server.Conn(context.Background(), "")
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := redis.String(conn.Do("FLUSHALL"))
	if err == nil && reply != "OK" {
		err = errors.New(reply)
	}
	return err
}
