// Package session keeps values for a limited time, for all processes of a namespace, under
// names that nobody can guess. The values are the sessions of people who signed in, and
// sign-ins of accounts that are under way.
//
// The package knows neither people nor cookies. It stores only the digests of names, so
// nobody learns a name by reading Redis. It does not look into values, which must not be
// secret.
package session

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed keep.lua
var keepLua string

//go:embed recall.lua
var recallLua string

//go:embed replace.lua
var replaceLua string

var (
	keepScript    = wire.NewScript("keep session", keepLua)
	recallScript  = wire.NewScript("recall session", recallLua)
	replaceScript = wire.NewScript("replace session", replaceLua)
)

// Kind is a sort of session. Each kind has its own names and limits.
type Kind int

// The kinds.
const (
	SignedIn  Kind = iota // sessions of people who signed in: at most 100 of each owner, 10,000 of all
	SigningIn             // sign-ins of accounts under way: at most 1,000 of each owner, 10,000 of all
)

// name returns the kind's part of the names of its Redis keys.
func (k Kind) name() string { return [...]string{"sessions", "signins"}[k] }

// each returns how many sessions an owner may have. most returns how many there may be in all.
func (k Kind) each() int { return [...]int{100, 1_000}[k] }
func (k Kind) most() int { return 10_000 }

const (
	// MaxValue is the most bytes of a value.
	MaxValue = 4 << 10
	// MaxLife is the longest life of a session.
	MaxLife = 30 * 24 * time.Hour
)

// ErrNone reports that there is no such session: it was never there, or has ended.
var ErrNone = errors.New("session: there is none, or it has ended")

// ErrChanged reports that a value is not the one that it was taken for.
var ErrChanged = errors.New("session: the value has changed")

// Store has the sessions of one kind of a namespace.
type Store struct {
	wire *wire.Wire
	kind Kind
}

// Of returns the sessions of a kind, of a ring's namespace.
func Of(ring *circulate.Ring, kind Kind) Store { return Store{ring.Wire(), kind} }

// Put stores a value under a name for the given life. If the owner has too many sessions,
// its oldest one is removed. If there are too many in all, the oldest of all is removed. Put
// is safe to repeat. After an unknown outcome the session may exist.
func (s Store) Put(ctx context.Context, name, owner string, value []byte, life time.Duration) error {
	var errs []error
	if name == "" {
		errs = append(errs, errors.New("name: missing"))
	}
	if len(value) > MaxValue {
		errs = append(errs, fmt.Errorf("value: must have at most %d bytes, has %d", MaxValue, len(value)))
	}
	if life < time.Millisecond || life > MaxLife {
		errs = append(errs, fmt.Errorf("life: must be 1ms to %v, is %v", MaxLife, life))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: put session: %w", wire.ErrInput, err)
	}
	_, err := s.run(ctx, keepScript, owner, digest(name), value, life.Milliseconds(), s.kind.each(), s.kind.most())
	return err
}

// Replace puts a value in the place of the one that Get returned. The session ends when it
// would have. It returns ErrChanged if somebody has put another value there meanwhile, and
// ErrNone if the session has ended. It is safe to repeat. After an unknown outcome the value
// may be there.
func (s Store) Replace(ctx context.Context, name string, old, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%w: replace session: value: must have at most %d bytes, has %d", wire.ErrInput, MaxValue, len(value))
	}
	done, err := redis.Int(s.run(ctx, replaceScript, "", digest(name), old, value))
	switch {
	case err != nil:
		return err
	case done < 0:
		return ErrNone
	case done == 0:
		return ErrChanged
	}
	return nil
}

// Get returns the value of a name, and how long it still lasts by Redis' clock. It returns
// ErrNone if there is no such session.
func (s Store) Get(ctx context.Context, name string) ([]byte, time.Duration, error) {
	return s.get(ctx, name, 0)
}

// Take is Get, and ends the session. If several callers take the same session, only one gets
// it. After an unknown outcome the session may have ended.
func (s Store) Take(ctx context.Context, name string) ([]byte, time.Duration, error) {
	return s.get(ctx, name, 1)
}

// End ends a session, for all processes at once. It is safe to repeat.
func (s Store) End(ctx context.Context, name string) error {
	if _, _, err := s.Take(ctx, name); err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	return nil
}

func (s Store) get(ctx context.Context, name string, end int) ([]byte, time.Duration, error) {
	reply, err := redis.Values(s.run(ctx, recallScript, "", digest(name), end))
	if err != nil {
		return nil, 0, err
	}
	if len(reply) == 0 {
		return nil, 0, ErrNone
	}
	var value []byte
	var left int64
	if _, err := redis.Scan(reply, &value, &left); err != nil || len(reply) != 2 {
		return nil, 0, fmt.Errorf("get session: %w", errors.Join(wire.ErrReply, err))
	}
	return value, time.Duration(left) * time.Millisecond, nil
}

// run runs a script. If a Redis key has a wrong type, it sets that key aside and tries again.
func (s Store) run(ctx context.Context, script *wire.Script, owner string, args ...any) (any, error) {
	keys := s.keys(owner)
	typed := []wire.Key{{keys[0], "zset"}, {keys[1], "hash"}, {keys[2], "zset"}}
	reply, err := wire.Mending(ctx, s.wire, typed, func() (any, error) { return s.wire.Eval(ctx, script, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// keys returns the three Redis keys that the scripts use. They share a hash tag.
func (s Store) keys(owner string) []string {
	tag := "{" + s.wire.Namespace() + ":" + s.kind.name() + "}:"
	return []string{tag + "ends", tag + "values", tag + "of:" + digest(owner)[:32]}
}

// digest returns the digest that is stored in place of a name. Names have more than a
// hundred random bits, so nobody finds one by trying.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
