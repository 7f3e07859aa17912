// Package wire connects a program to the Redis of one namespace. It lends connections,
// sends scripts and pipelines, bounds how long they take, notes which nodes do not serve,
// and classifies errors.
//
// It knows no accounts and no groups, only the keys of a shard. Package circulate and the
// packages beside this one give the steps their meaning. They share one [Wire] for each
// ring.
package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// MaxBatch is the most accounts, checks or messages that one step may handle.
	MaxBatch = 1000
	// CallTimeout bounds a call whose context has no earlier deadline.
	CallTimeout = 10 * time.Second
)

// Options are a wire's settings.
type Options struct {
	Log *slog.Logger // nil: nothing is logged
	// Observe is called after each call with its duration and error, from any goroutine.
	// Nil: it is not called.
	Observe func(took time.Duration, err error)
	// Keys returns all keys of a shard. Nil: no key is ever set aside.
	Keys func(shard int) []Key
}

// Wire reaches the Redis of one namespace. It is safe for concurrent use.
type Wire struct {
	server    Server
	namespace string
	log       *slog.Logger
	observe   func(took time.Duration, err error)
	keys      func(shard int) []Key

	setAside atomic.Int64
	resent   atomic.Int64 // scripts

	beside sync.Map

	mu      sync.Mutex
	away    map[string]absence  // by node, as NodeOf names it
	outages map[string]outage   // the last one that is over, by node
	full    map[string]fullness // by node
}

// Insider is the argument of circulate.Ring.Wire. Only packages that may import this one
// can make it. Its field has no name outside, so no other struct converts to it.
type Insider struct{ _ struct{} }

// New makes a wire to a server for the keys of a namespace.
func New(server Server, namespace string, o Options) *Wire {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Wire{server: server, namespace: namespace, log: o.Log, observe: o.Observe, keys: o.Keys}
}

// Server returns where the server is, without a password, or "an unnamed server".
func (w *Wire) Server() string {
	if named, ok := w.server.(interface{ Name() string }); ok {
		return named.Name()
	}
	return "an unnamed server"
}

// Namespace returns what the keys begin with.
func (w *Wire) Namespace() string { return w.namespace }

// Log returns the wire's logger.
func (w *Wire) Log() *slog.Logger { return w.log }

// Beside returns the value that a package stores in the wire under a key of its own. The
// first call makes it.
func (w *Wire) Beside(key any, make func() any) any {
	if v, ok := w.beside.Load(key); ok {
		return v
	}
	v, _ := w.beside.LoadOrStore(key, make())
	return v
}

// SetAsideCount returns how many unusable things were moved out of the way.
func (w *Wire) SetAsideCount() int64 { return w.setAside.Load() }

// CountSetAside adds n to SetAsideCount.
func (w *Wire) CountSetAside(n int) { w.setAside.Add(int64(n)) }

// ScriptsSent returns how often a script's text had to be sent because Redis did not have
// it.
func (w *Wire) ScriptsSent() int64 { return w.resent.Load() }

// placer is a Server of several nodes.
type placer interface {
	// NodeOf names the node that serves a key now.
	NodeOf(key string) string
}

// NodeOf returns the node that serves a key, or "" if there is only one.
func (w *Wire) NodeOf(key string) string {
	if p, ok := w.server.(placer); ok {
		return p.NodeOf(key)
	}
	return ""
}

// call sends a command and waits for its reply until the context's deadline or
// CallTimeout. A cancelled context does not cut it short: that would leave the outcome
// unknown just before it is known.
func call(ctx context.Context, conn redis.Conn, name string, args ...any) (any, error) {
	timeout, err := Remaining(ctx)
	if err != nil {
		return nil, err
	}
	return redis.DoWithTimeout(conn, timeout, name, args...)
}

// Remaining returns how long a call that begins now may take. If the context is done, the
// error says that nothing was sent.
func Remaining(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, errors.Join(errNotSent, err)
	}
	timeout := CallTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	if timeout <= 0 {
		return 0, errors.Join(errNotSent, context.DeadlineExceeded)
	}
	return timeout, nil
}

