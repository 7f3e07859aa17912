package circulate

import (
	"fmt"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	// ErrClaimLost reports that an account was taken from the caller, who must drop the
	// result and not write it.
	ErrClaimLost = wire.Finding("circulate: claim lost")

	// ErrNotRegistered reports an id that no account has.
	ErrNotRegistered = wire.Finding("circulate: account not registered")

	// ErrResharding reports that accounts are moving to shards that the caller's ring
	// does not know. Nothing was done. Open the ring again and repeat the step.
	ErrResharding = wire.Finding("circulate: the number of shards is changing; try again")

	// ErrMismatch reports that the namespace in Redis was made with other settings than
	// the caller's.
	ErrMismatch = wire.Finding("circulate: settings disagree with Redis")

	// ErrNoNamespace reports that the namespace does not exist, if Options.Existing is
	// set.
	ErrNoNamespace = wire.Finding("circulate: there is no namespace")
)

// Unknown reports whether err leaves open whether the step was done: a time-out, or a
// connection cut before the reply. Such a step may be repeated. Never take it for a yes
// or a no.
func Unknown(err error) bool { return wire.Unknown(err) }

// Unavailable reports whether err means that Redis as a whole does not serve, rather than
// a fault of this step: it is unreachable, loading, out of memory or read-only, or the
// shard is on its way between nodes of a cluster. Other nodes may serve.
func Unavailable(err error) bool { return wire.Unavailable(err) }

// Full reports whether Redis is at its memory limit and refused a step that could need
// more. The step was not done. Steps that free memory, or only read, are not refused.
func Full(err error) bool { return wire.Full(err) }

// Denied reports whether Redis refuses the credentials, or the user lacks a permission.
// An operator is changing them, or must.
func Denied(err error) bool { return wire.Denied(err) }

// ShardsError reports that a namespace has another number of shards than the caller asked
// for. It is an ErrMismatch.
type ShardsError struct {
	Namespace string
	Has, Want int
}

// Error returns both numbers.
func (e *ShardsError) Error() string {
	return fmt.Sprintf("%v: namespace %q has %d shards, the settings say %d", ErrMismatch, e.Namespace, e.Has, e.Want)
}

// Unwrap returns ErrMismatch.
func (e *ShardsError) Unwrap() error { return ErrMismatch }

// LockedOut reports whether Redis was reached and refused the password, or demands one.
func LockedOut(err error) bool { return wire.LockedOut(err) }
