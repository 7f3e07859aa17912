package wire

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// finding is an error that we found out ourselves. It is as certain as a reply of
// Redis.
type finding struct{ text string }

func (f *finding) Error() string { return f.text }

// Finding makes an error that leaves nothing open: what it reports was found in
// what Redis replied, or before anything was sent. It is compared by errors.Is.
func Finding(text string) error { return &finding{text} }

var (
	// ErrInput marks what the caller must not ask for.
	ErrInput = Finding("circulate")

	// ErrReply reports a reply that has not the form it must have.
	ErrReply = Finding("circulate: unexpected reply")

	// errNotSent marks a failure to reach Redis before anything was sent.
	errNotSent = errors.New("circulate: redis unreachable")
)

// found tells our own findings from other errors.
func found(err error) bool {
	_, ok := errors.AsType[*finding](err)
	return ok
}

// Replied tells an error that Redis answered with, after which nothing was
// written, from one after which nobody knows whether it was.
func Replied(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// Unknown reports whether err leaves open if the step was done: a time-out, or
// a connection cut before the reply. Such a step may be repeated; it must never
// be taken for a yes or a no.
func Unknown(err error) bool {
	return err != nil && !Replied(err) && !errors.Is(err, errNotSent) && !found(err)
}

// Unavailable reports whether err is Redis as a whole not serving, rather than a
// fault of this step: unreachable, loading, out of memory, read-only, or a cluster
// in which the shard is on its way from node to node. Other nodes may serve.
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

// Full reports whether Redis is at its memory limit and refuses what could need
// more of it. What was refused was not done. Steps that free, or only read, are not
// refused.
func Full(err error) bool { return HasCode(err, "OOM ") }

// Denied reports whether Redis refuses the credentials or lacks the permission:
// somebody is changing them, or must.
func Denied(err error) bool {
	return HasCode(err, "NOAUTH") || HasCode(err, "WRONGPASS") || HasCode(err, "NOPERM")
}

// LockedOut reports whether Redis was reached and refused the password, or wants one.
func LockedOut(err error) bool {
	return HasCode(err, "NOAUTH") || HasCode(err, "WRONGPASS") || HasCode(err, "ERR invalid password") || HasCode(err, "ERR AUTH <password>")
}

// Redirected reports whether a node of a cluster has not done what it was asked to,
// as another one serves the key now (MOVED), or is getting it (ASK, TRYAGAIN).
func Redirected(err error) bool {
	return HasMoved(err) || hasPrefix(err, "ASK ") || hasPrefix(err, "TRYAGAIN")
}

// HasMoved reports whether another node serves the key now.
func HasMoved(err error) bool { return hasPrefix(err, "MOVED ") }

func hasPrefix(err error, prefix string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && strings.HasPrefix(string(reply), prefix)
}

// HasCode reports whether Redis answered with an error that has a code in it.
func HasCode(err error, code string) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && strings.Contains(string(reply), code)
}
