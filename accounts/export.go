package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
)

// Exported is what an export came to.
type Exported struct {
	Accounts   int
	Unreadable int // left out: their records are no JSON
}

// Export writes the record of every account, one a line, as Import reads them.
// An account that is registered throughout is written once; one that comes or
// goes meanwhile may be in it or not.
func (r *Registry) Export(ctx context.Context, out io.Writer) (Exported, error) {
	var done Exported
	for shard := range r.ring.Shards() {
		ids, err := r.idsOf(ctx, shard)
		if err != nil {
			return done, err
		}
		for len(ids) > 0 {
			batch := ids[:min(len(ids), lookCount)]
			ids = ids[len(batch):]
			if err := r.exportSome(ctx, out, shard, batch, &done); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (r *Registry) exportSome(ctx context.Context, out io.Writer, shard int, ids []string, done *Exported) error {
	views, err := r.ring.Look(ctx, shard, ids)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for i := range views {
		before := lines.Len()
		// Compacted, a record is one line even if somebody else wrote it.
		if err := json.Compact(&lines, views[i].Record); err != nil {
			lines.Truncate(before)
			done.Unreadable++
			continue
		}
		lines.WriteByte('\n')
		done.Accounts++
	}
	_, err = out.Write(lines.Bytes())
	return err
}
