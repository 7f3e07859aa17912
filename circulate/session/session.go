// Package session keeps what a name that nobody can guess stands for, for a while, for
// all processes of a namespace: the sessions of those who signed in, and sign-ins that
// are under way.
//
// The package knows neither people nor cookies. Names are kept as their digests: whoever
// reads Redis learns none. Values are their owner's business, and are no secrets.
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

var (
	keepScript   = wire.NewScript("keep session", keepLua)
	recallScript = wire.NewScript("recall session", recallLua)
)

// Kind is a sort of session, apart from others.
type Kind int

// The kinds.
const (
	SignedIn  Kind = iota // the sessions of those who signed in: 100 of each owner, 10,000 of all
	SigningIn             // the sign-ins under way: 1,000 of each owner, 10,000 of all
)

// name is what a kind's keys have in theirs.
func (k Kind) name() string { return [...]string{"sessions", "signins"}[k] }

// each is how many an owner may have, and most how many there may be.
func (k Kind) each() int { return [...]int{100, 1_000}[k] }
func (k Kind) most() int { return 10_000 }

const (
	// MaxValue is how many bytes a value may have.
	MaxValue = 4 << 10
	// MaxLife is how long a session may last at most.
	MaxLife = 30 * 24 * time.Hour
)

// ErrNone reports that there is no such session: it was never there, or has ended.
var ErrNone = errors.New("session: there is none, or it has ended")

// Store has the sessions of one kind of a namespace.
type Store struct {
	wire *wire.Wire
	kind Kind
}

// Of returns the sessions of a kind, of a ring's namespace.
func Of(ring *circulate.Ring, kind Kind) Store { return Store{ring.Wire(), kind} }

// Put keeps a value under a name for as long as life says. The owner's oldest session goes
// where it has too many, and the oldest of all where there are too many. It is safe to
// repeat; after an unknown outcome the session may be there.
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

// Get returns what a name stands for, and for how long still, by Redis' clock. It is
// ErrNone where there is no such session.
func (s Store) Get(ctx context.Context, name string) ([]byte, time.Duration, error) {
	return s.get(ctx, name, 0)
}

// Take is Get, and ends the session: of several who take one, one gets it. After an
// unknown outcome it has ended, or not.
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

// run does a step. A key of a wrong type is set aside first.
func (s Store) run(ctx context.Context, script *wire.Script, owner string, args ...any) (any, error) {
	keys := s.keys(owner)
	reply, err := s.wire.Eval(ctx, script, keys, args)
	if wire.HasCode(err, "WRONGTYPE") {
		if moved, moveErr := s.wire.SetAside(ctx, keys, []any{"zset", "hash", "zset"}); moveErr == nil && moved > 0 {
			reply, err = s.wire.Eval(ctx, script, keys, args)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// keys are the three keys of the put script's header. They share a hash tag.
func (s Store) keys(owner string) []string {
	tag := "{" + s.wire.Namespace() + ":" + s.kind.name() + "}:"
	return []string{tag + "ends", tag + "values", tag + "of:" + digest(owner)[:32]}
}

// digest is what is kept of a name. Names have more than a hundred random bits, so that
// nobody finds one by trying.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
