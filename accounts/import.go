package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// A batch is written when it has batchRecords records or batchBytes bytes. All
	// batches are written when they have heldBytes bytes together, or when the next line
	// has not come for heldTime. So the memory of an import does not depend on its length.
	batchRecords = 200
	batchBytes   = 1 << 20
	heldBytes    = 8 << 20
	heldTime     = time.Second
)

// BadLine is a line of an import that was left out.
type BadLine struct {
	Line   int    // from 1; blank lines count
	ID     string // the account's id; empty if the line has no valid one
	Faults Faults
}

// RepeatedLine is a line of an import that was taken and has the id of an earlier line.
type RepeatedLine struct {
	Line, Before int // from 1; the later line holds
	ID           string
}

// Importing says how to import lines. The zero value imports them without reports.
type Importing struct {
	From     BeginFrom                // where new accounts begin
	Bad      func(BadLine) error      // is called for each line that is left out; may be nil
	Repeated func(RepeatedLine) error // is called for each line that repeats an id; may be nil
	DryRun   bool                     // nothing is written; each line counts as if the others were not there
}

// Line is one line of an import: a record, or why there is none.
type Line struct {
	Number int    // where it comes from, for reports; from 1
	ID     string // the account's, if Faults are given and it is known
	Record []byte // as a line of an export, and valid until the next line is asked for
	Faults Faults // if there are any, the record is not read, and the line is left out

	// Taken is called once the record was found valid, before it is written. An error ends the
	// import. It is not called in a dry run, and may be nil.
	Taken func() error
}

func (o Importing) withDefaults() Importing {
	if o.Bad == nil {
		o.Bad = func(BadLine) error { return nil }
	}
	if o.Repeated == nil {
		o.Repeated = func(RepeatedLine) error { return nil }
	}
	return o
}

// Summary is the result of an import. Lines counts the lines that were read and not
// blank. Of a complete import it is the sum of Created, Updated, Unchanged and Failed.
type Summary struct {
	Lines     int
	Created   int
	Updated   int
	Unchanged int
	Failed    int
	Repeated  int // lines, among all of these, with the id of an earlier line
}

// Done returns the number of lines that need not be imported again.
func (s Summary) Done() int { return s.Created + s.Updated + s.Unchanged + s.Failed }

// Import reads records, one a line, and registers or changes their accounts. A created or
// changed account is due at its next phase slot, not at once, so that a million accounts
// do not all start together. Lines with the same id are applied in their order: the last
// one wins, and each counts.
//
// A record that was exported with its state brings the state along if the account is new.
// An existing account retains its own state.
//
// Import calls report for a line that is not a valid record, with all its faults, and goes
// on. A record whose time is past is not valid either, unless the account exists with this
// very record. Import returns ErrNotLines if the first line shows that the input has no
// lines of records but is a table or one document. It stops at the first error of Redis,
// the reader, report or ctx, and returns that error with the summary so far. Importing the
// same lines again is safe: accounts that exist stay unchanged.
func (r *Registry) Import(ctx context.Context, in io.Reader, report func(BadLine) error) (Summary, error) {
	return r.ImportWith(ctx, in, Importing{Bad: report})
}

// ImportWith is Import with options. It reports repeated ids among the first repeatsKnown
// ids of the input. It also returns Faults for options that are not valid.
func (r *Registry) ImportWith(ctx context.Context, in io.Reader, o Importing) (Summary, error) {
	return r.importFrom(ctx, newLineReader(in), o)
}

// ImportLines is ImportWith for lines that somebody else has read. An error of lines ends the
// import.
func (r *Registry) ImportLines(ctx context.Context, lines iter.Seq2[Line, error], o Importing) (Summary, error) {
	in := newLineQueue(lines)
	defer in.stop()
	return r.importFrom(ctx, in, o)
}

func (r *Registry) importFrom(ctx context.Context, in lineSource, o Importing) (Summary, error) {
	if err := o.From.Validate(); err != nil {
		return Summary{}, err
	}
	w, o := newBatchWriter(ctx, r, o), o.withDefaults()
	summary, err := r.readLines(in, w, o)
	if err == nil {
		err = w.flush()
	}
	if failed := w.close(err); failed != nil {
		err = failed
	}
	if told := w.tellRefused(o, &summary); err == nil {
		err = told
	}
	summary.Created, summary.Updated, summary.Unchanged = w.created, w.updated, w.unchanged
	if err != nil && !errors.Is(err, ErrNotLines) {
		return summary, fmt.Errorf("import stopped: %d of the %d lines that were read are done: %w", summary.Done(), summary.Lines, err)
	}
	return summary, err
}

// inTime returns Faults for a valid account whose time is past, unless it exists with this
// very record, or is new and parked.
func (r *Registry) inTime(ctx context.Context, a Account, record []byte, begin *circulate.Begin, clock func() (time.Time, error)) error {
	_, err := a.firstDue(clock)
	var faults Faults
	if !errors.As(err, &faults) {
		return err
	}
	there, err := r.ring.Account(a.ID).Look(ctx)
	switch {
	case err != nil && !errors.Is(err, circulate.ErrNotRegistered):
		return err
	case err != nil && begin != nil && begin.Park != "":
		return nil
	case err == nil:
		if plain, _ := SplitRevision(there.Record); bytes.Equal(plain, record) {
			return nil
		}
	}
	return faults
}
