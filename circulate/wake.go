package circulate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// A replica sleeps until the first due time of its shards. A step that makes an account
// due before that publishes "SS due" on NS:wake. The message only saves time: after each
// new subscription a replica looks at every shard once. "send TAG" is published there when
// a send may be attempted in the shard whose keys begin with TAG. "secret NAME" is published there
// too, when a stored secret has changed, and "leaving REPLICA", when a replica shuts
// down. Versions that do not know these texts ignore them.

const (
	wakePing    = time.Second
	wakeSilence = 2500 * time.Millisecond // without even a pong: the connection is dead
	spendMost   = 1000                    // messages that may have arrived meanwhile
)

// Woken is one message on NS:wake, mostly that something in a shard became due earlier.
type Woken struct {
	Shard int
	Due   time.Time // by Redis' clock
	Send  bool      // a send may be attempted in the shard now; then Due says nothing

	Secret  string // the name of a changed secret; then there is no shard
	Leaving string // a replica that stops claiming; then there is no shard
}

// WakeSecret returns the message that a stored secret has changed.
func WakeSecret(namespace, name string) (channel, text string) {
	return wakeChannel(namespace), secretWord + name
}

const (
	secretWord  = "secret "
	leavingWord = "leaving "
	sendWord    = "send " // sends.lua has it too
)

// Depart announces that a replica stops claiming, so that the others need not wait for it
// to look at its shards first. The replica goes on sending heartbeats until it has
// returned all its claims, and then calls [Ring.Retire]. If Depart fails, the others
// follow a moment later.
func (r *Ring) Depart(ctx context.Context, replica string) error {
	if err := r.publish(ctx, leavingWord+replica); err != nil {
		return fmt.Errorf("depart: %w", err)
	}
	return nil
}

// Wake wakes sleeping replicas because a shard has something to claim now, as after a
// monitor's requeue. If it fails, replicas find the shard a little later by themselves.
func (r *Ring) Wake(ctx context.Context, shard int) error {
	if err := r.publish(ctx, r.shardName(shard)+" 0"); err != nil {
		return fmt.Errorf("wake, shard %d: %w", shard, err)
	}
	return nil
}

// publish sends a text to all subscribers.
func (r *Ring) publish(ctx context.Context, text string) error {
	channel := wakeChannel(r.namespace)
	_, err := r.wire.PipelineFor(ctx, wire.Vital, channel, wire.Command{"PUBLISH", channel, text})
	return err
}

// Subscribe calls wake for every message, from one goroutine, until ctx is done or the
// connection is lost. First it calls subscribed once: messages before that may have been
// missed, messages after it are not. It returns nil when ctx is done.
func (r *Ring) Subscribe(ctx context.Context, subscribed func(), wake func(Woken)) error {
	conn, err := r.wire.Lend(ctx, wakeChannel(r.namespace), wire.Blocking)
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
		spend(conn)
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
			if w, err := r.parseWake(string(message.Data)); err == nil {
				wake(w)
			}
		}
	}
}

// spend makes a connection unusable, so that no caller borrows it again. A Redis that
// delivers messages beside its replies, such as the embedded one, may still deliver the
// last message after it confirmed the end of the subscription. It would be taken for a
// reply.
func spend(conn redis.Conn) {
	for range spendMost {
		// It has timed out already, which ends it. Messages that arrived before are dropped.
		if _, err := redis.ReceiveWithTimeout(conn, -time.Nanosecond); conn.Err() != nil || err != nil && !wire.Replied(err) {
			return
		}
	}
}

// pingOn pings the connection, so that a dead one shows by its silence, and ends the
// subscription when ctx is done.
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

func (r *Ring) parseWake(text string) (Woken, error) {
	if name, ok := strings.CutPrefix(text, secretWord); ok {
		return Woken{Secret: name}, nil
	}
	if name, ok := strings.CutPrefix(text, leavingWord); ok {
		return Woken{Leaving: name}, nil
	}
	if tag, ok := strings.CutPrefix(text, sendWord); ok {
		shard, err := r.shardTagged(tag)
		return Woken{Shard: shard, Send: true}, err
	}
	name, due, ok := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(due, 10, 64)
	if !ok || err != nil {
		return Woken{}, wire.ErrReply
	}
	shard, err := r.shardNamed(name)
	return Woken{Shard: shard, Due: time.UnixMilli(ms)}, err
}

// shardName is the name of a shard that also processes with other shards understand: its
// number, prefixed by its generation unless that is the first.
func (r *Ring) shardName(shard int) string {
	d := r.layout.leaving()
	if shard >= r.sources {
		shard -= r.sources
		d = r.layout.lasting()
	}
	if d.generation == 0 {
		return strconv.Itoa(shard)
	}
	return strconv.Itoa(d.generation) + "." + strconv.Itoa(shard)
}

// shardNamed returns the shard with a name, if the ring has it.
func (r *Ring) shardNamed(name string) (int, error) {
	generation := 0
	number := name
	if first, rest, ok := strings.Cut(name, "."); ok {
		g, err := strconv.Atoi(first)
		if err != nil || g < 1 {
			return 0, wire.ErrReply
		}
		generation, number = g, rest
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, wire.ErrReply
	}
	from, to := r.layout.leaving(), r.layout.lasting()
	switch {
	case r.sources > 0 && generation == from.generation && n < r.sources:
		return n, nil
	case generation == to.generation && n < len(r.keys)-r.sources:
		return r.sources + n, nil
	}
	return 0, wire.ErrReply
}

// shardTagged returns the shard whose keys begin with a tag, if the ring has it.
func (r *Ring) shardTagged(tag string) (int, error) {
	name, isOurs := strings.CutPrefix(tag, "{"+r.namespace+":")
	name, isTag := strings.CutSuffix(name, "}:")
	if !isOurs || !isTag {
		return 0, wire.ErrReply
	}
	if generation, number, later := strings.Cut(name, ":"); later {
		name = strings.TrimPrefix(generation, "g") + "." + number
	}
	return r.shardNamed(name)
}

func wakeChannel(namespace string) string { return namespace + ":wake" }

// wakeArgs returns a script's arguments for publishing about a shard.
func (r *Ring) wakeArgs(shard int) []any {
	return []any{wakeChannel(r.namespace), r.shardName(shard)}
}
