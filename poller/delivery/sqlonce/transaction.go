package sqlonce

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// fault says what an error of a transaction is about.
type fault int

const (
	content fault = iota // something in the transaction is at fault; it was rolled back
	away                 // the database is away, and was not told to commit
	unknown              // the commit's outcome is unknown
)

// outcome is the result of a transaction. A nil err means that it is committed.
type outcome struct {
	err     error
	fault   fault
	blamed  int  // which of the items failed; less than 0: unknown
	missing bool // there is no table for the records
}

// leftOut is the error for a transaction that is no longer open although the function returned no
// error.
const leftOut = "sqlonce: the function left out an error of its own, or ended the transaction: %w"

func failed(f fault, step string, err error) outcome {
	return outcome{err: fmt.Errorf("sqlonce: %s: %w", step, err), fault: f, blamed: -1}
}

// once applies messages in one transaction.
func (r *run) once(ctx context.Context, items []int) outcome {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: r.options.Isolation})
	if err != nil {
		return failed(away, "begin", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	isNew, err := r.record(ctx, tx, items)
	if err != nil {
		if r.dialect == PostgreSQL && len(sqlState(err)) == 5 && sqlState(err)[:2] == "22" {
			return failed(content, "record", err) // a text that the database's encoding lacks
		}
		out := failed(away, "record", err)
		out.missing = r.dialect.missing(err)
		return out
	}
	if len(isNew) == 0 {
		return outcome{}
	}
	for at, i := range items {
		if id := r.ids[i]; isNew[id] {
			delete(isNew, id) // a message may be in a batch twice
			if err := r.call(ctx, tx, r.batch[i]); err != nil {
				return outcome{err: err, blamed: at}
			}
			if err := exec(ctx, tx, r.statements.after); err != nil {
				return outcome{err: fmt.Errorf(leftOut, err), blamed: at}
			}
		}
	}
	if err := exec(ctx, tx, r.statements.check); err != nil {
		if r.dialect.refused(err) || errors.Is(err, sql.ErrTxDone) {
			return outcome{err: fmt.Errorf(leftOut, err), blamed: -1}
		}
		return failed(away, "check", err)
	}
	if err := tx.Commit(); err != nil {
		if r.dialect.refused(err) || r.dialect.conflict(err) {
			return failed(content, "commit", err)
		}
		return failed(unknown, "commit, of unknown outcome", err)
	}
	return outcome{}
}

// record inserts the identities of messages and returns the new ones.
func (r *run) record(ctx context.Context, tx *sql.Tx, items []int) (map[identity]bool, error) {
	ids := make([]identity, len(items))
	for at, i := range items {
		ids[at] = r.ids[i]
	}
	argument, err := encode(ids)
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, r.statements.record, argument)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	isNew := make(map[identity]bool, len(items))
	for rows.Next() {
		var id identity
		if err := rows.Scan(&id[0], &id[1], &id[2]); err != nil {
			return nil, err
		}
		isNew[id] = true
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	return isNew, exec(ctx, tx, r.statements.guard)
}

func exec(ctx context.Context, tx *sql.Tx, statement string) error {
	if statement == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, statement)
	return err
}

// call calls the function. A panic becomes an error of the message.
func (r *run) call(ctx context.Context, tx *sql.Tx, d delivery.Delivery) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return meaningless(r.apply(ctx, tx, d))
}
