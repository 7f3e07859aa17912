package sqlonce

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Options are the settings of a Handler. A zero field means the default.
type Options struct {
	// Table is the name of the table with the records, with its schema if that is not the
	// connection's. Names have ASCII letters, digits and underscores, at most 48 each. The
	// default is rounds_applied.
	Table string
	// MaxBatch is the most messages in one transaction. The default is 256.
	MaxBatch int
	// ConflictWait is how long a call of Handle, Prepare or Prune repeats transactions that
	// lost against others: SQLITE_BUSY, serialization failures, deadlocks. The default is 5 s.
	ConflictWait time.Duration
	// Isolation is the isolation level of transactions. The default is the database's.
	Isolation sql.IsolationLevel
}

const (
	longestName   = 48 // with the index's suffix, within PostgreSQL's 63
	largestBatch  = 10_000
	defaultTable  = "rounds_applied"
	aloneFrom     = 3    // the delivery from which a message has its own transaction
	pruneBatch    = 1000 // records removed in one transaction
	target        = "database"
	awayInterval  = time.Second // before messages are tried again after a database was away
	longestDelay  = 250 * time.Millisecond
	shortestDelay = 2 * time.Millisecond // before the first repetition after a conflict
)

func (o Options) withDefaults() Options {
	o.Table = cmp.Or(o.Table, defaultTable)
	o.MaxBatch = cmp.Or(o.MaxBatch, 256)
	o.ConflictWait = cmp.Or(o.ConflictWait, 5*time.Second)
	return o
}

func (o Options) validate() error {
	var errs []error
	if err := validateTable(o.Table); err != nil {
		errs = append(errs, err)
	}
	if o.MaxBatch < 1 || o.MaxBatch > largestBatch {
		errs = append(errs, fmt.Errorf("max batch: must be 1 to %d, is %d", largestBatch, o.MaxBatch))
	}
	if o.ConflictWait < 0 {
		errs = append(errs, fmt.Errorf("conflict wait: must not be negative, is %v", o.ConflictWait))
	}
	if o.Isolation < sql.LevelDefault || o.Isolation > sql.LevelLinearizable {
		errs = append(errs, fmt.Errorf("isolation: there is no level %d", o.Isolation))
	}
	return errors.Join(errs...)
}

func validateTable(table string) error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	parts := strings.Split(table, ".")
	for _, part := range parts {
		if len(parts) > 2 || len(part) > longestName || !name.MatchString(part) || strings.HasPrefix(strings.ToLower(part), "sqlite_") {
			return fmt.Errorf("table: must be NAME or SCHEMA.NAME of ASCII letters, digits and underscores, at most %d each, is %q", longestName, table)
		}
	}
	return nil
}
