package circulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Memory is how much memory a Redis node uses, and its limit.
type Memory struct {
	Used  int64 // bytes, without the buffers for replicas and the append-only file
	Limit int64 // bytes; 0: it has no limit, or evicts keys at the limit
}

// Share returns the used part of the limit, or 0 if there is no limit.
func (m Memory) Share() float64 {
	if m.Limit <= 0 {
		return 0
	}
	return float64(m.Used) / float64(m.Limit)
}

// Memory asks the node of a shard how much of its memory it uses. Some servers do not
// report it, and some users may not ask. Memory then returns an error that is not
// [Unavailable].
func (r *Ring) Memory(ctx context.Context, shard int) (Memory, error) {
	key := r.keys[shard].messages
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"INFO", "memory"})
	if err != nil {
		return Memory{}, fmt.Errorf("memory of %q: %w", r.Node(shard), err)
	}
	info, err := redis.String(replies[0], nil)
	if err != nil {
		return Memory{}, fmt.Errorf("memory of %q: %w", r.Node(shard), wire.ErrReply)
	}
	memory, err := parseMemory(info)
	if err != nil {
		return Memory{}, fmt.Errorf("memory of %q: %w: %w", r.Node(shard), wire.ErrReply, err)
	}
	return memory, nil
}

func parseMemory(info string) (Memory, error) {
	fields := infoFields(info)
	used, err := strconv.ParseInt(fields["used_memory"], 10, 64)
	if err != nil {
		return Memory{}, errors.New("it does not report used_memory")
	}
	// Not every server reports the field; if it is missing, it counts as 0.
	apart, _ := strconv.ParseInt(fields["mem_not_counted_for_evict"], 10, 64)
	limit, _ := strconv.ParseInt(fields["maxmemory"], 10, 64)
	if policy := fields["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		limit = 0
	}
	return Memory{Used: max(0, used-apart), Limit: limit}, nil
}

// infoFields returns the fields of a reply to INFO, by name.
func infoFields(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Node returns the name of the Redis node that serves a shard, or "" if there is only one
// node.
func (r *Ring) Node(shard int) string { return r.wire.NodeOf(r.keys[shard].messages) }

// streamSamples is how many parts of a stream are measured to estimate its size.
const streamSamples = 16

// Bytes returns about how much memory the messages of a shard take. It fails where
// [Ring.Memory] does.
func (s Streams) Bytes(ctx context.Context, shard int) (int64, error) {
	key := s.ring.keys[shard].messages
	replies, err := s.ring.wire.Pipeline(ctx, key, wire.Command{"MEMORY", "USAGE", key, "SAMPLES", streamSamples})
	if err != nil {
		return 0, fmt.Errorf("message bytes, shard %d: %w", shard, err)
	}
	if replies[0] == nil {
		return 0, nil // no message was ever found
	}
	return redis.Int64(replies[0], nil)
}

// OneOfEachNode returns a shard of each known Redis node, or shard 0 if there is one
// node.
func (r *Ring) OneOfEachNode() []int {
	seen := make(map[string]bool)
	var shards []int
	for shard := range r.keys {
		node := r.Node(shard)
		if node == "" {
			return []int{shard}
		}
		if !seen[node] {
			seen[node] = true
			shards = append(shards, shard)
		}
	}
	return shards
}

// TryWrite reports whether every node accepts writes. It writes nothing: it sends a
// command that changes nothing but is refused like any step that adds.
func (r *Ring) TryWrite(ctx context.Context) error {
	for _, shard := range r.OneOfEachNode() {
		if err := r.TryWriteTo(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// TryWriteTo is TryWrite for the node of one shard.
func (r *Ring) TryWriteTo(ctx context.Context, shard int) error {
	key := r.keys[shard].schedule
	_, err := r.wire.Pipeline(ctx, key, wire.Command{"ZADD", key, "XX", 0, ""})
	if wire.HasCode(err, "WRONGTYPE") {
		err = nil // the next step sets the key aside; the server accepts writes
	}
	if err != nil {
		return fmt.Errorf("try a write: %w", err)
	}
	r.wire.NoteRoom(key)
	return nil
}
