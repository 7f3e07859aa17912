package monitor_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// telling is a Redis that reports its memory: ten bytes for each message, and what other
// data takes.
type telling struct {
	circulate.Server
	others atomic.Int64
	shards []string // keys of the streams
}

const messageBytes = 10

func (s *telling) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := s.Server.Conn(ctx, key)
	return &tellingConn{conn, s}, err
}

type tellingConn struct {
	redis.Conn
	of *telling
}

func (c *tellingConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	length := func(key any) int64 {
		n, _ := redis.Int64(redis.DoWithTimeout(c.Conn, timeout, "XLEN", key)) // 0 if there is none
		return n
	}
	switch name {
	case "INFO":
		used := c.of.others.Load()
		for _, key := range c.of.shards {
			used += messageBytes * length(key)
		}
		return fmt.Appendf(nil, "used_memory:%d\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n", used), nil
	case "MEMORY":
		return messageBytes * length(args[1]), nil
	}
	return redis.DoWithTimeout(c.Conn, timeout, name, args...)
}

func (c *tellingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

func TestMessagesAreTrimmedWhereMemoryIsShort(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		server := &telling{Server: w.Server.Server, shards: []string{key(w.Ring, 0, "messages"), key(w.Ring, 1, "messages")}}
		server.others.Store(200)
		w.Server.Server = server
		w.found(0, 50)
		w.found(1, 10)
		stop := w.run(monitor.Config{Retention: 100 * 24 * time.Hour, TrimInterval: time.Hour})
		defer stop()
		time.Sleep(3 * time.Second)
		// Messages may take half of 1000 bytes: the longest stream is cut.
		w.expectLengths(40, 10)
		w.found(0, 8)
		time.Sleep(10 * time.Minute)
		w.expectLengths(48, 10) // 780 of 1000: trimmed in the next turn
		w.found(0, 10)
		time.Sleep(6 * time.Second)
		w.expectLengths(40, 10) // 880: trimmed at once
		w.exposed("# TYPE rounds_messages_trimmed_early_total counter\nrounds_messages_trimmed_early_total 28\n"+
			"# TYPE rounds_redis_memory_ratio gauge\nrounds_redis_memory_ratio{node=\"\"} 0.88", "rounds_messages_trimmed_early_total", "rounds_redis_memory_ratio")

		// Other data takes the rest, and a group has not read all: its messages stay.
		w.ensure("crm", 0)
		w.read(0, "crm", 10, true)
		server.others.Store(700)
		time.Sleep(6 * time.Second)
		w.expectLengths(30, 5)
	})
}

// A group that holds messages back for their age is reported, even if there are too many
// in another shard alone.
func TestMessagesThatAreHeldForTheirAgeAreTold(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.found(0, 3)
		w.ensure("crm", 0)
		time.Sleep(2 * time.Hour)
		w.found(1, 20)
		stop := w.run(monitor.Config{Retention: time.Hour, Kept: 10, TrimInterval: time.Minute})
		defer stop()
		time.Sleep(30 * time.Second) // later there are not too many in any shard
		w.expectLengths(3, 7)
		w.exposed("# TYPE rounds_streams_held_back gauge\nrounds_streams_held_back 1", "rounds_streams_held_back")
	})
}

func TestMemorySettingsAreJudged(t *testing.T) {
	_, err := monitor.New(nil, monitor.Config{MemoryMark: 101}, monitor.Options{})
	if err == nil || !strings.Contains(err.Error(), "memory mark") {
		t.Errorf("accepted: %v", err)
	}
}
