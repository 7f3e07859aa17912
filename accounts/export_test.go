package accounts

import (
	"context"
	"io"
)

// export is ExportWith without states.
func (r *Registry) export(ctx context.Context, s Selector, out io.Writer) (Exported, error) {
	return r.ExportWith(ctx, Exporting{Selector: s}, out)
}

// count is CountWithin a budget that these tests do not reach.
func (r *Registry) count(ctx context.Context, s Selector) (Counted, error) {
	return r.CountWithin(ctx, s, 100_000)
}
