// Package vault keeps values under names for all processes of a namespace: secrets that
// whoever puts them in has sealed.
//
// The package knows neither seals nor what values mean. Whoever can write to Redis can put
// an older value back, or another one: to notice that is the owner's business.
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
	// MostBytes is how many bytes they may have together.
	MostBytes = 64 << 20
	// MaxName is the most bytes of a name.
	MaxName = 128
	// MaxValue is the most bytes of a value.
	MaxValue = 128 << 10
	// MaxPage is the most values that a page may have.
	MaxPage = 100
)

// ErrFull reports that there are as many values, or as many bytes, as there may be.
var ErrFull = wire.Finding("vault: there are as many values as there may be")

// Entry is a value as it is kept.
type Entry struct {
	Name     string
	Revision int64     // another one after each change; none is given twice
	Set      time.Time // by Redis' clock; Replace keeps it
	Value    []byte
}

// Store has the values of a namespace.
type Store struct{ wire *wire.Wire }

// Of returns the values of a ring's namespace.
func Of(ring *circulate.Ring) Store { return Store{ring.Wire()} }

// At returns the values of a namespace in a Redis, for who opens no ring there.
func At(server circulate.Server, namespace string) Store {
	return Store{wire.New(server, namespace, wire.Options{})}
}

// keys are the values, a HASH, their names, a ZSET, and what counts them, a HASH.
func (s Store) keys() []string {
	tag := "{" + s.wire.Namespace() + ":secrets}:"
	return []string{tag + "values", tag + "names", tag + "state"}
}

// Put keeps a value under a name, in place of the one that was there, and reports whether
// there was none. The entry returned has no value. To repeat it is safe, and gives another
// revision.
func (s Store) Put(ctx context.Context, name string, value []byte) (e Entry, created bool, err error) {
	e, before, _, err := s.put(ctx, name, value, "")
	return e, before == 0, err
}

// Replace is Put for a value that has a revision still, and keeps when it was set. It
// reports false where there is another one, or none.
func (s Store) Replace(ctx context.Context, name string, revision int64, value []byte) (bool, error) {
	_, _, done, err := s.put(ctx, name, value, strconv.FormatInt(revision, 10))
	return done, err
}

func (s Store) put(ctx context.Context, name string, value []byte, must string) (e Entry, before int64, done bool, err error) {
	err = validateName(name)
	if len(value) == 0 || len(value) > MaxValue {
		err = errors.Join(err, fmt.Errorf("value: must have 1 to %d bytes, has %d", MaxValue, len(value)))
	}
	if err != nil {
		return Entry{}, 0, false, fmt.Errorf("%w: put value: %w", wire.ErrInput, err)
	}
	reply, err := redis.Int64s(s.run(ctx, putScript, name, value, must, Most, MostBytes))
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
	return Entry{Name: name, Revision: reply[2], Set: time.UnixMilli(reply[3])}, reply[1], true, nil
}

// Remove forgets a name and its value, and reports whether there was one.
func (s Store) Remove(ctx context.Context, name string) (bool, error) {
	if err := validateName(name); err != nil {
		return false, fmt.Errorf("%w: remove value: %w", wire.ErrInput, err)
	}
	return redis.Bool(s.run(ctx, removeScript, name))
}

// Get returns what is kept under a name; false: nothing is.
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

// Page returns the values whose names come after one, in the order of names, at most limit
// of them, 1 to MaxPage. Fewer than that are the last: what cannot be read is among them,
// without a value.
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

// run runs a script. A key of a wrong type is set aside first.
func (s Store) run(ctx context.Context, script *wire.Script, args ...any) (any, error) {
	reply, err := s.wire.Eval(ctx, script, s.keys(), args)
	if s.mended(ctx, err) {
		reply, err = s.wire.Eval(ctx, script, s.keys(), args)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// pipeline sends commands. A key of a wrong type is set aside first.
func (s Store) pipeline(ctx context.Context, doing string, commands ...wire.Command) ([]any, error) {
	replies, err := s.wire.Pipeline(ctx, s.keys()[0], commands...)
	if s.mended(ctx, err) {
		replies, err = s.wire.Pipeline(ctx, s.keys()[0], commands...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return replies, nil
}

// mended reports whether an error was of a key of a wrong type, which is out of the way now.
func (s Store) mended(ctx context.Context, err error) bool {
	if !wire.HasCode(err, "WRONGTYPE") {
		return false
	}
	moved, err := s.wire.SetAside(ctx, s.keys(), []any{"hash", "zset", "hash"})
	return err == nil && moved > 0
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
