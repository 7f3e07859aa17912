package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed credential.lua
var credentialLua string

//go:embed credential_take.lua
var credentialTakeLua string

//go:embed credential_settle.lua
var credentialSettleLua string

//go:embed credential_drop.lua
var credentialDropLua string

//go:embed owner_pause.lua
var ownerPauseLua string

var (
	credentialTakeScript   = wire.NewScript("take credential", credentialLua+credentialTakeLua)
	credentialSettleScript = wire.NewScript("settle credential", credentialLua+credentialSettleLua)
	credentialDropScript   = wire.NewScript("drop credential", credentialLua+credentialDropLua)
	ownerPauseScript       = wire.NewScript("pause owner", credentialLua+ownerPauseLua)
)

// CredentialRef names a credential that a third party issues and that all
// replicas share, such as an access token. The ring knows neither the credential
// nor what it is got with: its value should be sealed, and a name that is derived
// from the secret makes another secret another credential.
type CredentialRef struct {
	Owner string // who shares the third party's limits, such as a corporation
	Name  string // one of the owner's credentials
}

// Credential is what all replicas know of one, by Redis' clock. Durations are
// from then on; they are zero where nothing of the kind holds.
type Credential struct {
	// Value is as it was settled; nil: there is none, or it has expired.
	Value   []byte
	Version int64 // of Value, for DropCredential
	Expires time.Duration

	// Fence is not zero where the caller is the one to fetch the credential, and
	// is to call SettleCredential with it; until then, and for no longer than the
	// lease, nobody else gets that task. There may be a Value all the same: the one
	// that it is time to replace.
	Fence int64
	// Wait is for how long somebody else may still be fetching it.
	Wait time.Duration

	// Refused is for how long nobody is to try again, as the third party refuses
	// what the credential is got with; Failed likewise, as it could not be fetched.
	Refused, Failed time.Duration
	Reason          string // of either

	// Paused is for how long the owner is to be left alone; see PauseOwner.
	Paused      time.Duration
	PauseReason string
}

// SettledAs is what came of fetching a credential.
type SettledAs string

// What may come of it.
const (
	Fetched SettledAs = "value"
	Refused SettledAs = "refused"
	Failed  SettledAs = "failed"
)

// CredentialSettlement is what came of fetching a credential. Nothing else may
// be known to have happened: of a call of unknown outcome it is Failed.
type CredentialSettlement struct {
	As      SettledAs
	Value   []byte        // as Fetched
	Reason  string        // otherwise: short, and no secret
	For     time.Duration // how long it holds, at least 1 ms
	Refresh time.Duration // as Fetched: after how long to replace it, at most For
}

// MaxCredential is how many bytes a credential's value may have.
const MaxCredential = 16 << 10

// DropGuard is for how long after a credential was dropped its successor cannot
// be: a third party that refuses all of them must not be asked for one by every
// account.
const DropGuard = time.Minute

// TakeCredential tells what is known of a credential, and makes the caller the
// one to fetch it where somebody should. After an unknown outcome that task may
// have been given to nobody; the lease ends by itself.
func (r *Ring) TakeCredential(ctx context.Context, ref CredentialRef, lease time.Duration) (Credential, error) {
	if err := errors.Join(ref.validate(), atLeastMS("lease", lease)); err != nil {
		return Credential{}, fmt.Errorf("%w: take credential: %w", wire.ErrInput, err)
	}
	reply, err := redis.Values(r.runCredential(ctx, credentialTakeScript, ref, lease.Milliseconds()))
	if err != nil {
		return Credential{}, err
	}
	var c Credential
	var expires, wait, refused, failed, paused int64
	_, err = redis.Scan(reply, &c.Value, &c.Version, &expires, &c.Fence, &wait, &refused, &failed, &c.Reason, &paused, &c.PauseReason)
	if err != nil || len(reply) != 10 {
		return Credential{}, fmt.Errorf("take credential: %w", errors.Join(wire.ErrReply, err))
	}
	if expires == 0 {
		c.Value, c.Version = nil, 0
	}
	c.Expires, c.Wait, c.Paused = milliseconds(expires), milliseconds(wait), milliseconds(paused)
	c.Refused, c.Failed = milliseconds(refused), milliseconds(failed)
	return c, nil
}

// SettleCredential tells what came of fetching a credential, and reports whether
// the fence still held: if not, somebody else fetches it or has done so, and
// nothing was written. It is safe to repeat, though it then reports false.
func (r *Ring) SettleCredential(ctx context.Context, ref CredentialRef, fence int64, s CredentialSettlement) (bool, error) {
	if err := errors.Join(ref.validate(), s.validate()); err != nil {
		return false, fmt.Errorf("%w: settle credential: %w", wire.ErrInput, err)
	}
	payload := s.Value
	if s.As != Fetched {
		payload = []byte(s.Reason)
	}
	return redis.Bool(r.runCredential(ctx, credentialSettleScript, ref, fence, string(s.As), payload, s.For.Milliseconds(), s.Refresh.Milliseconds()))
}

// DropCredential takes away the value of that version, which the third party
// refused, and no later one. It reports false where the value stays, since its
// predecessor was dropped less than DropGuard ago. It is safe to repeat.
func (r *Ring) DropCredential(ctx context.Context, ref CredentialRef, version int64) (bool, error) {
	if err := ref.validate(); err != nil {
		return false, fmt.Errorf("%w: drop credential: %w", wire.ErrInput, err)
	}
	return redis.Bool(r.runCredential(ctx, credentialDropScript, ref, version, DropGuard.Milliseconds()))
}

// PauseOwner has all replicas leave an owner alone, as its third party asked to,
// and tells for how long: for the first of steps, and where it happens again
// within memory of a pause's end for the next, up to the last. An owner that is
// paused already stays so and no longer: of many checks under way each meets the
// same limit.
func (r *Ring) PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error) {
	errs := []error{CredentialRef{Owner: owner, Name: "-"}.validate(), atLeastMS("memory", memory)}
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
	ms, err := redis.Int64(r.runCredential(ctx, ownerPauseScript, CredentialRef{Owner: owner}, args...))
	return milliseconds(ms), err
}

// runCredential does a step on a credential and its owner's pause. A key of a
// wrong type is set aside first.
func (r *Ring) runCredential(ctx context.Context, s *wire.Script, ref CredentialRef, args ...any) (any, error) {
	credential, pause := credentialKeys(r.namespace, ref)
	keys := []string{credential, pause}
	reply, err := r.wire.Eval(ctx, s, keys, args)
	if wire.HasCode(err, "WRONGTYPE") {
		if moved, moveErr := r.wire.SetAside(ctx, keys, []any{"hash", "hash"}); moveErr == nil && moved > 0 {
			reply, err = r.wire.Eval(ctx, s, keys, args)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return reply, nil
}

func (ref CredentialRef) validate() error {
	var errs []error
	if ref.Owner == "" {
		errs = append(errs, errors.New("owner: missing"))
	}
	if ref.Name == "" {
		errs = append(errs, errors.New("name: missing"))
	}
	return errors.Join(errs...)
}

func (s CredentialSettlement) validate() error {
	errs := []error{atLeastMS("for", s.For)}
	switch s.As {
	case Fetched:
		if len(s.Value) == 0 || len(s.Value) > MaxCredential {
			errs = append(errs, fmt.Errorf("value: must have 1 to %d bytes, has %d", MaxCredential, len(s.Value)))
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
	if d < time.Millisecond || d > maxTolerance {
		return fmt.Errorf("%s: must be 1ms to %v, is %v", name, maxTolerance, d)
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
