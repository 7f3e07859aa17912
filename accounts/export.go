package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/circulate"
)

// Exported is the result of an export.
type Exported struct {
	Accounts   int // accounts that were written
	Unreadable int // accounts that were left out: their records are not JSON
}

// Exporting says what to export. The zero value exports the records of all accounts.
type Exporting struct {
	Selector Selector
	// State adds the field state to each record. It has what the account needs to go on
	// in another ring: its cursor, its failures, its cadence's state, and why and since
	// when it is parked.
	State bool
}

// ExportWith writes the record of every selected account, one a line, as Import reads them. If
// o asks for states, it adds each account's current state, which a check under way may change
// later. An account that stays registered is written once, or twice if it moves to another
// shard while the number of shards changes. An account that comes or leaves meanwhile may be
// missing. It returns Faults for a selector that is not valid.
func (r *Registry) ExportWith(ctx context.Context, o Exporting, out io.Writer) (Exported, error) {
	var done Exported
	if err := o.Selector.Validate(); err != nil {
		return done, err
	}
	o.Selector = r.within(o.Selector)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	batches := make(chan []circulate.Snapshot) // one is read while another is written
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(batches)
		err := r.inOrder(ctx, func(ctx context.Context, from, to int) error {
			return r.readAll(ctx, from, to, &o, batches)
		})
		if err != nil {
			fail(err)
		}
	})
	var failed error
	for batch := range batches {
		if failed != nil {
			continue // until the reader ends
		}
		if failed = writeRecords(out, batch, o.State, &done); failed != nil {
			fail(failed)
		}
	}
	reader.Wait()
	return done, context.Cause(ctx)
}

// readAll sends the selected accounts of some shards to batches.
func (r *Registry) readAll(ctx context.Context, from, to int, o *Exporting, batches chan<- []circulate.Snapshot) error {
	for shard := from; shard < to; shard++ {
		ids, err := r.idsFor(ctx, shard, &o.Selector)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(o.Selector.passes(ids), lookCount) {
			batch, err := r.snapshots(ctx, shard, some, o)
			if err != nil {
				return err
			}
			select {
			case batches <- batch:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// snapshots returns the selected ones among some accounts, with their state if o asks for it.
func (r *Registry) snapshots(ctx context.Context, shard int, ids []string, o *Exporting) ([]circulate.Snapshot, error) {
	chosen, _, err := r.choose(ctx, shard, ids, &o.Selector)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	if o.State {
		batch, err := r.ring.Snapshots(ctx, shard, idsIn(chosen))
		// As they are now: one may have lost a label since.
		return slices.DeleteFunc(batch, func(s circulate.Snapshot) bool { return !r.sees(s.Record) }), err
	}
	batch := make([]circulate.Snapshot, len(chosen))
	for i := range chosen {
		batch[i] = circulate.Snapshot{ID: chosen[i].ID, Record: chosen[i].Record}
	}
	return batch, nil
}

func writeRecords(out io.Writer, batch []circulate.Snapshot, state bool, done *Exported) error {
	var lines, line bytes.Buffer
	for i := range batch {
		line.Reset()
		// A compacted record is one line, whoever wrote it.
		record, _ := SplitRevision(batch[i].Record)
		if err := json.Compact(&line, record); err != nil {
			done.Unreadable++
			continue
		}
		text := line.Bytes()
		if state {
			var err error
			if text, err = appendCarried(text, batch[i].Begin); err != nil {
				return err
			}
		}
		lines.Write(text)
		lines.WriteByte('\n')
		done.Accounts++
	}
	_, err := out.Write(lines.Bytes())
	return err
}
