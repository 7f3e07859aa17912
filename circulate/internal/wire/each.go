package wire

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Batch is some plain commands on keys that one node serves, the first of which is Key.
type Batch struct {
	Key      string
	Commands []Command
}

// Replies are the replies to the commands of a [Batch]. An error reply stands in its reply's
// place, and is Err if it is the first.
type Replies struct {
	Values []any
	Err    error
}

// PipelineEach sends many batches, all in one round trip to each node that serves one, and
// returns the replies of each. They must be safe to repeat, as reads are: a batch whose keys
// had moved to another node is sent there as a whole.
func (w *Wire) PipelineEach(ctx context.Context, p Purpose, batches []Batch) []Replies {
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
	for i := range replies {
		r := &replies[i]
		for moves := 0; moves < maxMoves && r.redirected(); moves++ {
			r.Values, r.Err = w.PipelineFor(ctx, p, batches[i].Key, batches[i].Commands...)
		}
	}
	return replies
}

// redirected reports whether another node serves a key now. A transaction that was refused says
// so in the replies to its commands.
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
	for _, i := range items {
		if values == nil { // the connection was cut, or there is none
			replies[i].Err = err
			continue
		}
		n := len(batches[i].Commands)
		replies[i].Values, values = values[:n:n], values[n:]
		for _, value := range replies[i].Values {
			if refused, ok := value.(error); ok && replies[i].Err == nil {
				replies[i].Err = refused
			}
		}
	}
	w.noteCall(key, began, err)
}
