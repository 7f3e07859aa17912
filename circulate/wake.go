package circulate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A replica sleeps until the first due time of its shards. When something
// becomes due before that, the step that put it there publishes "SS due" on
// NS:wake. Nothing else is published, and nothing relies on it for more than
// speed: whoever subscribes anew looks at every shard once.

const (
	wakePing    = 400 * time.Millisecond
	wakeSilence = time.Second // without so much as a pong: the connection is dead
)

// Woken is a message that a shard has something due earlier than it had.
type Woken struct {
	Shard int
	Due   time.Time // by Redis' clock
}

// Wake tells sleeping replicas that a shard has something to claim now, as a
// monitor does after it requeued. That it fails costs a little time: they look
// by themselves.
func (r *Ring) Wake(ctx context.Context, shard int) error {
	channel := wakeChannel(r.namespace)
	if _, err := pipeline(ctx, r.server, channel, command{"PUBLISH", channel, strconv.Itoa(shard) + " 0"}); err != nil {
		return fmt.Errorf("wake, shard %d: %w", shard, err)
	}
	return nil
}

// Subscribe calls wake for every message, from one goroutine, until ctx is done
// or the connection is lost. Before that it calls subscribed once: what was
// published earlier may have been missed, and from then on nothing is. It
// returns nil where ctx is done.
func (r *Ring) Subscribe(ctx context.Context, subscribed func(), wake func(Woken)) error {
	conn, err := lend(ctx, r.server, wakeChannel(r.namespace))
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	sub := redis.PubSubConn{Conn: conn}
	if err := sub.Subscribe(wakeChannel(r.namespace)); err != nil {
		_ = conn.Close()
		return fmt.Errorf("subscribe: %w", err)
	}
	pinging, stop := context.WithCancel(ctx)
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		pingOn(pinging, sub)
	}()
	defer func() {
		stop()
		<-pinged
		_ = conn.Close()
	}()
	for {
		switch message := sub.ReceiveWithTimeout(wakeSilence).(type) {
		case error:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("subscribe: %w", message)
		case redis.Subscription:
			if message.Kind == "unsubscribe" {
				return nil
			}
			subscribed()
		case redis.Message:
			if w, err := parseWake(string(message.Data)); err == nil && w.Shard < len(r.keys) {
				wake(w)
			}
		}
	}
}

// pingOn keeps the connection talking, so that a dead one shows by its silence,
// and ends the subscription when ctx is done.
func pingOn(ctx context.Context, sub redis.PubSubConn) {
	tick := time.NewTicker(wakePing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = sub.Unsubscribe() // its confirmation ends the receiving
			return
		case <-tick.C:
			if sub.Ping("") != nil {
				return // the receiver sees it too
			}
		}
	}
}

func parseWake(text string) (Woken, error) {
	shard, due, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(shard)
	if !ok || err != nil || n < 0 {
		return Woken{}, errReply
	}
	ms, err := strconv.ParseInt(due, 10, 64)
	if err != nil {
		return Woken{}, errReply
	}
	return Woken{Shard: n, Due: time.UnixMilli(ms)}, nil
}

func wakeChannel(namespace string) string { return namespace + ":wake" }

// wakeArgs are what a script needs to publish for a shard.
func (r *Ring) wakeArgs(shard int) []any {
	return []any{wakeChannel(r.namespace), strconv.Itoa(shard)}
}
