package circulate

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed entry.lua
var entryLua string

//go:embed list.lua
var listLua string

// script is a step that Redis runs as one: entry.lua and the step's own text.
type script struct {
	name string
	text string
	sha  string
	kind purpose // of its calls
}

func newScript(name, text string) *script {
	text = entryLua + text
	sum := sha1.Sum([]byte(text))
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// newListScript is newVitalScript with what is in list.lua.
func newListScript(name, text string) *script { return newVitalScript(name, listLua+text) }

// newVitalScript is newScript for a step that must not wait behind others.
func newVitalScript(name, text string) *script {
	s := newScript(name, text)
	s.kind = vitally
	return s
}

// run does a step on a shard.
func (r *Ring) run(ctx context.Context, s *script, shard int, keys []string, args ...any) (any, error) {
	reply, err := settingAside(ctx, r, shard, func() (any, error) { return r.eval(ctx, s, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s, shard %d: %w", s.name, shard, err)
	}
	return reply, nil
}

// settingAside does something with a shard's keys. If one of them has the wrong
// type it is set aside, and the thing done once more.
func settingAside[T any](ctx context.Context, r *Ring, shard int, do func() (T, error)) (T, error) {
	reply, err := do()
	if hasCode(err, "WRONGTYPE") {
		if moved, moveErr := r.setAsideMistyped(ctx, shard); moveErr == nil && moved > 0 {
			return do()
		}
	}
	return reply, err
}

func (r *Ring) eval(ctx context.Context, s *script, keys []string, args []any) (any, error) {
	began := time.Now()
	conn, err := lendFor(ctx, r.server, keys[0], s.kind)
	if err != nil {
		noteCall(r.server, keys[0], began, err)
		return nil, err
	}
	defer conn.Close()
	full := make([]any, 0, 2+len(keys)+len(args))
	full = append(full, s.sha, len(keys))
	for _, k := range keys {
		full = append(full, k)
	}
	full = append(full, args...)
	reply, err := call(ctx, conn, "EVALSHA", full...)
	if hasCode(err, "NOSCRIPT") {
		r.resent.Add(1)
		full[0] = s.text
		reply, err = call(ctx, conn, "EVAL", full...)
	}
	noteCall(r.server, keys[0], began, err)
	return reply, err
}

// call sends a command and waits for its reply until the context's deadline or
// callTimeout. A cancelled context does not cut it short: that would make an
// unknown outcome of one that is about to be known.
func call(ctx context.Context, conn redis.Conn, name string, args ...any) (any, error) {
	timeout, err := remaining(ctx)
	if err != nil {
		return nil, err
	}
	return redis.DoWithTimeout(conn, timeout, name, args...)
}

func remaining(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, errors.Join(errNotSent, err)
	}
	timeout := callTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	if timeout <= 0 {
		return 0, errors.Join(errNotSent, context.DeadlineExceeded)
	}
	return timeout, nil
}

// command is a plain command, its name first.
type command []any

// maxMoves is how often a pipeline follows its shard to another node.
const maxMoves = 3

// pipeline sends commands to the node that serves key and gives their replies.
// An error reply to any of them is returned as the error. Where the shard has moved
// to another node, and so none was done, they are sent there.
func pipeline(ctx context.Context, server Server, key string, commands ...command) (replies []any, err error) {
	began := time.Now()
	for range 1 + maxMoves {
		replies, err = pipelineOnce(ctx, server, key, commands)
		if !hasMoved(err) || !noneDone(commands, replies) {
			break
		}
	}
	noteCall(server, key, began, err)
	return replies, err
}

func pipelineOnce(ctx context.Context, server Server, key string, commands []command) ([]any, error) {
	conn, err := lend(ctx, server, key)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if len(commands) == 1 {
		// A connection to a cluster sends a single command on by itself.
		reply, err := call(ctx, conn, commands[0][0].(string), commands[0][1:]...)
		return []any{reply}, err
	}
	return exchange(ctx, conn, commands)
}

// noneDone reports whether the replies say that no command on a key was done: each was
// redirected, or the transaction that they are was refused as a whole.
func noneDone(commands []command, replies []any) bool {
	if len(commands) != len(replies) {
		return false
	}
	if commands[0][0] == "MULTI" {
		refused, ok := replies[len(replies)-1].(redis.Error)
		return ok && (redirected(refused) || hasCode(refused, "EXECABORT"))
	}
	for i, r := range replies {
		if commands[i][0] == "TIME" {
			continue // may be asked of anybody, any number of times
		}
		if refused, ok := r.(redis.Error); !ok || !redirected(refused) {
			return false
		}
	}
	return true
}

// exchange sends commands at once and gives their replies, in the place of which
// is an error where that was the reply.
func exchange(ctx context.Context, conn redis.Conn, commands []command) ([]any, error) {
	timeout, err := remaining(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	deadline := time.Now().Add(timeout)
	var failed error
	for i := range replies {
		// All of them share the one deadline; 0 would mean none.
		replies[i], err = redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		if err != nil && !replied(err) {
			return nil, err
		}
		if err != nil {
			replies[i] = err
			if failed == nil {
				failed = err
			}
		}
	}
	return replies, failed
}

//go:embed setaside.lua
var setAsideLua string

var setAsideScript = newScript("set aside", setAsideLua)

// setAsideMistyped renames the shard's keys that have not the type they must
// have, so that the shard goes on and nothing is destroyed.
func (r *Ring) setAsideMistyped(ctx context.Context, shard int) (int, error) {
	all := r.keys[shard].all()
	suffix := ":set_aside:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	keys, args := make([]string, 0, 2*len(all)), make([]any, 0, len(all))
	for _, k := range all {
		keys, args = append(keys, k.name), append(args, k.kind)
	}
	for _, k := range all {
		keys = append(keys, k.name+suffix)
	}
	moved, err := redis.Strings(r.eval(ctx, setAsideScript, keys, args))
	if err != nil {
		return 0, err
	}
	for _, name := range moved {
		r.log.Error("key had the wrong type and was set aside", "key", name, "now", name+suffix, "shard", shard)
	}
	r.setAside.Add(int64(len(moved)))
	return len(moved), nil
}
