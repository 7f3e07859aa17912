// Package vault keeps values under names for all processes of a namespace. The values are
// secrets that the caller has sealed.
//
// The package knows neither seals nor the meaning of values. Whoever can write to Redis can
// replace a value with an older one or with another one. The package does not notice that.
// The code that opens seals has to.
package vault

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed put.lua
var putLua string

//go:embed remove.lua
var removeLua string

var (
	putScript    = wire.NewScript("put value", putLua)
	removeScript = wire.NewScript("remove value", removeLua)
)

const (
	// Most is how many values a namespace may have.
	Most = 10_000
	// MostBytes is how many bytes all values of a namespace may have together.
	MostBytes = 64 << 20
	// MaxName is the most bytes of a name.
	MaxName = 128
	// MaxValue is the most bytes of a value.
	MaxValue = 128 << 10
	// MaxPage is the most values of a page.
	MaxPage = 100
)

// ErrFull reports that another value would exceed Most or MostBytes.
var ErrFull = wire.Finding("vault: there are as many values as there may be")

// Entry is a stored value.
type Entry struct {
	Name     string
	Revision int64     // changes with each change of the value; no revision is used twice
	Set      time.Time // by Redis' clock; Replace keeps it
	Value    []byte
}

// Store has the values of a namespace.
type Store struct{ wire *wire.Wire }

// Of returns the values of a ring's namespace.
func Of(ring *circulate.Ring) Store { return Store{ring.Wire()} }

// At returns the values of a namespace in a Redis, for callers without a ring.
func At(server circulate.Server, namespace string) Store {
	return Store{wire.New(server, namespace, wire.Options{})}
}

// keys returns the Redis keys of the values, a HASH, their names, a ZSET, and the counters, a
// HASH.
func (s Store) keys() []string {
	tag := "{" + s.wire.Namespace() + ":secrets}:"
	return []string{tag + "values", tag + "names", tag + "state"}
}

// Put stores a value under a name and replaces a former one. Created reports whether there
// was none before. The returned entry has no value. Put is safe to repeat. Each call gives
// the value a new revision.
func (s Store) Put(ctx context.Context, name string, value []byte) (e Entry, created bool, err error) {
	e, before, _, err := s.put(ctx, name, value, "", "")
	return e, before == 0, err
}

// Replace is Put for a value that still has the given revision, and keeps the time when it
// was set. It returns false if the value has another revision or does not exist.
func (s Store) Replace(ctx context.Context, name string, revision int64, value []byte) (bool, error) {
	_, _, done, err := s.put(ctx, name, value, strconv.FormatInt(revision, 10), "")
	return done, err
}

// Restore is Put for an entry of a backup. It keeps the time when the value was set.
func (s Store) Restore(ctx context.Context, e Entry) error {
	_, _, _, err := s.put(ctx, e.Name, e.Value, "", strconv.FormatInt(max(0, e.Set.UnixMilli()), 10))
	return err
}

func (s Store) put(ctx context.Context, name string, value []byte, must, at string) (e Entry, before int64, done bool, err error) {
	err = validateName(name)
	if len(value) == 0 || len(value) > MaxValue {
		err = errors.Join(err, fmt.Errorf("value: must have 1 to %d bytes, has %d", MaxValue, len(value)))
	}
	if err != nil {
		return Entry{}, 0, false, fmt.Errorf("%w: put value: %w", wire.ErrInput, err)
	}
	reply, err := redis.Int64s(s.run(ctx, putScript, name, value, must, Most, MostBytes, at))
	switch {
	case err != nil:
		return Entry{}, 0, false, err
	case len(reply) == 1 && reply[0] == 0:
		return Entry{}, 0, false, nil
	case len(reply) == 1:
		return Entry{}, 0, false, ErrFull
	case len(reply) != 4:
		return Entry{}, 0, false, fmt.Errorf("put value: %w", wire.ErrReply)
	}
	s.tell(ctx, name)
	return Entry{Name: name, Revision: reply[2], Set: time.UnixMilli(reply[3])}, reply[1], true, nil
}

// tell tells replicas that a value has changed, so that they end calls that are held with the
// former one. If it fails, these end by themselves.
func (s Store) tell(ctx context.Context, name string) {
	channel, text := circulate.WakeSecret(s.wire.Namespace(), name)
	_, _ = s.wire.Pipeline(ctx, channel, wire.Command{"PUBLISH", channel, text})
}

