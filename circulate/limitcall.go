package circulate

import (
	"context"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// limitCall is one limit's part of a step.
type limitCall struct {
	keys []string
	args []any
}

type limitReply struct {
	reply any
	err   error
}

func (r *Ring) limitCall(l Limit, args []any) limitCall {
	state, leases := limitKeys(r.namespace, l.Name)
	return limitCall{keys: []string{state, leases}, args: args}
}

// runLimits does a step on several limits at once. Those that were refused for a
// reason that can be mended, and so were not done, are done once more by themselves.
func (r *Ring) runLimits(ctx context.Context, s *script, calls []limitCall) []limitReply {
	replies := r.pipelineLimits(ctx, s, calls)
	for i := range replies {
		reply, keys := &replies[i], calls[i].keys
		if hasCode(reply.err, "NOSCRIPT") || hasCode(reply.err, "MOVED ") || hasCode(reply.err, "ASK ") {
			reply.reply, reply.err = r.eval(ctx, s, keys, calls[i].args)
		}
		if hasCode(reply.err, "WRONGTYPE") && r.setLimitAside(ctx, keys) {
			reply.reply, reply.err = r.eval(ctx, s, keys, calls[i].args)
		}
	}
	return replies
}

// pipelineLimits sends one script for every limit. Unlike exchange it keeps the
// error of each: some may have been done where another was refused.
func (r *Ring) pipelineLimits(ctx context.Context, s *script, calls []limitCall) []limitReply {
	replies := make([]limitReply, len(calls))
	fail := func(from int, err error) []limitReply {
		for i := from; i < len(replies); i++ {
			replies[i].err = err
		}
		note(r.server, err)
		return replies
	}
	if len(calls) == 0 {
		return replies
	}
	conn, err := lend(ctx, r.server, calls[0].keys[0])
	if err != nil {
		return fail(0, err)
	}
	defer conn.Close()
	timeout, err := remaining(ctx)
	if err != nil {
		return fail(0, err)
	}
	for _, c := range calls {
		full := append(make([]any, 0, 4+len(c.args)), s.sha, len(c.keys), c.keys[0], c.keys[1])
		if err := conn.Send("EVALSHA", append(full, c.args...)...); err != nil {
			return fail(0, err)
		}
	}
	if err := conn.Flush(); err != nil {
		return fail(0, err)
	}
	deadline := time.Now().Add(timeout)
	for i := range replies {
		reply, err := redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		if err != nil && !replied(err) {
			return fail(i, err)
		}
		replies[i] = limitReply{reply, err}
	}
	note(r.server, nil)
	return replies
}

// setLimitAside renames what has the wrong type to be a limit's, so that it holds
// nobody up for ever.
func (r *Ring) setLimitAside(ctx context.Context, keys []string) bool {
	suffix := ":set_aside:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	moved, err := redis.Strings(r.eval(ctx, setAsideScript,
		[]string{keys[0], keys[1], keys[0] + suffix, keys[1] + suffix}, []any{"hash", "zset"}))
	for _, name := range moved {
		r.log.Error("key had the wrong type and was set aside", "key", name, "now", name+suffix)
	}
	r.setAside.Add(int64(len(moved)))
	return err == nil && len(moved) > 0
}
