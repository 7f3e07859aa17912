package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// A consumer group reads the streams of all shards, each message once, with any
// number of consumers. For each shard and group one consumer at a time holds a
// [Lease], and only the lease's holder reads the shard, takes over what is pending
// there, and gives up on messages: so an account's messages have one order
// whichever consumer has them. A lease has a token that no other lease ever had,
// and each of those steps is a script that looks at it first.
//
// Acknowledging needs no lease: who has handled a message may say so whenever.

//go:embed group.lua
var groupLua string

// joinScript is the heartbeat of a group's consumer.
var joinScript = wire.NewVitalScript("join group", heartbeatLua)

// newGroupScript makes a script that has what is in group.lua.
func newGroupScript(name, text string) *wire.Script {
	return wire.NewGroupScript(name, groupLua, text)
}

var (
	// ErrLeaseLost reports that another consumer may read the shard now.
	ErrLeaseLost = wire.Finding("circulate: lease lost")
	// ErrNoGroup reports a consumer group that a shard has not got, or not any more.
	ErrNoGroup = wire.Finding("circulate: no such consumer group")
)

var groupPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ValidateGroup tells what is wrong with a consumer group's name: it must be 1 to
// 64 letters, digits, dots, dashes or underscores.
func ValidateGroup(group string) error {
	if !groupPattern.MatchString(group) {
		return errors.New("must be 1 to 64 letters, digits, dots, dashes or underscores")
	}
	return nil
}

func checkGroup(step, group string) error {
	if err := ValidateGroup(group); err != nil {
		return fmt.Errorf("%w: %s: group %q: %w", wire.ErrInput, step, group, err)
	}
	return nil
}

// EnsureGroup makes a consumer group in a shard unless it has it. A new one reads
// what comes after the position: StreamStart for all there is, StreamEnd for what
// comes from now on. In a new shard it reads all there is wherever an old shard whose
// accounts go there has the group already: it is as old as that one. So whoever makes a group everywhere
// begins with the last shard.
func (r *Ring) EnsureGroup(ctx context.Context, shard int, group, after string) (created bool, err error) {
	if err := checkGroup("ensure group", group); err != nil {
		return false, err
	}
	if after != StreamEnd {
		if err := ValidatePosition(after); err != nil {
			return false, fmt.Errorf("%w: ensure group: %w", wire.ErrInput, err)
		}
	}
	key := r.keys[shard].messages
	if after, err = r.groupStart(ctx, shard, group, after); err != nil {
		return false, fmt.Errorf("ensure group, shard %d: %w", shard, err)
	}
	_, err = r.wire.PipelineOn(ctx, wire.ForGroups, shard, key, wire.Command{"XGROUP", "CREATE", key, group, after, "MKSTREAM"})
	if wire.HasCode(err, "BUSYGROUP") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ensure group, shard %d: %w", shard, err)
	}
	return true, nil
}

// StreamEnd is the position of a stream's newest message at the time of asking.
const StreamEnd = "$"

// Acknowledge tells that messages were handled. It reports how many of them were
// pending. It is safe to repeat.
func (r *Ring) Acknowledge(ctx context.Context, shard int, group string, positions []string) (int, error) {
	if len(positions) == 0 {
		return 0, nil
	}
	key := r.keys[shard].messages
	ack := make(wire.Command, 0, 3+len(positions))
	ack = append(ack, "XACK", key, group)
	for _, p := range positions {
		ack = append(ack, p)
	}
	replies, err := r.wire.PipelineFor(ctx, wire.ForGroups, key, ack)
	if err != nil {
		return 0, fmt.Errorf("acknowledge, shard %d: %w", shard, err)
	}
	return redis.Int(replies[0], nil)
}

// JoinGroup says that a consumer of a group is alive, and gives all that were
// heard of within the window. What the consumer declines to read others find by
// Declined, until it joins again.
func (r *Ring) JoinGroup(ctx context.Context, group, consumer string, window time.Duration, declines ...int) (alive []string, err error) {
	if err := errors.Join(checkGroup("join group", group), ValidateReplica(consumer)); err != nil {
		return nil, err
	}
	alive, err = redis.Strings(r.wire.Eval(ctx, joinScript,
		[]string{consumersKey(r.namespace, group), consumerReportsKey(r.namespace, group)},
		[]any{consumer, declining(declines), replicaMemory.Milliseconds(), window.Milliseconds()}))
	if err != nil {
		return nil, fmt.Errorf("join group: %w", err)
	}
	return alive, nil
}

// QuitGroup forgets a consumer that has given back its leases.
func (r *Ring) QuitGroup(ctx context.Context, group, consumer string) error {
	_, err := r.wire.Eval(ctx, retireScript,
		[]string{consumersKey(r.namespace, group), consumerReportsKey(r.namespace, group)}, []any{consumer})
	if err != nil {
		return fmt.Errorf("quit group: %w", err)
	}
	return nil
}

// Tag is the hash tag of a shard's keys, braces included. Keys that an [Effect]
// uses beside them must begin with it where Redis is a cluster.
func (r *Ring) Tag(shard int) string {
	key := r.keys[shard].messages
	return key[:len(key)-len(":messages")]
}

// noGroup gives ErrNoGroup for what Redis says of a group that is not there.
func noGroup(err error) error {
	if wire.HasCode(err, "NOGROUP") {
		return fmt.Errorf("%w: %w", ErrNoGroup, err)
	}
	return err
}
