package sqlonce

import (
	"context"
	"fmt"
	"time"
)

// Prune removes the records, of all groups, of messages that were applied more than olderThan ago
// by the database's clock. It returns the number of removed records, even with an error. It uses
// short transactions. Any number of replicas may call it at once.
//
// A message whose record is gone is applied again if it is delivered again. olderThan must exceed
// the time in which that can happen; the package's doc has the rule.
func (h *Handler) Prune(ctx context.Context, olderThan time.Duration) (int64, error) {
	if olderThan <= 0 {
		return 0, fmt.Errorf("sqlonce: prune: older than: must be more than 0, is %v", olderThan)
	}
	var pruned int64
	p := newPatience(h.options.ConflictWait)
	for {
		n, err := h.pruneBatch(ctx, olderThan)
		pruned += n
		switch {
		case err == nil && n < pruneBatch:
			return pruned, nil
		case err != nil && (!h.dialect.conflict(err) || !p.wait(ctx)):
			return pruned, fmt.Errorf("sqlonce: prune: %w", err)
		}
	}
}

func (h *Handler) pruneBatch(ctx context.Context, olderThan time.Duration) (int64, error) {
	// Whole seconds, rounded up, in both dialects: never too early.
	seconds := int64((olderThan + time.Second - 1) / time.Second)
	result, err := h.db.ExecContext(ctx, h.statements.prune, seconds, pruneBatch)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// PruneEvery prunes at once and then after each interval, until ctx is done, and calls report after
// each step. A failed step is tried again after the next interval. It returns an error only for an
// invalid argument.
func (h *Handler) PruneEvery(ctx context.Context, interval, olderThan time.Duration, report func(pruned int64, err error)) error {
	if interval <= 0 {
		return fmt.Errorf("sqlonce: prune: interval: must be more than 0, is %v", interval)
	}
	if olderThan <= 0 {
		return fmt.Errorf("sqlonce: prune: older than: must be more than 0, is %v", olderThan)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		pruned, err := h.Prune(ctx, olderThan)
		if ctx.Err() != nil {
			return nil
		}
		report(pruned, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
