package accounts

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// batchWriter collects records per shard and writes them with a few goroutines.
// A shard always has the same one, so that records of one account are written in
// their order.
type batchWriter struct {
	registry *Registry
	ctx      context.Context
	fail     context.CancelCauseFunc
	pending  map[int]*batch
	held     int // bytes pending
	queues   []chan *batch
	workers  sync.WaitGroup

	mu                          sync.Mutex
	created, updated, unchanged int
}

type batch struct {
	shard    int
	accounts []Account
	records  [][]byte
	bytes    int
}

func newBatchWriter(ctx context.Context, r *Registry) *batchWriter {
	w := &batchWriter{registry: r, pending: make(map[int]*batch)}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	w.queues = make([]chan *batch, min(parallel, r.ring.Shards()))
	for i := range w.queues {
		queue := make(chan *batch)
		w.queues[i] = queue
		w.workers.Go(func() { w.work(queue) })
	}
	return w
}

// add takes a record, and blocks while too many wait to be written. It gives the
// error of whatever was written before.
func (w *batchWriter) add(a Account) error {
	record, err := a.Encode()
	if err != nil {
		return err
	}
	shard := w.registry.ring.ShardOf(a.ID)
	b := w.pending[shard]
	if b == nil {
		b = &batch{shard: shard}
		w.pending[shard] = b
	}
	a.Config = nil // the record has it
	b.accounts, b.records = append(b.accounts, a), append(b.records, record)
	b.bytes += len(record)
	w.held += len(record)
	switch {
	case w.held >= heldBytes:
		return w.flush()
	case len(b.records) == batchRecords || b.bytes >= batchBytes:
		return w.send(b)
	}
	return context.Cause(w.ctx)
}

func (w *batchWriter) flush() error {
	for _, b := range w.pending {
		if err := w.send(b); err != nil {
			return err
		}
	}
	return context.Cause(w.ctx)
}

func (w *batchWriter) send(b *batch) error {
	delete(w.pending, b.shard)
	w.held -= b.bytes
	select {
	case w.queues[b.shard%len(w.queues)] <- b:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// close waits until all that was sent is written. After an error it drops what
// it has not begun with. It returns the error that stopped it, or nil.
func (w *batchWriter) close(err error) error {
	if err != nil {
		w.fail(err)
	}
	for _, queue := range w.queues {
		close(queue)
	}
	w.workers.Wait()
	err = context.Cause(w.ctx)
	w.fail(nil)
	return err
}

func (w *batchWriter) work(queue <-chan *batch) {
	for b := range queue {
		if w.ctx.Err() != nil {
			continue
		}
		if err := w.write(b); err != nil {
			w.fail(err)
		}
	}
}

func (w *batchWriter) write(b *batch) error {
	r := w.registry
	ids := make([]string, len(b.accounts))
	for i := range b.accounts {
		ids[i] = b.accounts[i].ID
	}
	views, err := r.ring.Look(w.ctx, b.shard, ids)
	if err != nil {
		return err
	}
	var now time.Time
	if len(views) > 0 {
		now = views[0].Now
	} else if now, err = r.ring.Now(w.ctx, b.shard); err != nil {
		return err
	}
	kinds := make(map[string]string, len(views))
	for i := range views {
		kinds[views[i].ID] = kindOf(views[i].Record)
	}
	items := make([]circulate.Registration, len(b.accounts))
	for i := range b.accounts {
		a := &b.accounts[i]
		rhythm, err := cadence.Parse(a.Cadence)
		if err != nil {
			return err // it was valid a moment ago
		}
		// A time that came meanwhile has no slot left: at once, which is zero.
		due, _ := rhythm.After(a.ID, now, cadence.State{})
		before, known := kinds[a.ID]
		items[i] = circulate.Registration{
			ID: a.ID, Record: b.records[i], Due: due, Priority: a.lane(),
			ForgetCursor: known && before != a.Kind,
		}
	}
	outcomes, err := r.ring.Upsert(w.ctx, b.shard, items)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range outcomes {
		switch o {
		case circulate.Created:
			w.created++
		case circulate.Updated:
			w.updated++
		default:
			w.unchanged++
		}
	}
	return nil
}
