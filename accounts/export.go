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

// Export writes the record of every account that is selected, one a line, as
// Import reads them. An account that is registered throughout is written once;
// one that comes or goes meanwhile may be in it or not, and one that goes to
// another shard, as their number changes, may be in it twice. It returns Faults for a
// selector that is not valid.
func (r *Registry) Export(ctx context.Context, s Selector, out io.Writer) (Exported, error) {
	var done Exported
	if err := s.Validate(); err != nil {
		return done, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	batches := make(chan []circulate.BriefView) // one is read while another is written
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(batches)
		err := r.inOrder(ctx, func(ctx context.Context, from, to int) error {
			return r.readAll(ctx, from, to, &s, batches)
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
		if failed = writeRecords(out, batch, &done); failed != nil {
			fail(failed)
		}
	}
	reader.Wait()
	return done, context.Cause(ctx)
}

// readAll returns the accounts of some shards that are selected, some at a time.
func (r *Registry) readAll(ctx context.Context, from, to int, s *Selector, batches chan<- []circulate.BriefView) error {
	for shard := from; shard < to; shard++ {
		ids, err := r.idsOf(ctx, shard)
		if err != nil {
			return err
		}
		for ids = s.passes(ids); len(ids) > 0; {
			some := ids[:min(len(ids), lookCount)]
			ids = ids[len(some):]
			batch, _, err := r.choose(ctx, shard, some, s)
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

func writeRecords(out io.Writer, batch []circulate.BriefView, done *Exported) error {
	var lines bytes.Buffer
	for i := range batch {
		before := lines.Len()
		// Compacted, a record is one line even if somebody else wrote it.
		record, _ := SplitRevision(batch[i].Record)
		if err := json.Compact(&lines, record); err != nil {
			lines.Truncate(before)
			done.Unreadable++
			continue
		}
		lines.WriteByte('\n')
		done.Accounts++
	}
	_, err := out.Write(lines.Bytes())
	return err
}
