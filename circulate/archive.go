package circulate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	archiveDumpScript = wire.NewScript("dump", lua("known_move"), lua("archive_dump"))
	archiveLoadScript = wire.NewScript("load", lua("known_move"), lua("archive_load"))
)

// Archive reads and writes everything in the shards, for backups. It knows nothing of
// files. The number of shards must not change meanwhile.
type Archive struct{ ring *Ring }

// Archive returns the ring's archive.
func (r *Ring) Archive() Archive { return Archive{r} }

// restoringField is set in NS:meta while a backup is being restored.
const restoringField = "restoring"

// Begin marks the namespace as one into which a backup is being restored. Until End, only
// rings opened with Restoring work with it.
func (a Archive) Begin(ctx context.Context) error {
	key := metaKey(a.ring.namespace)
	_, err := a.ring.wire.Pipeline(ctx, key, wire.Command{"HSET", key, restoringField, time.Now().UTC().Format(time.RFC3339)})
	return err
}

// End removes the mark of Begin.
func (a Archive) End(ctx context.Context) error {
	key := metaKey(a.ring.namespace)
	_, err := a.ring.wire.Pipeline(ctx, key, wire.Command{"HDEL", key, restoringField})
	return err
}

// Standing is the place of an archived account.
type Standing byte

// The places of an archived account. An account that waited or was claimed is due at once
// when it is restored.
const (
	StandsScheduled Standing = 's'
	StandsParked    Standing = 'p'
	StandsWaiting   Standing = 'w'
)

// Archived is an account as a backup has it. Texts may be any bytes.
type Archived struct {
	ID       string
	Standing Standing
	At       time.Time // when it is due, or since when it is parked; zero for StandsWaiting
	Line     string    // the rest of its tickets field: lane, rule, history and a short cursor
	Record   string
	Cursor   string // a cursor too long for Line
	Failures string // in a row; empty: none
	Strikes  string // requeues since its last return; empty: none
	State    string // its cadence's state
	Error    string // when and how its last check failed
	Reason   string // why it is parked
	Sends    string // its sends, idempotency keys and windows; see Archive.Sends

	// What the account remembers of its messages: the newer and the older marks, and for how
	// many more milliseconds. The marks are as its SETs have them, with spaces between them.
	// All are empty if it remembers nothing.
	KnownFor, Known, KnownBeforeFor, KnownBefore string
}

// memory returns what the account remembers.
func (a *Archived) memory() []*string {
	return []*string{&a.KnownFor, &a.Known, &a.KnownBeforeFor, &a.KnownBefore}
}

// archiveFields returns the HASHes of an archived account, in the order of its fields.
func (k *shardKeys) archiveFields() []string {
	return []string{k.accounts, k.cursors, k.failures, k.strikes, k.states, k.errors, k.reasons}
}

func (a *Archived) fields() []*string {
	return []*string{&a.Record, &a.Cursor, &a.Failures, &a.Strikes, &a.State, &a.Error, &a.Reason}
}

// Accounts returns some accounts of a shard and the next cursor. Each account is read at
// one moment. The scan begins with an empty cursor and ends with ScanDone. An account
// that stays registered throughout is returned at least once.
func (a Archive) Accounts(ctx context.Context, shard int, cursor string, count int) (all []Archived, next string, err error) {
	ids, next, err := a.ring.Scan(ctx, shard, cursor, count)
	if err != nil {
		return nil, "", err
	}
	const most = 512 // ids of one call; HSCAN returns a small HASH as a whole
	for some := range slices.Chunk(ids, most) {
		dumped, err := a.dump(ctx, shard, some)
		if err != nil {
			return nil, "", err
		}
		all = append(all, dumped...)
	}
	return all, next, nil
}

// dump reads accounts at one moment. It leaves out ids that are not registered.
func (a Archive) dump(ctx context.Context, shard int, ids []string) ([]Archived, error) {
	k := &a.ring.keys[shard]
	keys := append(append([]string{k.tickets, k.schedule, k.parked}, k.archiveFields()...), k.knownKeys(ids...)...)
	answer, err := redis.Values(a.ring.wire.Run(ctx, archiveDumpScript, shard, keys, anyOf(ids)...))
	if err != nil {
		return nil, err
	}
	malformed := fmt.Errorf("dump, shard %d: %w", shard, wire.ErrReply)
	if len(answer) != len(ids) {
		return nil, malformed
	}
	all := make([]Archived, 0, len(ids))
	for i, id := range ids {
		values, err := redis.Strings(answer[i], nil)
		if err != nil {
			return nil, malformed
		}
		if len(values) == 0 {
			continue
		}
		one := Archived{ID: id}
		into := one.fields()
		if len(values) == 3+len(into)+4 {
			into = append(into, one.memory()...)
		}
		if len(values) != 3+len(into) || len(values[0]) != 1 {
			return nil, malformed
		}
		one.Standing, one.Line = Standing(values[0][0]), values[2]
		if values[1] != "" {
			ms, err := strconv.ParseInt(values[1], 10, 64)
			if err != nil {
				return nil, malformed
			}
			one.At = time.UnixMilli(ms)
		}
		for j, p := range into {
			*p = values[3+j]
		}
		all = append(all, one)
	}
	return all, nil
}

