package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// A batch is written when it has so many records, or bytes; and every one is
	// written when together they have too many bytes, or wait too long for more
	// lines. So the memory that an import takes does not depend on its length.
	batchRecords = 200
	batchBytes   = 1 << 20
	heldBytes    = 8 << 20
	heldTime     = time.Second
)

// BadLine is a line of an import that was left out.
type BadLine struct {
	Line   int    // from 1; blank lines count
	ID     string // where it is one
	Faults Faults
}

// RepeatedLine is a line of an import that was taken and has the id of a line before.
type RepeatedLine struct {
	Line, Before int // from 1; the later one counts
	ID           string
}

// Importing says how lines are imported. The zero value is that of Import without a report.
type Importing struct {
	From     BeginFrom                // where accounts begin that are new
	Bad      func(BadLine) error      // is told each line that is left out; nil: nobody is
	Repeated func(RepeatedLine) error // is told each line that repeats an id; nil: nobody is
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

// Summary is what an import came to. Lines are those that were read and not
// blank; when all is done, they are the sum of the others.
type Summary struct {
	Lines     int
	Created   int
	Updated   int
	Unchanged int
	Failed    int
	Repeated  int // of them all, those with the id of a line before
}

// Done is how many lines need not be imported again.
func (s Summary) Done() int { return s.Created + s.Updated + s.Unchanged + s.Failed }

// Import reads records, one a line, and registers or changes their accounts.
// What it creates or changes is due at its next phase slot, not at once, so that
// a million accounts do not all start together. Lines of one id are applied in
// their order: the last one wins, and each counts.
//
// An import whose first line shows that it is no lines of records but a table or a
// document stops there, with ErrNotLines.
//
// A record that was exported with its state brings that along, where the account is new;
// one that is there keeps its own.
//
// A line that is no valid record, or names a time that is past while no such
// record is there, is told to report, with all its faults, and the
// others go on. Import stops when Redis, the reader, report or ctx fails, and
// says so; the summary then tells what was done until then. To import the same
// again does no harm: what is there is unchanged.
func (r *Registry) Import(ctx context.Context, in io.Reader, report func(BadLine) error) (Summary, error) {
	return r.ImportWith(ctx, in, Importing{Bad: report})
}

// ImportWith is Import in a way of the caller's. Of lines that repeat an id it tells as long
// as no more than RepeatsKnown ids have come.
func (r *Registry) ImportWith(ctx context.Context, in io.Reader, o Importing) (Summary, error) {
	if err := o.From.Validate(); err != nil {
		return Summary{}, err
	}
	w := newBatchWriter(ctx, r, o.From)
	summary, err := r.readLines(newLineReader(in), w, o.withDefaults())
	if err == nil {
		err = w.flush()
	}
	if failed := w.close(err); failed != nil {
		err = failed
	}
	summary.Created, summary.Updated, summary.Unchanged = w.created, w.updated, w.unchanged
	if err != nil && !errors.Is(err, ErrNotLines) {
		return summary, fmt.Errorf("import stopped: %d of the %d lines that were read are done: %w", summary.Done(), summary.Lines, err)
	}
	return summary, err
}

// inTime returns Faults for a valid account whose time is past, unless it is there
// with this very record, or is new and comes parked.
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