// Remove deletes a name and its value, and reports whether it existed.
func (s Store) Remove(ctx context.Context, name string) (bool, error) {
	if err := validateName(name); err != nil {
		return false, fmt.Errorf("%w: remove value: %w", wire.ErrInput, err)
	}
	removed, err := redis.Bool(s.run(ctx, removeScript, name))
	if removed {
		s.tell(ctx, name)
	}
	return removed, err
}

// Get returns the value of a name, or false if there is none.
func (s Store) Get(ctx context.Context, name string) (Entry, bool, error) {
	if err := validateName(name); err != nil {
		return Entry{}, false, fmt.Errorf("%w: get value: %w", wire.ErrInput, err)
	}
	replies, err := s.pipeline(ctx, "get value", wire.Command{"HGET", s.keys()[0], name})
	if err != nil {
		return Entry{}, false, err
	}
	text, err := redis.String(replies[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("get value: %w", err)
	}
	e, err := entryOf(name, text)
	return e, err == nil, err
}

// Page returns the values whose names come after the given one, in the order of names. Limit
// is 1 to MaxPage. A page with fewer than limit values is the last one. A value that cannot
// be read is returned as an entry with a name only.
func (s Store) Page(ctx context.Context, after string, limit int) ([]Entry, error) {
	if limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("%w: page of values: limit: must be 1 to %d, is %d", wire.ErrInput, MaxPage, limit)
	}
	from := "-"
	if after != "" {
		from = "(" + after
	}
	keys := s.keys()
	replies, err := s.pipeline(ctx, "page of values", wire.Command{"ZRANGEBYLEX", keys[1], from, "+", "LIMIT", 0, limit})
	if err != nil {
		return nil, err
	}
	names, err := redis.Strings(replies[0], nil)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	ask := wire.Command{"HMGET", keys[0]}
	for _, name := range names {
		ask = append(ask, name)
	}
	if replies, err = s.pipeline(ctx, "page of values", ask); err != nil {
		return nil, err
	}
	texts, err := redis.Values(replies[0], nil)
	if err != nil || len(texts) != len(names) {
		return nil, fmt.Errorf("page of values: %w", errors.Join(wire.ErrReply, err))
	}
	page := make([]Entry, len(names))
	for i, name := range names {
		page[i].Name = name
		if text, ok := texts[i].([]byte); ok {
			if e, err := entryOf(name, string(text)); err == nil {
				page[i] = e
			}
		}
	}
	return page, nil
}

// run runs a script. If a Redis key has a wrong type, it sets that key aside and tries again.
func (s Store) run(ctx context.Context, script *wire.Script, args ...any) (any, error) {
	keys := s.keys()
	reply, err := wire.Mending(ctx, s.wire, typed(keys), func() (any, error) { return s.wire.Eval(ctx, script, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// pipeline sends commands. If a Redis key has a wrong type, it sets that key aside and tries
// again.
func (s Store) pipeline(ctx context.Context, doing string, commands ...wire.Command) ([]any, error) {
	keys := s.keys()
	replies, err := wire.Mending(ctx, s.wire, typed(keys), func() ([]any, error) { return s.wire.Pipeline(ctx, keys[0], commands...) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return replies, nil
}

// typed returns the keys that keys returns with the types that they must have.
func typed(keys []string) []wire.Key {
	return []wire.Key{{keys[0], "hash"}, {keys[1], "zset"}, {keys[2], "hash"}}
}

func entryOf(name, text string) (Entry, error) {
	revision, rest, _ := strings.Cut(text, "|")
	set, value, ok := strings.Cut(rest, "|")
	number, err := strconv.ParseInt(revision, 10, 64)
	ms, err2 := strconv.ParseInt(set, 10, 64)
	if err := errors.Join(err, err2); !ok || err != nil {
		return Entry{}, fmt.Errorf("value %q: %w", name, wire.ErrReply)
	}
	return Entry{Name: name, Revision: number, Set: time.UnixMilli(ms), Value: []byte(value)}, nil
}

func validateName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("name: must have 1 to %d bytes, has %d", MaxName, len(name))
	}
	return nil
}