// Time reads a reply to TIME.
func Time(reply any) (time.Time, error) {
	t, err := redis.Int64s(reply, nil)
	if err != nil || len(t) != 2 {
		return time.Time{}, errors.Join(errors.New("circulate: unreadable TIME"), err)
	}
	return time.Unix(t[0], t[1]*1000), nil
}

// CheckBatch returns an error if a step may not handle n accounts at once.
func CheckBatch(step string, n int) error {
	if n < 1 || n > MaxBatch {
		return fmt.Errorf("%w: %s: a batch has 1 to %d accounts, not %d", ErrInput, step, MaxBatch, n)
	}
	return nil
}

// ValidateGroup returns what is wrong with a consumer group's name. It must be 1 to 64
// letters, digits, dots, dashes or underscores.
func ValidateGroup(group string) error {
	if !namePattern.MatchString(group) {
		return errors.New("must be 1 to 64 letters, digits, dots, dashes or underscores")
	}
	return nil
}

// CheckGroup is ValidateGroup, and its error names the step.
func CheckGroup(step, group string) error {
	if err := ValidateGroup(group); err != nil {
		return fmt.Errorf("%w: %s: group %q: %w", ErrInput, step, group, err)
	}
	return nil
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ValidateNamespace returns what is wrong with a namespace. It must be 1 to 64 letters,
// digits, dots, dashes or underscores.
func ValidateNamespace(namespace string) error {
	if !namePattern.MatchString(namespace) {
		return errors.New("must be 1 to 64 letters, digits, dots, dashes or underscores")
	}
	return nil
}

// Flag returns 1 for true and 0 for false, as scripts take them.
func Flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// BytesAt returns the i-th value of a reply that may be shorter or have nil there.
func BytesAt(values []any, i int) []byte {
	if i >= len(values) {
		return nil
	}
	b, _ := values[i].([]byte)
	return b
}

// Server lends connections to the Redis that serves a key. The caller closes
// them. Package connect has implementations.
type Server interface {
	Conn(ctx context.Context, key string) (redis.Conn, error)
}

// Divided is a Server with separate connections for each purpose, so that one kind of
// call never waits behind another. With a Server that is not Divided all calls share
// connections.
type Divided interface {
	Server
	// VitalConn lends a connection for heartbeats, claims and steps that end claims.
	// While these wait, accounts are not checked.
	VitalConn(ctx context.Context, key string) (redis.Conn, error)
	// GroupConn lends a connection for a step of a consumer group. There may be any
	// number of groups.
	GroupConn(ctx context.Context, key string) (redis.Conn, error)
	// BlockingConn lends a connection for a call that Redis does not answer until
	// something happens, or for a subscription. The caller has it for seconds, or for
	// good.
	BlockingConn(ctx context.Context, key string) (redis.Conn, error)
}

// Purpose is the use of a connection.
type Purpose uint8

// The purposes for which a [Divided] server has separate connections.
const (
	Ordinary Purpose = iota
	Vital
	ForGroups
	Blocking
)

// Lend lends one of the server's connections for a purpose, and notes whether that was
// possible. The caller closes it.
func (w *Wire) Lend(ctx context.Context, key string, p Purpose) (redis.Conn, error) {
	// This is bounded even if the caller's context is not: the pool may be testing
	// connections of a silent server, one after the other.
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	conn, err := connFor(ctx, w.server, key, p)
	if err != nil {
		w.Note(key, time.Now(), err)
		if Replied(err) { // the server was reached and refuses us
			return nil, fmt.Errorf("circulate: %w", err)
		}
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return conn, nil
}

func connFor(ctx context.Context, server Server, key string, p Purpose) (redis.Conn, error) {
	if s, ok := server.(Divided); ok {
		switch p {
		case Vital:
			return s.VitalConn(ctx, key)
		case ForGroups:
			return s.GroupConn(ctx, key)
		case Blocking:
			return s.BlockingConn(ctx, key)
		}
	}
	return server.Conn(ctx, key)
}
