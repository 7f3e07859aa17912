package circulate

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var (
	// ErrClaimLost reports that an account was taken from the caller, who must
	// drop what it found rather than write it.
	ErrClaimLost = errors.New("circulate: claim lost")

	// ErrNotRegistered reports an id that no account has.
	ErrNotRegistered = errors.New("circulate: account not registered")

	// ErrResharding reports that accounts go to other shards than those that the
	// caller's ring was opened with: nothing was done, and is to be tried again with
	// one that is opened anew.
	ErrResharding = errors.New("circulate: the number of shards is changing; try again")

	// ErrMismatch reports that the namespace in Redis was made with other
	// settings than the caller's.
	ErrMismatch = errors.New("circulate: settings disagree with Redis")
)

// replied tells an error that Redis answered with, after which nothing was
// written, from one after which nobody knows whether it was.
func replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// Unknown reports whether err leaves open if the step was done: a time-out, or
// a connection cut before the reply. Such a step may be repeated; it must never
// be taken for a yes or a no.
func Unknown(err error) bool {
	return err != nil && !replied(err) && !errors.Is(err, errNotSent) && !verdict(err)
}

// verdict tells the ring's own findings, which are as certain as a reply.
func verdict(err error) bool {
	for _, known := range []error{ErrClaimLost, ErrNotRegistered, ErrParked, ErrMismatch, ErrResharding, ErrMalformedEntry, errReply, errInput} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// errInput marks what the caller must not ask for.
var errInput = errors.New("circulate")

// errNotSent marks a failure to reach Redis before anything was sent.
var errNotSent = errors.New("circulate: redis unreachable")

// Unavailable reports whether err is Redis as a whole not serving, rather than a
// fault of this step: unreachable, loading, out of memory, read-only, or a cluster
// in which the shard is on its way from node to node. Other nodes may serve.
func Unavailable(err error) bool {
	if err == nil || !replied(err) {
		return err != nil && !verdict(err)
	}
	if redirected(err) {
		return true
	}
	for _, code := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY ", "OOM ", "MISCONF", "READONLY", "NOREPLICAS", "max number of clients"} {
		if hasCode(err, code) {
			return true
		}
	}
	return false
}

// Full reports whether Redis is at its memory limit and refuses what could need
// more of it. What was refused was not done. Steps that free, or only read, are not
// refused.
func Full(err error) bool { return hasCode(err, "OOM ") }

// redirected reports whether a node of a cluster has not done what it was asked to,
// as another one serves the key now (MOVED), or is getting it (ASK, TRYAGAIN).
func redirected(err error) bool {
	return hasMoved(err) || hasPrefix(err, "ASK ") || hasPrefix(err, "TRYAGAIN")
}

func hasMoved(err error) bool { return hasPrefix(err, "MOVED ") }

func hasPrefix(err error, prefix string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(string(reply), prefix)
}

// Denied reports whether Redis refuses the credentials or lacks the permission:
// somebody is changing them, or must.
func Denied(err error) bool {
	return hasCode(err, "NOAUTH") || hasCode(err, "WRONGPASS") || hasCode(err, "NOPERM")
}

func hasCode(err error, code string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(string(reply), code)
}