// Load registers archived accounts of one shard, at most 512 at once. It leaves
// registered accounts as they are, so it is safe to repeat. It returns how many it
// registered.
func (a Archive) Load(ctx context.Context, shard int, accounts []Archived) (int, error) {
	if err := wire.CheckBatch("load", len(accounts)); err != nil {
		return 0, err
	}
	k := &a.ring.keys[shard]
	keys := append([]string{k.tickets, k.ticketSeq, k.schedule, k.parked, k.leaving, k.ticketMark}, k.archiveFields()...)
	args := append(a.ring.wakeArgs(shard), 4+len(new(Archived).fields())+4)
	for i := range accounts {
		one := &accounts[i]
		if err := one.ValidateMemory(); err != nil {
			return 0, fmt.Errorf("%w: load: account %q: %w", wire.ErrInput, one.ID, err)
		}
		keys = append(keys, k.knownKeys(one.ID)...)
		at := ""
		switch one.Standing {
		case StandsScheduled, StandsParked:
			at = strconv.FormatInt(one.At.UnixMilli(), 10)
		case StandsWaiting:
		default:
			return 0, fmt.Errorf("%w: load: account %q stands at %q", wire.ErrInput, one.ID, string(one.Standing))
		}
		if one.ID == "" || one.Record == "" || len(one.Line) < len("nd") {
			return 0, fmt.Errorf("%w: load: account %q has no record, or nothing behind its ticket", wire.ErrInput, one.ID)
		}
		args = append(args, one.ID, string(one.Standing), at, one.Line)
		for _, p := range append(one.fields(), one.memory()...) {
			args = append(args, *p)
		}
	}
	n, err := redis.Int(a.ring.wire.Run(ctx, archiveLoadScript, shard, keys, args...))
	if err == nil && n < 0 {
		return 0, fmt.Errorf("load, shard %d: %w", shard, ErrResharding)
	}
	return n, err
}

// ValidateMemory returns what is wrong with what the account remembers.
func (a *Archived) ValidateMemory() error {
	for _, half := range [][2]string{{a.KnownFor, a.Known}, {a.KnownBeforeFor, a.KnownBefore}} {
		if ms, err := strconv.ParseInt(half[0], 10, 64); half[1] != "" && (err != nil || ms < 1) {
			return fmt.Errorf("remembers for %q ms", half[0])
		}
		if strings.Trim(half[1], "0123456789 ") != "" {
			return errors.New("remembers what is no mark")
		}
	}
	return nil
}

// Letter is an entry of a shard's stream of dead letters.
type Letter = wire.Entry

// GroupPosition is how far a consumer group has read in a shard. The group has read all
// messages up to and including After, and has acknowledged those that are not in Pending.
type GroupPosition struct {
	Group   string
	Shard   int
	After   StreamID
	Pending []PendingMessage // in the order of positions
	Events  bool             // the group gets events
}

// PendingMessage is a message that a group has read but not acknowledged.
type PendingMessage struct {
	Position   StreamID
	Deliveries int
}

// MostPending is the most pending messages of a GroupPosition. If a group has more, its
// position ends at the last of them, and the restored group reads again from there.
const MostPending = 1000

// Heirs yields the shards that a shard's accounts may be in now, if the namespace had
// this many shards before.
func (a Archive) Heirs(before, shard int) iter.Seq[int] {
	// An account's CRC is the same modulo every common divisor of both numbers.
	common := gcd(before, len(a.ring.keys))
	return func(yield func(int) bool) {
		for heir := shard % common; heir < len(a.ring.keys) && yield(heir); heir += common {
		}
	}
}

// SourceOf returns the shard that an account was in when the namespace had this many
// shards.
func (a Archive) SourceOf(before int, id string) int { return shardOf(id, before) }

