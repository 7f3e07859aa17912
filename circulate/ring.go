package circulate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// DefaultNamespace is what a ring's keys begin with unless told otherwise.
	DefaultNamespace = "rounds"
	// DefaultShards is the number of shards of a new namespace.
	DefaultShards = 64
	// MaxShards is the most shards a namespace may have.
	MaxShards = 16384
	// MaxBatch is the most accounts that one step may handle.
	MaxBatch = 1000

	formatVersion = 2
	// callTimeout bounds a call whose context sets no earlier deadline.
	callTimeout = 10 * time.Second
)

// Server lends connections to the Redis that serves a key. The caller closes
// them. Package connect has implementations.
type Server interface {
	Conn(ctx context.Context, key string) (redis.Conn, error)
}

// Options are a ring's settings. The zero value has the defaults.
type Options struct {
	Namespace string       // what keys begin with; DefaultNamespace
	Shards    int          // 0: as the namespace has, or DefaultShards where it is new
	Log       *slog.Logger // what was set aside is told here; nil: nowhere
}

// Ring is the protocol over all shards of one namespace. It is safe for
// concurrent use.
type Ring struct {
	server    Server
	namespace string
	keys      []shardKeys
	log       *slog.Logger

	setAside atomic.Int64
}

// Open joins a namespace, or makes it where there is none. A namespace whose
// shards or format are not what the caller has gives ErrMismatch.
func Open(ctx context.Context, server Server, o Options) (*Ring, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if err := ValidateNamespace(o.Namespace); err != nil {
		return nil, fmt.Errorf("%w: namespace %q: %w", errInput, o.Namespace, err)
	}
	if o.Shards < 0 || o.Shards > MaxShards {
		return nil, fmt.Errorf("%w: shards: must be 1 to %d, is %d", errInput, MaxShards, o.Shards)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	shards, err := agree(ctx, server, o)
	if err != nil {
		return nil, err
	}
	r := &Ring{server: &watched{Server: server, log: o.Log}, namespace: o.Namespace, log: o.Log, keys: make([]shardKeys, shards)}
	for i := range r.keys {
		r.keys[i] = newShardKeys(o.Namespace, shards, i)
	}
	return r, nil
}

// agree writes the namespace's meta where there is none, and otherwise holds
// the caller's settings against it. It returns the number of shards.
func agree(ctx context.Context, server Server, o Options) (int, error) {
	first := o.Shards
	if first == 0 {
		first = DefaultShards
	}
	key := metaKey(o.Namespace)
	replies, err := pipeline(ctx, server, key,
		command{"HSETNX", key, "shards", first},
		command{"HSETNX", key, "format", formatVersion},
		command{"HMGET", key, "shards", "format"})
	if err != nil {
		return 0, fmt.Errorf("open namespace %q: %w", o.Namespace, err)
	}
	meta, err := redis.Ints(replies[2], nil)
	if err != nil || len(meta) != 2 {
		return 0, fmt.Errorf("open namespace %q: meta is unreadable: %w", o.Namespace, errors.Join(errReply, err))
	}
	shards, format := meta[0], meta[1]
	switch {
	case format != formatVersion:
		return 0, fmt.Errorf("%w: namespace %q has format %d, this program has %d", ErrMismatch, o.Namespace, format, formatVersion)
	case o.Shards != 0 && o.Shards != shards:
		return 0, fmt.Errorf("%w: namespace %q has %d shards, the settings say %d", ErrMismatch, o.Namespace, shards, o.Shards)
	case shards < 1 || shards > MaxShards:
		return 0, fmt.Errorf("%w: namespace %q says it has %d shards", ErrMismatch, o.Namespace, shards)
	}
	return shards, nil
}

// Check reports whether Redis answers and the namespace is still the one that
// was opened.
func (r *Ring) Check(ctx context.Context) error {
	_, err := agree(ctx, r.server, Options{Namespace: r.namespace, Shards: len(r.keys)})
	return err
}

// Namespace is what the ring's keys begin with.
func (r *Ring) Namespace() string { return r.namespace }

// Shards is the number of shards.
func (r *Ring) Shards() int { return len(r.keys) }

// ShardOf is the shard that an account lives in.
func (r *Ring) ShardOf(id string) int { return shardOf(id, len(r.keys)) }

// SetAside counts what was found unusable and moved out of the way since the
// ring was opened: keys of a wrong type, texts that are no entry.
func (r *Ring) SetAside() int64 { return r.setAside.Load() }

// Now is the time by the clock that decides: that of the shard's Redis.
func (r *Ring) Now(ctx context.Context, shard int) (time.Time, error) {
	replies, err := pipeline(ctx, r.server, r.keys[shard].queue, command{"TIME"})
	if err != nil {
		return time.Time{}, err
	}
	return serverTime(replies[0])
}

func serverTime(reply any) (time.Time, error) {
	t, err := redis.Int64s(reply, nil)
	if err != nil || len(t) != 2 {
		return time.Time{}, errors.Join(errors.New("circulate: unreadable TIME"), err)
	}
	return time.Unix(t[0], t[1]*1000), nil
}

// NewReplica makes a name for a replica that no other one has.
func NewReplica() string {
	return rand.Text()[:replicaWidth]
}

func (r *Ring) checkBatch(step string, n int) error {
	if n < 1 || n > MaxBatch {
		return fmt.Errorf("%w: %s: a batch has 1 to %d accounts, not %d", errInput, step, MaxBatch, n)
	}
	return nil
}
