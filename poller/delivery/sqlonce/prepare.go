package sqlonce

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// Prepare creates the table if it does not exist. It returns an error if something else has the
// table's name and cannot store records. Any number of replicas may call it at once. If the table
// exists, Prepare needs no permission to create one. The error is a delivery.Later if PostgreSQL
// cannot be reached, or takes no connections now.
//
// A Consumer calls it when it starts.
func (h *Handler) Prepare(ctx context.Context) error {
	p := newPatience(h.options.ConflictWait)
	for {
		err := h.prepare(ctx)
		if err == nil {
			return nil
		}
		if h.dialect.misshapen(err) {
			err = fmt.Errorf("a table of another shape has this name; name another one in Options.Table: %w", err)
		}
		if h.dialect.isAway(err) {
			err = fmt.Errorf("sqlonce: prepare table %s: %w", h.options.Table, err)
			return &delivery.Later{After: awayInterval, Err: err, Target: target}
		}
		if !h.dialect.conflict(err) || !p.wait(ctx) {
			return fmt.Errorf("sqlonce: prepare table %s: %w", h.options.Table, err)
		}
	}
}

func (h *Handler) prepare(ctx context.Context) error {
	if h.dialect == PostgreSQL {
		if err := h.verify(ctx); !h.dialect.missing(err) {
			return err
		}
	}
	if err := h.create(ctx); err != nil {
		return err
	}
	return h.verify(ctx)
}

// verify inserts zero records, which fails if records could not be inserted.
func (h *Handler) verify(ctx context.Context) error {
	_, err := h.db.ExecContext(ctx, h.statements.record, "[]")
	return err
}

func (h *Handler) create(ctx context.Context) error {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	for _, statement := range h.statements.prepare {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}