// Groups returns how far each consumer group has read in a shard.
func (a Archive) Groups(ctx context.Context, shard int) ([]GroupPosition, error) {
	key := a.ring.keys[shard].messages
	groups, err := a.ring.groupInfos(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("groups, shard %d: %w", shard, err)
	}
	told, err := a.ring.Streams().Told(ctx, shard)
	if err != nil {
		return nil, err
	}
	positions := make([]GroupPosition, len(groups))
	for i, g := range groups {
		p := GroupPosition{Group: g.name, Shard: shard, Events: slices.Contains(told, g.name)}
		var replies []any
		if p.After, err = ParseStreamID(g.lastRead); err == nil {
			// A message acknowledged since the group was looked at is no longer pending,
			// and one read since then is behind After.
			replies, err = a.ring.wire.Pipeline(ctx, key, wire.Command{"XPENDING", key, g.name, "-", g.lastRead, MostPending + 1})
		}
		if err != nil {
			return nil, fmt.Errorf("groups, shard %d: %w", shard, err)
		}
		entries, err := redis.Values(replies[0], nil)
		for _, e := range entries {
			var at string
			var one PendingMessage
			fields, err2 := redis.Values(e, nil)
			if err2 == nil && len(fields) == 4 {
				at, err2 = redis.String(fields[0], nil)
				one.Deliveries, _ = redis.Int(fields[3], nil)
			}
			position, err3 := ParseStreamID(at)
			one.Position, err = position, errors.Join(err, err2, err3)
			p.Pending = append(p.Pending, one)
		}
		if err != nil {
			return nil, fmt.Errorf("groups, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
		}
		if len(p.Pending) > MostPending {
			p.Pending = p.Pending[:MostPending]
			p.After = p.Pending[MostPending-1].Position
		}
		positions[i] = p
	}
	return positions, nil
}

// restorer is the consumer that owns the pending messages until the group's first
// consumer takes them over.
const restorer = "restored"

// LoadGroup makes a group that has read a shard as far as the position says. Load the
// messages first.
func (a Archive) LoadGroup(ctx context.Context, p GroupPosition) error {
	if _, err := a.ring.Streams().EnsureGroup(ctx, p.Shard, p.Group, p.After.String()); err != nil {
		return err
	}
	if p.Events {
		if err := a.ring.Streams().TellEvents(ctx, p.Shard, p.Group, true); err != nil {
			return err
		}
	}
	key := a.ring.keys[p.Shard].messages
	for some := range slices.Chunk(p.Pending, wire.MaxBatch) {
		commands := make([]wire.Command, len(some))
		for i, m := range some {
			commands[i] = wire.Command{"XCLAIM", key, p.Group, restorer, 0, m.Position.String(), "RETRYCOUNT", m.Deliveries, "FORCE", "JUSTID"}
		}
		if _, err := a.ring.wire.Pipeline(ctx, key, commands...); err != nil {
			return fmt.Errorf("load group %s, shard %d: %w", p.Group, p.Shard, err)
		}
	}
	return nil
}

// LoadDisabled disables webhook endpoints with the times and reasons they had.
func (a Archive) LoadDisabled(ctx context.Context, endpoints []DisabledEndpoint) error {
	if len(endpoints) == 0 {
		return nil
	}
	key := endpointsKey(a.ring.namespace)
	set := wire.Command{"HSET", key}
	for _, e := range endpoints {
		since := int64(0)
		if !e.Since.IsZero() {
			since = e.Since.UnixMilli()
		}
		set = append(set, e.Name, strconv.FormatInt(since, 10)+"|"+e.Reason)
	}
	_, err := a.ring.wire.Pipeline(ctx, key, set)
	return err
}

// Letters returns up to n dead letters of a shard that come after a position.
func (a Archive) Letters(ctx context.Context, shard int, after string, n int) ([]Letter, error) {
	key := a.ring.keys[shard].dead
	replies, err := a.ring.wire.Pipeline(ctx, key, wire.Command{"XRANGE", key, "(" + after, "+", "COUNT", n})
	if err != nil {
		return nil, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	letters, err := wire.Entries(replies[0])
	if err != nil {
		return nil, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	return letters, nil
}

// LoadMessages appends messages of one shard's accounts to its stream, at their own
// positions. Positions must increase.
func (a Archive) LoadMessages(ctx context.Context, shard int, messages []Found) error {
	key := a.ring.keys[shard].messages
	commands := make([]wire.Command, len(messages))
	for i := range messages {
		m := &messages[i]
		when := ""
		if !m.Message.Time.IsZero() {
			when = m.Message.Time.UTC().Format(time.RFC3339Nano)
		}
		commands[i] = wire.Command{"XADD", key, m.Position, "account", m.Account, "kind", m.Kind, "id", m.Message.ID,
			"type", m.Message.Type, "time", when, "data", []byte(m.Message.Data)}
		if m.Only != "" {
			commands[i] = append(commands[i], "group", m.Only)
		}
		if m.First != "" {
			commands[i] = append(commands[i], "origin", m.First)
		}
		if m.Event {
			commands[i] = append(commands[i], "event", "1")
		}
		if m.Trace != "" {
			commands[i] = append(commands[i], "trace", m.Trace)
		}
	}
	if _, err := a.ring.wire.Pipeline(ctx, key, commands...); err != nil {
		return fmt.Errorf("load messages, shard %d: %w", shard, err)
	}
	return nil
}

// LoadLetters appends dead letters of one shard's accounts, at new positions.
func (a Archive) LoadLetters(ctx context.Context, shard int, letters []Letter) error {
	key := a.ring.keys[shard].dead
	commands := make([]wire.Command, len(letters))
	for i := range letters {
		commands[i] = wire.Command{"XADD", key, "*"}
		for _, f := range letters[i].Fields {
			commands[i] = append(commands[i], f)
		}
	}
	if _, err := a.ring.wire.Pipeline(ctx, key, commands...); err != nil {
		return fmt.Errorf("load dead letters, shard %d: %w", shard, err)
	}
	return nil
}
