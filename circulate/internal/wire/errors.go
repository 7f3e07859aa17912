package wire

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// finding is an error that we found ourselves. It is as certain as a reply of Redis.
type finding struct{ text string }

func (f *finding) Error() string { return f.text }

// Finding makes an error that leaves nothing open: it was found in Redis' reply, or
// before anything was sent. Compare it by errors.Is.
func Finding(text string) error { return &finding{text} }

var (
	// ErrInput marks an invalid request of the caller.
	ErrInput = Finding("circulate")

	// ErrReply reports a reply that does not have the required form.
	ErrReply = Finding("circulate: unexpected reply")

	// errNotSent marks a failure to reach Redis before anything was sent.
	errNotSent = errors.New("circulate: redis unreachable")
)

// found reports whether an error is a finding.
func found(err error) bool {
	_, ok := errors.AsType[*finding](err)
	return ok
}

// Replied reports whether an error is a reply of Redis, which means that nothing was
// written. Other errors leave that open.
func Replied(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// Unknown reports whether err leaves open whether the step was done: a time-out, or a
// connection cut before the reply. Such a step may be repeated. Never take it for a yes
// or a no.
func Unknown(err error) bool {
	return err != nil && !Replied(err) && !errors.Is(err, errNotSent) && !found(err)
}

// Unavailable reports whether err means that Redis as a whole does not serve, rather than
// a fault of this step: it is unreachable, loading, out of memory or read-only, or the
// shard is on its way between nodes of a cluster. Other nodes may serve.
func Unavailable(err error) bool {
	if err == nil || !Replied(err) {
		return err != nil && !found(err)
	}
	if Redirected(err) {
		return true
	}
	for _, code := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY ", "OOM ", "MISCONF", "READONLY", "NOREPLICAS", "max number of clients"} {
		if HasCode(err, code) {
			return true
		}
	}
	return false
}

// Full reports whether Redis is at its memory limit and refused a step that could need
// more. The step was not done. Steps that free memory, or only read, are not refused.
func Full(err error) bool { return HasCode(err, "OOM ") }

// Denied reports whether Redis refuses the credentials, or the user lacks a permission.
// An operator is changing them, or must.
func Denied(err error) bool {
	return HasCode(err, "NOAUTH") || HasCode(err, "WRONGPASS") || HasCode(err, "NOPERM")
}

// LockedOut reports whether Redis was reached and refused the password, or demands one.
func LockedOut(err error) bool {
	return HasCode(err, "NOAUTH") || HasCode(err, "WRONGPASS") || HasCode(err, "ERR invalid password") || HasCode(err, "ERR AUTH <password>")
}

// Redirected reports whether a node of a cluster did not do a command, because another
// node serves the key now (MOVED), or is about to (ASK, TRYAGAIN).
func Redirected(err error) bool {
	return HasMoved(err) || hasPrefix(err, "ASK ") || hasPrefix(err, "TRYAGAIN")
}

// HasMoved reports whether another node serves the key now.
func HasMoved(err error) bool { return hasPrefix(err, "MOVED ") }

func hasPrefix(err error, prefix string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && strings.HasPrefix(string(reply), prefix)
}

// HasCode reports whether Redis answered with an error that contains a code.
func HasCode(err error, code string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && strings.Contains(string(reply), code)
}
