// Package credential shares credentials that a third party issues, such as access tokens,
// among all replicas of a namespace: one replica fetches a credential and all use it. It
// also pauses an owner for all replicas when the owner's third party asks for that.
//
// The package knows neither the credentials nor the secrets that they are fetched with.
// Callers should seal the values that they store.
package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	takeScript       = wire.NewScript("take credential", lua("credential"), lua("take"))
	settleScript     = wire.NewScript("settle credential", lua("credential"), lua("settle"))
	dropScript       = wire.NewScript("drop credential", lua("credential"), lua("drop"))
	ownerPauseScript = wire.NewScript("pause owner", lua("credential"), lua("owner_pause"))
)

// Ref names a credential. If the name is derived from the secret, a new secret makes a
// new credential.
type Ref struct {
	Owner string // shares the third party's limits, such as a corporation
	Name  string // one of the owner's credentials
}

// Known is what all replicas know about a credential, by Redis' clock. Durations begin
// now; zero means that the field does not apply.
type Known struct {
	// Value is the value as it was settled, or nil if there is none or it has expired.
	Value   []byte
	Version int64 // of Value, for Drop
	Expires time.Duration

	// Fence is not zero if the caller must fetch the credential and call Settle with it.
	// Until then, but no longer than the lease, no other caller gets that task. There may
	// be a Value at the same time, which is due to be replaced.
	Fence int64
	// Wait is how long another caller may still be fetching it.
	Wait time.Duration

	// Refused is how long no replica may try again because the third party refuses the
	// secret. Failed is the same after a fetch that failed.
	Refused, Failed time.Duration
	Reason          string // of Refused or Failed

	// Paused is how long the owner must be left alone; see PauseOwner.
	Paused      time.Duration
	PauseReason string
}

// Outcome is the outcome of fetching a credential.
type Outcome string

// The outcomes.
const (
	Fetched Outcome = "value"
	Refused Outcome = "refused"
	Failed  Outcome = "failed"
)

// Settlement is the result of fetching a credential. A call of unknown outcome is Failed.
type Settlement struct {
	As      Outcome
	Value   []byte        // if Fetched
	Reason  string        // otherwise: short, without secrets
	For     time.Duration // how long it is valid, at least 1 ms
	Refresh time.Duration // if Fetched: after how long to replace it, at most For
}

// maxValue is how many bytes a credential's value may have.
const maxValue = 16 << 10

// maxReason is how many bytes of a reason are stored.
const maxReason = 256

// longest is the longest that any duration of this package may be.
const longest = 365 * 24 * time.Hour

// DropGuard is how long after a drop the new value cannot be dropped. If a third party
// refuses every credential, not every account may ask it for another one.
const DropGuard = time.Minute

// Store has the credentials of a namespace.
type Store struct{ wire *wire.Wire }

// Of returns the credentials of a ring's namespace.
func Of(ring *circulate.Ring) Store { return Store{ring.Wire(wire.Insider{})} }

// Take returns what is known about a credential. If it must be fetched, Take gives that
// task to one caller. If the outcome of the call is unknown, a caller may have the task
// without knowing it: its lease then ends by itself.
func (s Store) Take(ctx context.Context, ref Ref, lease time.Duration) (Known, error) {
	if err := errors.Join(ref.validate(), atLeastMS("lease", lease)); err != nil {
		return Known{}, fmt.Errorf("%w: take credential: %w", wire.ErrInput, err)
	}
	reply, err := redis.Values(s.run(ctx, takeScript, ref, lease.Milliseconds()))
	if err != nil {
		return Known{}, err
	}
	var c Known
	var expires, wait, refused, failed, paused int64
	_, err = redis.Scan(reply, &c.Value, &c.Version, &expires, &c.Fence, &wait, &refused, &failed, &c.Reason, &paused, &c.PauseReason)
	if err != nil || len(reply) != 10 {
		return Known{}, fmt.Errorf("take credential: %w", errors.Join(wire.ErrReply, err))
	}
	if expires == 0 {
		c.Value, c.Version = nil, 0
	}
	c.Expires, c.Wait, c.Paused = milliseconds(expires), milliseconds(wait), milliseconds(paused)
	c.Refused, c.Failed = milliseconds(refused), milliseconds(failed)
	return c, nil
}

