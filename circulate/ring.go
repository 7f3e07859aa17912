package circulate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// DefaultNamespace is what a ring's keys begin with by default.
	DefaultNamespace = "rounds"
	// DefaultShards is the number of shards of a new namespace.
	DefaultShards = 64
	// MaxShards is the most shards a namespace may have.
	MaxShards = 16384
	// MaxBatch is the most accounts that one step may handle.
	MaxBatch = wire.MaxBatch

	// formatVersion is the format of a namespace whose number of shards never changed.
	// Each migration adds 2; see Migration.
	formatVersion = 2
	// formatResharded keeps out programs that do not know changes of the number of
	// shards.
	formatResharded = 3
	// formatSends is added to the format before the first send is queued, for good. It keeps
	// out programs that do not know sends: see *Sends* in the package comment.
	formatSends = 1000
	// KnownEras is how many migrations this version reads: it reads the form that each of
	// them writes. See Migration.
	KnownEras = 0
)

// Server lends connections to the Redis that serves a key. The caller closes
// them. Package connect has implementations.
type Server = wire.Server

// Options are a ring's settings. The zero value means the defaults.
type Options struct {
	Namespace string       // what keys begin with; DefaultNamespace
	Shards    int          // 0: the namespace's number, or DefaultShards if it is new
	Log       *slog.Logger // logs what was set aside; nil: nothing is logged

	// Timeline returns about how many lines the timelines of all accounts hold together.
	// Nil or 0: there are no timelines. It is called for each step that may write a line.
	// See the package comment.
	Timeline func() int

	// Eras is how many migrations since format 2 the program reads, if its version is
	// later than this package's, as in tests of migrations. It is at least KnownEras.
	// Open refuses a namespace with more of them.
	Eras int

	// Existing makes Open return ErrNoNamespace if the namespace does not exist, instead
	// of making it. A consumer needs that: in a namespace of its own it would wait for
	// ever, and would have decided the number of shards.
	Existing bool

	// Restoring opens a namespace into which a backup is being restored; see Archive.Begin.
	Restoring bool

	// Observe is called after each call to Redis with its duration and error, from any
	// goroutine. Nil: it is not called.
	Observe func(took time.Duration, err error)
}

// Ring is the protocol over all shards of one namespace. It is safe for
// concurrent use.
//
// A consumer of messages only opens a ring and gives it to its delivery.Consumer, which follows a
// change of the number of shards. Namespace, Server, Shards, ShardOf and Tag do no harm either. All
// other methods are steps of the protocol for the programs of rounds, such as Claim, Return and
// Deregister. They believe what they are given, and no audit log names who called them. Accounts are
// registered and changed through the API.
type Ring struct {
	wire      *wire.Wire
	namespace string
	layout    layout
	keys      []shardKeys // the shards that accounts leave, if any, come first
	sources   int         // how many shards accounts leave
	log       *slog.Logger
	timeline  func() int // see Options

	expected expectations // of Options
	reopen   func(context.Context) (*Ring, error)
	followed atomic.Bool // see Follow
	changes  changes

	copies copies
	left   atomic.Bool // the shards that accounts left need not be searched any more
	sends  atomic.Bool // the format keeps out programs that do not know sends
}

