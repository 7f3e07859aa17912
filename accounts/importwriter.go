package accounts

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// importWriters is the number of shards that an import writes to at a time.
const importWriters = 8

// batchWriter collects records per shard and writes them with a few goroutines. Each shard
// is written by the same goroutine, so that the records of an account are written in order.
type batchWriter struct {
	registry *Registry
	from     BeginFrom // where new accounts without a state begin
	dry      bool      // nothing is written
	ctx      context.Context
	fail     context.CancelCauseFunc
	pending  map[int]*batch
	held     int // bytes pending
	queues   []chan *batch
	workers  sync.WaitGroup

	mu                          sync.Mutex
	created, updated, unchanged int
	refused                     []BadLine // not reported yet
}

type batch struct {
	shard    int
	accounts []imported
	records  [][]byte
	bytes    int
}

// imported is an account of an import.
type imported struct {
	Account                  // without config and labels, which the record has
	begin   *circulate.Begin // the state that a new account begins with
	line    int              // its line's number
}

func newBatchWriter(ctx context.Context, r *Registry, o Importing) *batchWriter {
	w := &batchWriter{registry: r, from: o.From, dry: o.DryRun, pending: make(map[int]*batch)}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	w.queues = make([]chan *batch, min(importWriters, r.ring.Shards()))
	for i := range w.queues {
		queue := make(chan *batch)
		w.queues[i] = queue
		w.workers.Go(func() { w.work(queue) })
	}
	return w
}

// add takes an account and its record, and blocks while too many records wait to be
// written. It returns the error of an earlier write.
func (w *batchWriter) add(a Account, record []byte, begin *circulate.Begin, line int) error {
	shard := w.registry.ring.ShardOf(a.ID)
	b := w.pending[shard]
	if b == nil {
		b = &batch{shard: shard}
		w.pending[shard] = b
	}
	a.Config, a.Labels = nil, nil // the record has them
	b.add(imported{a, begin, line}, record)
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

// close waits until everything that was sent is written. With an error it drops what is not
// begun yet. It returns the error that stopped the writer, or nil.
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
	for range saveTries {
		again, err := w.tryWrite(b)
		if err != nil || again == nil {
			return err
		}
		b = again
	}
	return ErrContended
}

// tryWrite writes a batch, and returns the records that must be written again, because
// somebody changed their accounts after they were read.
func (w *batchWriter) tryWrite(b *batch) (again *batch, err error) {
	items, places, refused, err := w.changes(b)
	if err != nil {
		return nil, err
	}
	var outcomes []circulate.Registered
	if w.dry {
		outcomes = foreseen(items)
	} else if len(items) > 0 {
		if outcomes, err = w.registry.ring.Upsert(w.ctx, b.shard, items); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unchanged += len(b.records) - len(items) - len(refused)
	w.refused = append(w.refused, refused...)
	for i, o := range outcomes {
		switch o {
		case circulate.Created:
			w.created++
		case circulate.Updated:
			w.updated++
		case circulate.Differs:
			if again == nil {
				again = &batch{shard: b.shard}
			}
			again.add(b.accounts[places[i]], b.records[places[i]])
		default:
			w.unchanged++
		}
	}
	return again, nil
}

// foreseen returns what would become of registrations if nobody else changed their accounts.
func foreseen(items []circulate.Registration) []circulate.Registered {
	outcomes := make([]circulate.Registered, len(items))
	for i := range items {
		outcomes[i] = circulate.Updated
		if items[i].Absent {
			outcomes[i] = circulate.Created
		}
	}
	return outcomes
}

func (b *batch) add(a imported, record []byte) {
	b.accounts, b.records = append(b.accounts, a), append(b.records, record)
	b.bytes += len(record)
}

// changes returns the registrations of a batch that change something, in their order,
// with their indexes in the batch. It does not send an account that exists with the same
// record. It refuses ids that belong to accounts which a bound registry does not see.
func (w *batchWriter) changes(b *batch) (items []circulate.Registration, places []int, refused []BadLine, err error) {
	ids := make([]string, len(b.accounts))
	for i := range b.accounts {
		ids[i] = b.accounts[i].ID
	}
	there, now, err := w.registry.ring.LookBrief(w.ctx, b.shard, ids)
	if err != nil {
		return nil, nil, nil, err
	}
	// The records as they will be once the earlier lines are written: an id may be repeated.
	records := make(map[string][]byte, len(ids))
	for i := range there {
		records[there[i].ID] = there[i].Record
	}
	for i := range b.accounts {
		a := &b.accounts[i]
		item := circulate.Registration{ID: a.ID, Priority: a.lane(), Begin: a.begin}
		var revision Revision
		if before, known := records[a.ID]; known {
			if !w.registry.sees(before) {
				refused = append(refused, BadLine{Line: a.line, ID: a.ID, Faults: Faults{{Field: "id",
					Reason: fmt.Sprintf("is taken by an account without %s, to which access is bound", w.registry.labels)}}})
				continue
			}
			var plain []byte
			if plain, revision = SplitRevision(before); bytes.Equal(plain, b.records[i]) {
				continue
			}
			item.Before, item.ForgetCursor = before, kindOf(before) != a.Kind
		} else {
			item.Absent = true
			item.Begin = w.from.asked(a.begin, now)
		}
		item.Record = withRevision(b.records[i], revision.next(now))
		records[a.ID] = item.Record
		rhythm, err := cadence.Parse(a.Cadence)
		if err != nil {
			return nil, nil, nil, err // it was valid a moment ago
		}
		// A time that came meanwhile has no slot left: then it is due at once.
		item.Due, _ = rhythm.After(a.ID, now, cadence.State{})
		items, places = append(items, item), append(places, i)
	}
	return items, places, refused, nil
}

// tellRefused reports the lines refused since its last call, and counts them.
func (w *batchWriter) tellRefused(o Importing, s *Summary) error {
	w.mu.Lock()
	refused := w.refused
	w.refused = nil
	w.mu.Unlock()
	for _, bad := range refused {
		s.Failed++
		if err := o.Bad(bad); err != nil {
			return err
		}
	}
	return nil
}

// clock returns a clock that asks Redis for the time once, and then adds the time that
// passed here. It is safe for concurrent use.
func (r *Registry) clock(ctx context.Context) func() (time.Time, error) {
	var mu sync.Mutex
	var server, local time.Time
	return func() (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		if server.IsZero() {
			now, err := r.ring.Now(ctx, 0)
			if err != nil {
				return time.Time{}, err
			}
			server, local = now, time.Now()
		}
		return server.Add(time.Since(local)), nil
	}
}
