package circulate

import (
	"context"
	"slices"
	"strconv"
	"sync"
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
		if hasCode(reply.err, "NOSCRIPT") || redirected(reply.err) {
			reply.reply, reply.err = r.eval(ctx, s, keys, calls[i].args)
		}
		if hasCode(reply.err, "WRONGTYPE") && r.setLimitAside(ctx, keys) {
			reply.reply, reply.err = r.eval(ctx, s, keys, calls[i].args)
		}
	}
	return replies
}

// pipelineLimits sends one script for every limit, to all nodes that they are on at
// once. Unlike exchange it keeps the error of each: some may have been done where
// another was refused.
func (r *Ring) pipelineLimits(ctx context.Context, s *script, calls []limitCall) []limitReply {
	replies := make([]limitReply, len(calls))
	byNode := make(map[string][]int)
	for i := range calls {
		node := nodeOf(r.server, calls[i].keys[0])
		byNode[node] = append(byNode[node], i)
	}
	var others sync.WaitGroup
	for _, items := range byNode {
		if len(byNode) == 1 {
			r.pipelineNode(ctx, s, calls, items, replies)
			break
		}
		others.Go(func() { r.pipelineNode(ctx, s, calls, items, replies) })
	}
	others.Wait()
	return replies
}

// pipelineNode does so for the limits of one node.
func (r *Ring) pipelineNode(ctx context.Context, s *script, calls []limitCall, items []int, replies []limitReply) {
	key, began := calls[items[0]].keys[0], time.Now()
	fail := func(from int, err error) {
		for _, i := range items[from:] {
			replies[i].err = err
		}
		noteCall(r.server, key, began, err)
	}
	conn, err := lend(ctx, r.server, key)
	if err != nil {
		fail(0, err)
		return
	}
	defer conn.Close()
	timeout, err := remaining(ctx)
	if err != nil {
		fail(0, err)
		return
	}
	for _, i := range items {
		c := &calls[i]
		full := append(make([]any, 0, 4+len(c.args)), s.sha, len(c.keys), c.keys[0], c.keys[1])
		if err := conn.Send("EVALSHA", append(full, c.args...)...); err != nil {
			fail(0, err)
			return
		}
	}
	if err := conn.Flush(); err != nil {
		fail(0, err)
		return
	}
	deadline := time.Now().Add(timeout)
	for n, i := range items {
		reply, err := redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		if err != nil && !replied(err) {
			fail(n, err)
			return
		}
		replies[i] = limitReply{reply, err}
	}
	noteCall(r.server, key, began, nil)
}

// setLimitAside renames what has the wrong type to be a limit's, so that it holds
// nobody up for ever.
func (r *Ring) setLimitAside(ctx context.Context, keys []string) bool {
	return r.setAsideTyped(ctx, keys, "hash", "zset")
}

// setAsideTyped renames those of the keys that have not the type they must have,
// and reports whether there were any.
func (r *Ring) setAsideTyped(ctx context.Context, keys []string, types ...any) bool {
	suffix := ":set_aside:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	all := slices.Clone(keys)
	for _, key := range keys {
		all = append(all, key+suffix)
	}
	moved, err := redis.Strings(r.eval(ctx, setAsideScript, all, types))
	for _, name := range moved {
		r.log.Error("key had the wrong type and was set aside", "key", name, "now", name+suffix)
	}
	r.setAside.Add(int64(len(moved)))
	return err == nil && len(moved) > 0
}