// Open joins a namespace. It makes the namespace if it does not exist, unless
// Options.Existing is set. It does not wait for Redis: if Redis is away, it returns the
// error. If the namespace's shards or format differ from the caller's, it returns
// ErrMismatch; for shards that is a *ShardsError.
func Open(ctx context.Context, server Server, o Options) (*Ring, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if err := ValidateNamespace(o.Namespace); err != nil {
		return nil, fmt.Errorf("%w: namespace %q: %w", wire.ErrInput, o.Namespace, err)
	}
	if o.Shards < 0 || o.Shards > MaxShards {
		return nil, fmt.Errorf("%w: shards: must be 1 to %d, is %d", wire.ErrInput, MaxShards, o.Shards)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	first := layout{shards: o.Shards}
	if first.shards == 0 {
		first.shards = DefaultShards
	}
	expected := expectations{restoring: o.Restoring, existing: o.Existing, eras: max(KnownEras, o.Eras)}
	w := wire.New(server, o.Namespace, wire.Options{})
	l, err := agree(ctx, w, first, expected)
	if errors.Is(err, ErrNoNamespace) {
		return nil, fmt.Errorf("%w %q in Redis at %s; set Options.Namespace to the service's ROUNDS_NAMESPACE, and start the service first", err, o.Namespace, w.Server())
	}
	if err != nil {
		return nil, err
	}
	if o.Shards != 0 && o.Shards != l.shards && l.plain() {
		return nil, &ShardsError{o.Namespace, l.shards, o.Shards}
	}
	r := &Ring{namespace: o.Namespace, log: o.Log, timeline: o.Timeline, layout: l, keys: l.keys(o.Namespace), expected: expected}
	r.wire = wire.New(server, o.Namespace, wire.Options{
		Log: o.Log, Observe: o.Observe, Keys: func(shard int) []wire.Key { return r.keys[shard].all() },
	})
	o.Shards = 0
	r.reopen = func(ctx context.Context) (*Ring, error) { return Open(ctx, server, o) }
	r.sources = l.leaving().shards
	r.copies.in = make(map[int]int)
	r.left.Store(l.previous > 0)
	r.sends.Store(l.sends)
	return r, nil
}

// Check reports whether Redis answers and still has the namespace that was opened.
func (r *Ring) Check(ctx context.Context) error {
	l, err := r.readLayout(ctx)
	if err != nil {
		return err
	}
	if now, then := l.lasting(), r.layout.lasting(); now.generation == then.generation && now.shards != then.shards {
		return fmt.Errorf("%w: namespace %q has %d shards, it had %d when it was opened", ErrMismatch, r.namespace, now.shards, then.shards)
	}
	return nil
}

// Wire returns how the ring reaches Redis, for the packages below this one. No other package
// can make an Insider, and so call it.
func (r *Ring) Wire(wire.Insider) *wire.Wire { return r.wire }

// AwaySince returns since when Redis, or the first failing node of it, has not served
// this process. It returns the zero time if Redis serves, as far as the process knows.
func (r *Ring) AwaySince() time.Time { return r.wire.AwaySince() }

// Outage is a time during which Redis did not serve this process. The zero value is none.
type Outage struct{ From, Till time.Time }

// LastOutage returns the last outage of the Redis that has the heartbeats, by a clock that
// shows now. An outage that lasts ends now.
func (r *Ring) LastOutage(now time.Time) Outage {
	from, till := r.wire.LastOutage(replicasKey(r.namespace))
	if till.IsZero() {
		return Outage{}
	}
	return Outage{From: now.Add(-time.Since(from)), Till: now.Add(-time.Since(till))}
}

// Alive reports whether a process that was last heard of at a time counts as alive: it has
// been silent for less than deadAfter. No heartbeat comes during an outage. So a process that
// was alive when it began counts as heard of when it ended.
func (o Outage) Alive(heard, now time.Time, deadAfter time.Duration) bool {
	if heard.Before(o.Till) && o.From.Sub(heard) < deadAfter {
		heard = o.Till
	}
	return now.Sub(heard) < deadAfter
}

// Server returns the address of the ring's Redis, without a password.
func (r *Ring) Server() string { return r.wire.Server() }

// Namespace returns what the ring's keys begin with.
func (r *Ring) Namespace() string { return r.namespace }

// Shards returns the number of shards. While it changes, the shards that accounts leave
// come first, and then the shards that accounts move to.
func (r *Ring) Shards() int { return len(r.keys) }

// ShardName names a shard for as long as the namespace lives. A shard's number in a [Ring] names
// another shard once the number of shards has changed.
type ShardName struct {
	Generation int // how often the number of shards had changed when the shard was made
	Number     int // its number among the shards of that generation
}

// Handle returns a name of what is at a position in the shard, a message or a dead letter:
// SHARD:MS-SEQ, and GENERATION.SHARD:MS-SEQ once the number of shards has changed.
func (n ShardName) Handle(position string) string {
	handle := strconv.Itoa(n.Number) + ":" + position
	if n.Generation > 0 {
		handle = strconv.Itoa(n.Generation) + "." + handle
	}
	return handle
}

// ShardName returns the name of one of the ring's shards.
func (r *Ring) ShardName(shard int) ShardName {
	if shard < r.sources {
		return ShardName{r.layout.leaving().generation, shard}
	}
	return ShardName{r.layout.lasting().generation, shard - r.sources}
}

// ShardNamed returns the number of the shard with a name, or false if the ring has no such shard.
func (r *Ring) ShardNamed(name ShardName) (shard int, ok bool) {
	for _, d := range r.layout.view() {
		if name.Generation == d.generation && name.Number < d.shards {
			return shard + name.Number, true
		}
		shard += d.shards
	}
	return 0, false
}

// ShardOf returns the shard that an account lives in. While the number of shards changes,
// that is the first shard where the account may be. Steps that take an id search further
// themselves.
func (r *Ring) ShardOf(id string) int {
	if r.sources > 0 && !r.left.Load() {
		return shardOf(id, r.sources)
	}
	return r.target(id)
}

// SetAside returns how many unusable things were moved out of the way since the ring was
// opened: keys of a wrong type and malformed entries.
func (r *Ring) SetAside() int64 { return r.wire.SetAsideCount() }

// ScriptsSent returns how often the text of a script had to be sent because Redis did not
// have it: at its first use, and after Redis lost it.
func (r *Ring) ScriptsSent() int64 { return r.wire.ScriptsSent() }

// Now returns the time by the clock that decides: the clock of the shard's Redis.
func (r *Ring) Now(ctx context.Context, shard int) (time.Time, error) {
	replies, err := r.wire.Pipeline(ctx, r.keys[shard].queue, wire.Command{"TIME"})
	if err != nil {
		return time.Time{}, err
	}
	return wire.Time(replies[0])
}

// NewReplica returns a name for a replica that no other one has.
func NewReplica() string {
	return rand.Text()[:replicaWidth]
}

// shardsAtOnce is how many shards EachShard works on at a time.
const shardsAtOnce = 8

// EachShard calls fn for every number below shards, several at a time. The first error
// cancels the other calls and is returned.
func EachShard(ctx context.Context, shards int, fn func(ctx context.Context, shard int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(shardsAtOnce, shards) {
		wg.Go(func() {
			for ctx.Err() == nil {
				shard := int(next.Add(1)) - 1
				if shard >= shards {
					return
				}
				if err := fn(ctx, shard); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// told returns how many lines each stream of a shard's timeline holds, as scripts take
// it. It returns "" if there are no timelines.
func (r *Ring) told() string {
	if r.timeline == nil {
		return ""
	}
	return wire.Kept(r.timeline(), len(r.keys)-r.sources)
}
