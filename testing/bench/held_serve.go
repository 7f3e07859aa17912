package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// heldServe is the service with one role, and limits.
func heldServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 6 {
		return fmt.Errorf("heldserve: %q", args)
	}
	ctx, url, err := childFlags(ctx, "heldserve", args[:2], in)
	if err != nil {
		return err
	}
	variables := map[string]string{
		"ROUNDS_REDIS_URL": url, "ROUNDS_NAMESPACE": heldSpace, "ROUNDS_ROLES": args[3], "ROUNDS_ALLOW_NETWORKS": "127.0.0.0/8",
		"ROUNDS_OPS_ADDR": "127.0.0.1:0", "ROUNDS_LOG_LEVEL": "warn", "ROUNDS_SECRET_" + mailSecret: imapd.Password, "ROUNDS_LIMITS": args[5],
	}
	s, lookup, err := serviceSettings(variables)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "serving"); err != nil {
		return err
	}
	return service.Run(ctx, s, service.Options{Version: "bench", Lookup: lookup, Holding: service.HeldMemory(os.LookupEnv)})
}

// arrivals reads all streams of a ring, as a consumer that waits.
type arrivals struct {
	url   string
	ring  *circulate.Ring
	reads atomic.Int64 // commands

	mu sync.Mutex
	ms []float64 // from sending to reading
}

func newArrivals(url string, ring *circulate.Ring) *arrivals { return &arrivals{url: url, ring: ring} }

// read reads until ctx is done.
func (a *arrivals) read(ctx context.Context) error {
	conn, err := redis.DialURL(a.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	var streams []string
	last := make(map[string]string)
	for shard := range a.ring.Shards() {
		key := a.ring.Tag(shard) + ":messages"
		streams, last[key] = append(streams, key), "0"
	}
	for ctx.Err() == nil {
		args := redis.Args{"BLOCK", 1000, "STREAMS"}.AddFlat(streams)
		for _, key := range streams {
			args = args.Add(last[key])
		}
		a.reads.Add(1)
		reply, err := redis.Values(redis.DoWithTimeout(conn, 5*time.Second, "XREAD", args...))
		if errors.Is(err, redis.ErrNil) {
			continue
		}
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		for _, of := range reply {
			if err := a.take(of, now, last); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *arrivals) take(of any, now int64, last map[string]string) error {
	pair, err := redis.Values(of, nil)
	if err != nil {
		return err
	}
	key, err := redis.String(pair[0], nil)
	if err != nil {
		return err
	}
	entries, err := redis.Values(pair[1], nil)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, entry := range entries {
		parts, err := redis.Values(entry, nil)
		if err != nil {
			return err
		}
		if last[key], err = redis.String(parts[0], nil); err != nil {
			return err
		}
		fields, err := redis.StringMap(parts[1], nil)
		if err != nil {
			return err
		}
		sent, err := sentAt(fields["data"])
		if err != nil {
			return err
		}
		a.ms = append(a.ms, float64(now-sent)/1e6)
	}
	return nil
}

// sentAt returns when the fake sent a message, unix ns. It is the message's data, or a mail's subject.
func sentAt(data string) (int64, error) {
	var mail struct{ Subject string }
	if strings.HasPrefix(data, "{") {
		if err := json.Unmarshal([]byte(data), &mail); err != nil {
			return 0, err
		}
		data = mail.Subject
	}
	return strconv.ParseInt(data, 10, 64)
}

// count returns how many messages were read.
func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ms)
}

// from returns the milliseconds of all messages but the first ones, sorted.
func (a *arrivals) from(first int) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.ms[first:])
	return a.ms[first:]
}