// Settle stores the result of fetching a credential, and reports whether the fence was
// still valid. If not, another caller is fetching the credential or has done so, and
// nothing was written. It is safe to repeat, though it then returns false.
func (s Store) Settle(ctx context.Context, ref Ref, fence int64, came Settlement) (bool, error) {
	if err := errors.Join(ref.validate(), came.validate()); err != nil {
		return false, fmt.Errorf("%w: settle credential: %w", wire.ErrInput, err)
	}
	payload := came.Value
	if came.As != Fetched {
		payload = []byte(came.Reason)
	}
	held, err := redis.Bool(s.run(ctx, settleScript, ref, fence, string(came.As), payload, came.For.Milliseconds(), came.Refresh.Milliseconds()))
	if held {
		s.noteSettled(ctx, ref)
	}
	return held, err
}

// Drop removes the value if it still has this version, which the third party refused. It
// returns false if the value stays because its predecessor was dropped less than
// DropGuard ago. It is safe to repeat.
func (s Store) Drop(ctx context.Context, ref Ref, version int64) (bool, error) {
	if err := ref.validate(); err != nil {
		return false, fmt.Errorf("%w: drop credential: %w", wire.ErrInput, err)
	}
	return redis.Bool(s.run(ctx, dropScript, ref, version, DropGuard.Milliseconds()))
}

// PauseOwner pauses an owner for all replicas, as its third party asked, and returns for
// how long: the first of steps, and if it happens again within memory of a pause's end
// the next step, up to the last. It does not extend a pause, because many checks under
// way hit the same limit.
func (s Store) PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error) {
	errs := []error{Ref{Owner: owner, Name: "-"}.validate(), atLeastMS("memory", memory)}
	args := []any{reason[:min(len(reason), maxReason)], memory.Milliseconds()}
	for _, step := range steps {
		errs = append(errs, atLeastMS("steps", step))
		args = append(args, step.Milliseconds())
	}
	if len(steps) == 0 {
		errs = append(errs, errors.New("steps: missing"))
	}
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("%w: pause owner: %w", wire.ErrInput, err)
	}
	ms, err := redis.Int64(s.run(ctx, ownerPauseScript, Ref{Owner: owner}, args...))
	if err == nil {
		s.notePaused(ctx, owner, milliseconds(ms))
	}
	return milliseconds(ms), err
}

