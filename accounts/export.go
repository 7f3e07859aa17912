package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/rounds-dev/rounds/circulate"
)

// Exported is what an export came to.
type Exported struct {
	Accounts   int
	Unreadable int // left out: their records are no JSON
}

// Exporting says what is exported. The zero value is that of Export of all accounts.
type Exporting struct {
	Selector Selector
	// State writes with each record, as its field state, what else there is to take the
	// account to another ring: its cursor, its failures, what its cadence keeps, and
	// why and since when it is parked.
	State bool
}

// Export writes the record of every account that is selected, one a line, as
// Import reads them. An account that is registered throughout is written once;
// one that comes or goes meanwhile may be in it or not, and one that goes to
// another shard, as their number changes, may be in it twice. It returns Faults for a
// selector that is not valid.
func (r *Registry) Export(ctx context.Context, s Selector, out io.Writer) (Exported, error) {
	return r.ExportWith(ctx, Exporting{Selector: s}, out)
}

// ExportWith is Export of what the caller says. State is that of the moment when an account
// is written: what a check under way finds later is not in it.
func (r *Registry) ExportWith(ctx context.Context, o Exporting, out io.Writer) (Exported, error) {
	var done Exported
	if err := o.Selector.Validate(); err != nil {
		return done, err
	}
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
			continue
		}
		if failed = writeRecords(out, batch, o.State, &done); failed != nil {
			fail(failed)
		}
	}
	reader.Wait()
	return done, context.Cause(ctx)
}

// readAll returns the accounts of some shards that are selected, some at a time.
func (r *Registry) readAll(ctx context.Context, from, to int, o *Exporting, batches chan<- []circulate.Snapshot) error {
	for shard := from; shard < to; shard++ {
		ids, err := r.idsOf(ctx, shard)
		if err != nil {
			return err
		}
		for ids = o.Selector.passes(ids); len(ids) > 0; {
			some := ids[:min(len(ids), lookCount)]
			ids = ids[len(some):]
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

// snapshots returns those of some accounts that are selected, with what is asked for.
func (r *Registry) snapshots(ctx context.Context, shard int, ids []string, o *Exporting) ([]circulate.Snapshot, error) {
	chosen, _, err := r.choose(ctx, shard, ids, &o.Selector)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	if o.State {
		those := make([]string, len(chosen))
		for i := range chosen {
			those[i] = chosen[i].ID
		}
		return r.ring.Snapshots(ctx, shard, those)
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
		// Compacted, a record is one line even if somebody else wrote it.
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
