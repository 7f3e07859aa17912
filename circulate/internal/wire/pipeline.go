package wire

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Command is a plain command, its name first.
type Command []any

// maxMoves is how often a pipeline follows its shard to another node.
const maxMoves = 3

// Pipeline sends commands to the node that serves key and returns their replies. The
// first error reply is returned as the error. If the shard has moved to another node, so
// that no command was done, all are sent there.
func (w *Wire) Pipeline(ctx context.Context, key string, commands ...Command) (replies []any, err error) {
	return w.PipelineFor(ctx, Ordinary, key, commands...)
}

// PipelineFor is Pipeline on a connection for a purpose.
func (w *Wire) PipelineFor(ctx context.Context, p Purpose, key string, commands ...Command) (replies []any, err error) {
	began := time.Now()
	for range 1 + maxMoves {
		replies, err = w.pipelineOnce(ctx, p, key, commands)
		if !HasMoved(err) || !noneDone(commands, replies) {
			break
		}
	}
	if p != Blocking { // Redis answers such a call late on purpose: its duration says nothing about Redis
		w.notePipeline(key, began, commands, err)
	}
	return replies, err
}

// notePipeline is noteCall for a pipeline. Commands that Redis does at any time do not prove
// that it serves.
func (w *Wire) notePipeline(key string, began time.Time, commands []Command, err error) {
	if err == nil && !slices.ContainsFunc(commands, Command.needsData) {
		w.observeCall(began, nil)
		return
	}
	w.noteCall(key, began, err)
}

// needsData reports whether Redis refuses the command while it loads its data.
func (c Command) needsData() bool {
	switch c[0] {
	case "TIME", "INFO", "PUBLISH":
		return false
	}
	return true
}

func (w *Wire) pipelineOnce(ctx context.Context, p Purpose, key string, commands []Command) ([]any, error) {
	conn, err := w.Lend(ctx, key, p)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if len(commands) == 1 {
		// A connection to a cluster sends a single command on by itself.
		reply, err := call(ctx, conn, commands[0][0].(string), commands[0][1:]...)
		return []any{reply}, err
	}
	replies, err := exchange(ctx, conn, commands)
	if len(replies) < len(commands) {
		return nil, err
	}
	return replies, err
}

// noneDone reports whether the replies say that no command on a key was done: each was
// redirected, or the transaction was refused as a whole.
func noneDone(commands []Command, replies []any) bool {
	if len(commands) != len(replies) {
		return false
	}
	if commands[0][0] == "MULTI" {
		refused, ok := replies[len(replies)-1].(redis.Error)
		return ok && (Redirected(refused) || HasCode(refused, "EXECABORT"))
	}
	for i, r := range replies {
		if commands[i][0] == "TIME" {
			continue // any node may be asked, any number of times
		}
		if refused, ok := r.(redis.Error); !ok || !Redirected(refused) {
			return false
		}
	}
	return true
}

// exchange sends commands at once and returns their replies. An error reply takes the
// place of a reply. If the connection is cut, there are the replies that came before.
func exchange(ctx context.Context, conn redis.Conn, commands []Command) ([]any, error) {
	timeout, err := Remaining(ctx)
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
		// All of them share one deadline; 0 would mean none.
		replies[i], err = redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		if err != nil && !Replied(err) {
			return replies[:i], err
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

// Batch is some plain commands on keys that one node serves. Key is the first of the
// keys.
type Batch struct {
	Key      string
	Commands []Command
}

// Replies are the replies to the commands of a [Batch]. An error reply takes the place of
// a reply, and the first one is also Err.
type Replies struct {
	Values []any
	Err    error
}

// PipelineEach sends many batches, all in one round trip to each node, and returns the
// replies to each. The commands must be safe to repeat, as reads are: if a batch's keys
// have moved to another node, the whole batch is sent there.
func (w *Wire) PipelineEach(ctx context.Context, p Purpose, batches []Batch) []Replies {
	replies := w.eachNode(ctx, p, batches)
	for i := range replies {
		r := &replies[i]
		for moves := 0; moves < maxMoves && r.redirected(); moves++ {
			r.Values, r.Err = w.PipelineFor(ctx, p, batches[i].Key, batches[i].Commands...)
		}
	}
	return replies
}

// eachNode sends all batches, to all nodes at once.
func (w *Wire) eachNode(ctx context.Context, p Purpose, batches []Batch) []Replies {
	replies := make([]Replies, len(batches))
	byNode := make(map[string][]int)
	for i := range batches {
		node := w.NodeOf(batches[i].Key)
		byNode[node] = append(byNode[node], i)
	}
	var others sync.WaitGroup
	for _, items := range byNode {
		if len(byNode) == 1 {
			w.pipelineOnNode(ctx, p, batches, items, replies)
			break
		}
		others.Go(func() { w.pipelineOnNode(ctx, p, batches, items, replies) })
	}
	others.Wait()
	return replies
}

// redirected reports whether another node serves a key now. For a refused transaction the
// replies to its commands say so.
func (r *Replies) redirected() bool {
	for _, value := range r.Values {
		if err, ok := value.(redis.Error); ok && Redirected(err) {
			return true
		}
	}
	return Redirected(r.Err)
}

// pipelineOnNode sends the batches that one node serves.
func (w *Wire) pipelineOnNode(ctx context.Context, p Purpose, batches []Batch, items []int, replies []Replies) {
	key, began := batches[items[0]].Key, time.Now()
	var all []Command
	for _, i := range items {
		all = append(all, batches[i].Commands...)
	}
	conn, err := w.Lend(ctx, key, p)
	var values []any
	if err == nil {
		values, err = exchange(ctx, conn, all)
		_ = conn.Close() // it goes back to its pool
	}
	scripts := all[0][0] == "EVALSHA"
	served := slices.ContainsFunc(values, func(value any) bool {
		_, refused := value.(error)
		return !refused
	})
	for _, i := range items {
		n := len(batches[i].Commands)
		if len(values) < n { // the connection was cut, or there is none
			replies[i].Err, values = err, nil
			continue
		}
		replies[i].Values, values = values[:n:n], values[n:]
		for _, value := range replies[i].Values {
			if refused, ok := value.(error); ok && replies[i].Err == nil {
				replies[i].Err = refused
			}
		}
	}
	if scripts && served && Replied(err) {
		err = nil // other calls were refused, but Redis serves
	}
	w.notePipeline(key, began, all, err)
}