// run does a step on a credential and its owner's pause. A key of a wrong type is set
// aside first.
func (s Store) run(ctx context.Context, script *wire.Script, ref Ref, args ...any) (any, error) {
	credential, pause := keysOf(s.wire.Namespace(), ref)
	keys := []string{credential, pause}
	typed := []wire.Key{{credential, "hash"}, {pause, "hash"}}
	reply, err := wire.Mending(ctx, s.wire, typed, func() (any, error) { return s.wire.Eval(ctx, script, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// keysOf returns the keys of a credential and of its owner's pause; both are HASHes. They
// share a hash tag of the owner. Digests replace owners and names, because these may be
// any text and a name may be private.
func keysOf(namespace string, ref Ref) (credential, pause string) {
	owner, name := sha256.Sum256([]byte(ref.Owner)), sha256.Sum256([]byte(ref.Name))
	tag := namespace + ":credentials:{" + hex.EncodeToString(owner[:16]) + "}:"
	return tag + hex.EncodeToString(name[:16]), tag + "pause"
}

func (ref Ref) validate() error {
	var errs []error
	if ref.Owner == "" {
		errs = append(errs, errors.New("owner: missing"))
	}
	if ref.Name == "" {
		errs = append(errs, errors.New("name: missing"))
	}
	return errors.Join(errs...)
}

func (s Settlement) validate() error {
	errs := []error{atLeastMS("for", s.For)}
	switch s.As {
	case Fetched:
		if len(s.Value) == 0 || len(s.Value) > maxValue {
			errs = append(errs, fmt.Errorf("value: must have 1 to %d bytes, has %d", maxValue, len(s.Value)))
		}
		if s.Refresh < time.Millisecond || s.Refresh > s.For {
			errs = append(errs, fmt.Errorf("refresh: must be 1ms to %v, is %v", s.For, s.Refresh))
		}
	case Refused, Failed:
		if len(s.Reason) > maxReason {
			errs = append(errs, fmt.Errorf("reason: must have at most %d bytes, has %d", maxReason, len(s.Reason)))
		}
	default:
		errs = append(errs, errors.New("as: must be Fetched, Refused or Failed"))
	}
	return errors.Join(errs...)
}

func atLeastMS(name string, d time.Duration) error {
	if d < time.Millisecond || d > longest {
		return fmt.Errorf("%s: must be 1ms to %v, is %v", name, longest, d)
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Kept is a credential with its value, for backups.
type Kept struct {
	Owner   string
	ID      string // stands for its name: 32 hexadecimal digits
	Value   []byte // the value as it was settled
	Expires time.Time
	Refresh time.Time // when it is due to be replaced
}

// Values returns listed credentials that have a value, and how many it went through. It
// skips the first skip of the list and returns at most most.
func (s Store) Values(ctx context.Context, skip, most int) (kept []Kept, passed int, err error) {
	if skip < 0 || most < 1 || most > MostListed {
		return nil, 0, fmt.Errorf("%w: values of credentials: must be 1 to %d at once, not %d behind %d", wire.ErrInput, MostListed, most, skip)
	}
	settled, _ := s.indexes()
	members, now, err := s.index(ctx, settled, wire.Command{"ZREVRANGE", settled, skip, skip + most - 1})
	if err != nil {
		return nil, 0, err
	}
	for _, m := range members {
		if len(m) <= tailWidth {
			continue // not ours
		}
		one := Kept{ID: m[:tailWidth], Owner: m[tailWidth:]}
		key := s.keyAt(one.Owner, one.ID)
		replies, err := s.wire.Pipeline(ctx, key, wire.Command{"HMGET", key, "value", "expires", "refresh"})
		if wire.HasCode(err, "WRONGTYPE") {
			continue // the next Take sets it aside
		}
		if err != nil {
			return nil, 0, fmt.Errorf("values of credentials: %w", err)
		}
		fields, err := redis.ByteSlices(replies[0], nil)
		if err != nil || len(fields) != 3 {
			return nil, 0, fmt.Errorf("values of credentials: %w", errors.Join(wire.ErrReply, err))
		}
		expires, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil || len(fields[0]) == 0 || expires <= now.UnixMilli() {
			continue
		}
		refresh, _ := strconv.ParseInt(string(fields[2]), 10, 64)
		one.Value, one.Expires, one.Refresh = fields[0], time.UnixMilli(expires), time.UnixMilli(refresh)
		kept = append(kept, one)
	}
	return kept, len(members), nil
}

// Restore replaces a credential by the one of a backup. It returns false if that has
// expired. No process may be using the namespace.
func (s Store) Restore(ctx context.Context, k Kept) (bool, error) {
	errs := []error{Ref{Owner: k.Owner, Name: "-"}.validate()}
	if _, err := hex.DecodeString(k.ID); err != nil || len(k.ID) != tailWidth {
		errs = append(errs, fmt.Errorf("id: must have %d hexadecimal digits", tailWidth))
	}
	if len(k.Value) == 0 || len(k.Value) > maxValue {
		errs = append(errs, fmt.Errorf("value: must have 1 to %d bytes, has %d", maxValue, len(k.Value)))
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("%w: restore credential: %w", wire.ErrInput, err)
	}
	key := s.keyAt(k.Owner, k.ID)
	replies, err := s.wire.Pipeline(ctx, key, wire.Command{"TIME"})
	if err != nil {
		return false, fmt.Errorf("restore credential: %w", err)
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return false, err
	}
	left := k.Expires.Sub(now)
	if left < time.Millisecond || left > longest {
		return false, nil
	}
	// Fences are never behind the clock, so the next one is above this one.
	at := now.UnixMilli()
	_, err = s.wire.Pipeline(ctx, key,
		wire.Command{"HSET", key, "value", k.Value, "version", at, "fence", at, "expires", k.Expires.UnixMilli(), "refresh", k.Refresh.UnixMilli(), "seen", at},
		wire.Command{"PEXPIRE", key, (left + linger).Milliseconds()})
	if err != nil {
		return false, fmt.Errorf("restore credential: %w", err)
	}
	if len(k.Owner) <= ownerMost {
		settled, _ := s.indexes()
		s.note(ctx, settled, k.ID+k.Owner, 0, indexKeep)
	}
	return true, nil
}

// linger is how long an expired credential is remembered, as in settle.lua.
const linger = time.Hour

// keyAt returns the Redis key of an owner's credential.
func (s Store) keyAt(owner, id string) string {
	_, pause := keysOf(s.wire.Namespace(), Ref{Owner: owner})
	return pause[:len(pause)-len("pause")] + id
}
