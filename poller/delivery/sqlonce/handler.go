package sqlonce

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// Func is the effect of a message. Its statements in tx are committed together with the record of
// the message, or not at all. The package's doc says what it must not do.
type Func func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error

// Handler applies messages with a function, each effectively once. It is safe for concurrent use.
type Handler struct {
	db         *sql.DB
	dialect    Dialect
	apply      Func
	options    Options
	statements statements
}

var _ delivery.Handler = (*Handler)(nil)

// New returns a handler that writes to db. Its table must exist: see Prepare. An error names
// every field that is wrong.
func New(db *sql.DB, dialect Dialect, apply Func, o Options) (*Handler, error) {
	o = o.withDefaults()
	errs := []error{o.validate()}
	if db == nil {
		errs = append(errs, errors.New("db: missing"))
	}
	if dialect != PostgreSQL && dialect != SQLite {
		errs = append(errs, fmt.Errorf("dialect: must be PostgreSQL or SQLite, is %v", dialect))
	}
	if apply == nil {
		errs = append(errs, errors.New("function: missing"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("sqlonce: %w", err)
	}
	return &Handler{db: db, dialect: dialect, apply: apply, options: o, statements: dialect.statements(o.Table)}, nil
}

// Handle applies the messages of a batch that have no record, in order. As delivery.Handler says,
// it returns an error for each message: nil if it is committed now or was before, delivery.Later
// if the database is away, and delivery.ErrHeld behind a failed message of the same account. Any
// other error is the message's own, or says that the outcome of its commit is unknown. A table that was
// dropped meanwhile is created again, without the records that it had.
func (h *Handler) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	r := newRun(h, batch)
	for items := range h.parts(batch) {
		r.settle(ctx, items)
	}
	if len(r.failed) == 0 {
		return nil
	}
	return r.errs
}

// parts yields the indices of a batch, transaction by transaction.
func (h *Handler) parts(batch []delivery.Delivery) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		var part []int
		for i, d := range batch {
			alone := d.Attempt >= aloneFrom
			if len(part) > 0 && (alone || len(part) == h.options.MaxBatch || batch[i-1].Attempt >= aloneFrom) {
				if !yield(part) {
					return
				}
				part = nil
			}
			part = append(part, i)
		}
		if len(part) > 0 {
			yield(slices.Clip(part))
		}
	}
}
