// Package namespace looks at everything that a namespace has in Redis, whatever its
// state, and removes it. It opens no ring, because opening would make a namespace that
// does not exist.
package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

const (
	// page is about how many keys of a server one step looks at or removes.
	page = 500
	// passes is how often all servers are walked through. A second pass finds keys that a
	// cluster moved between nodes meanwhile, and keys that were made again.
	passes = 5
	// stepWithin bounds one step on one server.
	stepWithin = 10 * time.Second
)

// ErrNotGone reports that keys were made again and again while a namespace was removed: a
// process still uses it.
var ErrNotGone = errors.New("namespace: its keys were made again while they were removed")

// Found is what a namespace has. Accounts and messages are counted only in readable keys.
type Found struct {
	Keys, Accounts, Messages int
	Alive                    []Process // the latest first
}

// Process is a process that reported itself lately.
type Process struct {
	Name   string // unique among processes; a replica has the name of its process
	Roles  string // names joined by commas; empty: it is only known as a replica
	Silent time.Duration
	About  []byte // its report; opaque here, empty for a replica
}

// Look walks through the keys of a namespace, a page at a time on each server, and
// returns what it found. Alive has the processes that reported within the window, by
// Redis' clocks, each once.
func Look(ctx context.Context, server circulate.Server, name string, window time.Duration) (Found, error) {
	if err := circulate.ValidateNamespace(name); err != nil {
		return Found{}, fmt.Errorf("namespace %q: %w", name, err)
	}
	var found Found
	err := walk(ctx, server, name, func(ctx context.Context, conn redis.Conn, keys []string) error {
		found.Keys += len(keys)
		return found.read(ctx, conn, keys, window)
	})
	found.Alive = once(found.Alive)
	return found, err
}

// once returns the processes without the replicas in them, the latest first.
func once(all []Process) []Process {
	processes := make(map[string]bool)
	for _, p := range all {
		processes[p.Name] = processes[p.Name] || p.Roles != ""
	}
	all = slices.DeleteFunc(all, func(p Process) bool { return p.Roles == "" && processes[p.Name] })
	slices.SortStableFunc(all, func(a, b Process) int { return cmp.Compare(a.Silent, b.Silent) })
	return all
}

// read counts the contents of a page of keys.
func (f *Found) read(ctx context.Context, conn redis.Conn, keys []string, window time.Duration) error {
	for _, key := range keys {
		var n int
		var err error
		switch circulate.RoleOf(key) {
		case circulate.KeyOfAccounts:
			n, err = redis.Int(do(ctx, conn, "HLEN", key))
			f.Accounts += n
		case circulate.KeyOfMessages:
			n, err = redis.Int(do(ctx, conn, "XLEN", key))
			f.Messages += n
		case circulate.KeyOfPresence:
			err = f.readPresence(ctx, conn, key, window)
		}
		var reply redis.Error
		if err != nil && !errors.As(err, &reply) { // a key of another type is removed all the same
			return err
		}
	}
	return nil
}

// readPresence reads the processes that reported within the window.
func (f *Found) readPresence(ctx context.Context, conn redis.Conn, key string, window time.Duration) error {
	clock, err := redis.Int64s(do(ctx, conn, "TIME"))
	if err != nil || len(clock) != 2 {
		return errors.Join(err, ctx.Err())
	}
	now := clock[0]*1000 + clock[1]/1000
	members, err := redis.Strings(do(ctx, conn, "ZREVRANGEBYSCORE", key, "+inf", now-window.Milliseconds(), "WITHSCORES", "LIMIT", 0, page))
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(members); i += 2 {
		var said float64
		if _, err := fmt.Sscan(members[i+1], &said); err != nil {
			return err
		}
		p := Process{Name: members[i], Silent: time.Duration(max(0, now-int64(said))) * time.Millisecond}
		if roles, name, both := strings.Cut(members[i], "|"); both {
			p.Roles, p.Name = roles, name
			if p.About, err = redis.Bytes(do(ctx, conn, "HGET", circulate.AboutKey(key), members[i])); err != nil && !errors.Is(err, redis.ErrNil) {
				return err
			}
		}
		f.Alive = append(f.Alive, p)
	}
	return nil
}

// Remove removes all keys of a namespace, a page at a time on each server, and calls
// progress with the number removed so far. It may be interrupted and repeated. The caller
// must know that nobody uses the namespace: if keys are made again, it returns
// ErrNotGone.
func Remove(ctx context.Context, server circulate.Server, name string, progress func(removed int)) (removed int, err error) {
	if err := circulate.ValidateNamespace(name); err != nil {
		return 0, fmt.Errorf("namespace %q: %w", name, err)
	}
	var failed error
	for range passes {
		before := removed
		failed = walk(ctx, server, name, func(ctx context.Context, conn redis.Conn, keys []string) error {
			n, err := unlink(ctx, conn, keys)
			removed += n
			progress(removed)
			return err
		})
		var reply redis.Error
		switch {
		case ctx.Err() != nil:
			return removed, context.Cause(ctx)
		case failed != nil && !errors.As(failed, &reply): // such as MOVED: the next pass finds them elsewhere
			return removed, failed
		case failed == nil && removed == before:
			return removed, nil
		}
	}
	if failed != nil {
		return removed, failed
	}
	return removed, fmt.Errorf("%w: %q", ErrNotGone, name)
}

// unlink removes keys, each by a separate command, because the keys of a cluster's node
// are in many slots. Redis frees the memory in the background.
func unlink(ctx context.Context, conn redis.Conn, keys []string) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	for _, key := range keys {
		if err := conn.Send("UNLINK", key); err != nil {
			return 0, err
		}
	}
	if err := conn.Flush(); err != nil {
		return 0, err
	}
	for range keys {
		n, replyErr := redis.Int(redis.ReceiveContext(conn, ctx))
		removed += n
		err = errors.Join(err, replyErr)
	}
	return removed, err
}

// walk calls visit with every key of a namespace, a page of one server at a time.
func walk(ctx context.Context, server circulate.Server, name string, visit func(context.Context, redis.Conn, []string) error) error {
	return connect.EachServer(ctx, server, func(ctx context.Context, address string, conn redis.Conn) error {
		for _, pattern := range circulate.KeyPatterns(name) {
			for cursor := "0"; ; {
				reply, err := redis.Values(do(ctx, conn, "SCAN", cursor, "MATCH", pattern, "COUNT", page))
				if err != nil || len(reply) != 2 {
					return fmt.Errorf("redis %s: SCAN: %w", address, errors.Join(err, ctx.Err()))
				}
				keys, err := redis.Strings(reply[1], nil)
				if err != nil {
					return fmt.Errorf("redis %s: SCAN: %w", address, err)
				}
				if err := visit(ctx, conn, keys); err != nil {
					return fmt.Errorf("redis %s: %w", address, err)
				}
				if cursor, err = redis.String(reply[0], nil); err != nil || cursor == "0" {
					if err != nil {
						return fmt.Errorf("redis %s: SCAN: %w", address, err)
					}
					break
				}
			}
		}
		return nil
	})
}

// do does one bounded command.
func do(ctx context.Context, conn redis.Conn, command string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return redis.DoContext(conn, ctx, command, args...)
}
