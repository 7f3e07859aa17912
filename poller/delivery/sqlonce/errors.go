package sqlonce

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// PanicError reports that the function panicked; its transaction was rolled back.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine, for a log
}

// Error returns the value that the function panicked with.
func (p *PanicError) Error() string {
	return fmt.Sprintf("sqlonce: the function panicked: %v", p.Value)
}

// PanicStack returns the stack, which the consumer logs.
func (p *PanicError) PanicStack() []byte { return p.Stack }

// Unwrap returns the value if it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return meaningless(err)
}

// meaningless returns an error of the function without the meaning that it would have for the
// consumer, because a message that was rolled back must not be acknowledged.
func meaningless(err error) error {
	if errors.Is(err, delivery.ErrAcknowledged) || errors.Is(err, delivery.ErrHeld) {
		return fmt.Errorf("sqlonce: the function must not return this error: %v", err) //nolint:errorlint // not wrapped, or the consumer would obey it
	}
	return err
}

// sqlState returns PostgreSQL's code of an error; it is empty if the server did not answer.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// sqliteCode returns SQLite's primary result code of an error, or 0 if it has none.
func sqliteCode(err error) int {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// conflict reports whether a transaction was certainly rolled back because of another one, and may
// succeed when it is repeated.
func (d Dialect) conflict(err error) bool {
	if d == SQLite {
		code := sqliteCode(err)
		return code == 5 || code == 6 // SQLITE_BUSY, SQLITE_LOCKED
	}
	switch sqlState(err) {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return true
	}
	return false
}

// refused reports whether the database has answered that the content of a transaction cannot be
// committed. After any other error, the outcome of the commit is unknown: a server that shuts down
// may return an error after it has committed.
func (d Dialect) refused(err error) bool {
	if d == SQLite {
		code := sqliteCode(err)
		return code == 1 || code == 19 // SQLITE_ERROR: no transaction is active, SQLITE_CONSTRAINT
	}
	state := sqlState(err)
	if len(state) != 5 || state == "40003" { // statement completion unknown
		return false
	}
	switch state[:2] {
	case "22", "23", "25", "40", "42", "44", "P0":
		return true
	}
	return false
}

// missing reports whether an error of a statement says that its table does not exist.
func (d Dialect) missing(err error) bool {
	if d == SQLite {
		return sqliteCode(err) == 1 && strings.Contains(err.Error(), "no such table")
	}
	return sqlState(err) == "42P01"
}

// misshapen reports whether an error of Prepare says that the table is made for something else: it
// lacks a column or the key, has columns of other types, or is no table.
func (d Dialect) misshapen(err error) bool {
	if d == SQLite {
		says := func(text string) bool { return strings.Contains(err.Error(), text) }
		return sqliteCode(err) == 1 && (says("has no column") || says("no such column") || says("ON CONFLICT") || says("views may not be indexed"))
	}
	switch sqlState(err) {
	case "42703", "42P10", "42804", "42809":
		return true
	}
	return false
}

// isAway reports whether an error says that the server cannot be reached, or takes no connections
// now. Such an error has no SQLSTATE, or one of a broken connection (08), of too little memory or
// too many connections (53), or of a server that starts or stops (57P).
func (d Dialect) isAway(err error) bool {
	state := sqlState(err)
	return d == PostgreSQL && (state == "" || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57P"))
}
