package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

const (
	connections  = 4 // of a process to the database of an endpoint
	connectLimit = 10 * time.Second
	wait         = 5 * time.Second // before messages are tried again while the database is away
	retained     = 14 * 24 * time.Hour
	pruneEvery   = time.Hour
	testLimit    = 2 * connectLimit
)

// Try connects and signs in. The table may be missing: the sink creates it.
func (c *config) Try(ctx context.Context) error {
	s := &Sink{config: c}
	if err := s.open(ctx); err != nil {
		return reason(err)
	}
	defer func() { _ = s.db.Close() }() // it has written nothing
	if _, err := s.db.ExecContext(ctx, "SELECT FROM "+s.quoted()+" LIMIT 0"); err != nil && stateOf(err) != undefinedTable {
		return reason(err)
	}
	return nil
}

// SQLSTATEs.
const (
	undefinedTable = "42P01"
	readOnly       = "25006"

	// fixed begins those of statements that lack a privilege or do not fit the table. The statements
	// here are the same for all messages.
	fixed = "42"
)

// Sink writes messages into a table. It is safe for concurrent use.
type Sink struct {
	*config

	mu     sync.Mutex
	db     *sql.DB // nil: nothing was read yet
	once   *sqlonce.Handler
	made   bool               // the tables exist
	stop   context.CancelFunc // ends pruning; nil: it has not begun
	pruned chan struct{}      // closed when pruning has ended
	closed bool
}

var _ sink.Testable = (*Sink)(nil)

// Prepare creates the tables if they are missing. Its error is always a Later: somebody may start
// the database, set the secret or grant the permission.
func (s *Sink) Prepare(ctx context.Context) error {
	_, err := s.ready(ctx)
	return err
}

// Handle stores the messages.
func (s *Sink) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	once, err := s.ready(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	for i, err := range once.Handle(ctx, batch) {
		errs[i] = s.harmless(err)
	}
	return errs
}

// Test stores a test event.
func (s *Sink) Test(ctx context.Context, event delivery.Delivery) sink.Tested {
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	defer cancel()
	return sink.TestedBy(s.Handle(ctx, []delivery.Delivery{event})[0])
}

// Close closes the connections.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	if s.stop != nil {
		s.stop()
		<-s.pruned
	}
	return s.db.Close()
}

// ready returns what stores messages, once the tables exist.
func (s *Sink) ready(ctx context.Context) (*sqlonce.Handler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.later(broker.Plain("the process ends"))
	}
	if s.db == nil {
		if err := s.open(ctx); err != nil {
			return nil, s.later(err)
		}
	}
	if s.made {
		return s.once, nil
	}
	if err := s.once.Prepare(ctx); err != nil {
		return nil, s.later(err)
	}
	if err := s.create(ctx); err != nil {
		return nil, s.later(err)
	}
	s.made = true
	if s.stop == nil {
		s.prune(ctx)
	}
	return s.once, nil
}

func (s *Sink) open(ctx context.Context) error {
	db, err := s.connector(ctx)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	once, err := sqlonce.New(db, sqlonce.PostgreSQL, s.insert, sqlonce.Options{Table: s.table + "_applied"})
	if err != nil {
		_ = db.Close() // it has not connected
		return err
	}
	s.db, s.once = db, once
	return nil
}

// prune starts to remove old records, until Close.
func (s *Sink) prune(ctx context.Context) {
	pruning, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.pruned = stop, make(chan struct{})
	log := cmp.Or(s.Log, slog.New(slog.DiscardHandler)).With("endpoint", s.name)
	go func() {
		defer close(s.pruned)
		_ = s.once.PruneEvery(pruning, pruneEvery, retained, func(_ int64, err error) { // its arguments are right
			if err != nil {
				log.Warn("old records were not removed; trying again in an hour", "error", reason(err))
			}
		})
	}()
}

// quoted is the table's name in quotes.
func (s *Sink) quoted() string { return `"` + strings.ReplaceAll(s.table, ".", `"."`) + `"` }

// create creates the table. Who may not create one may use one that is there.
func (s *Sink) create(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "SELECT FROM "+s.quoted()+" LIMIT 0")
	if stateOf(err) != undefinedTable {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	for _, statement := range []string{
		"SELECT pg_advisory_xact_lock(hashtextextended('rounds sink " + s.table + "', 0))", // IF NOT EXISTS alone fails if two processes do it at once
		"CREATE TABLE IF NOT EXISTS " + s.quoted() + ` (
			seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			id      text NOT NULL,
			account text NOT NULL,
			kind    text NOT NULL,
			message text NOT NULL,
			type    text NOT NULL,
			time    timestamptz,
			data    json NOT NULL,
			handle  text NOT NULL,
			stored  timestamptz NOT NULL DEFAULT now())`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// insert writes the row of a message.
func (s *Sink) insert(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
	at := sql.NullTime{Time: d.Message.Time, Valid: !d.Message.Time.IsZero()}
	data := cmp.Or(string(d.Message.Data), "null")
	_, err := tx.ExecContext(ctx, "INSERT INTO "+s.quoted()+" (id, account, kind, message, type, time, data, handle) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
		sink.Key(s.Namespace, d), text(d.Account), text(d.Kind), text(d.Message.ID), text(d.Message.Type), at, data, d.Handle)
	if state := stateOf(err); strings.HasPrefix(state, "22") || state == "54000" { // the value can never be in the table, whoever tries
		return &delivery.Dead{Err: reason(err)}
	}
	return err
}

// text returns a text that PostgreSQL can have.
func text(of string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(of, "\uFFFD"), "\x00", "\uFFFD")
}

// harmless returns an error without what a driver says of the connection.
func (s *Sink) harmless(err error) error {
	s.learn(err)
	var later *delivery.Later
	var dead *delivery.Dead
	switch {
	case err == nil, errors.Is(err, delivery.ErrHeld), errors.As(err, &dead):
		return err
	case errors.As(err, &later):
		return &delivery.Later{After: later.After, Target: cmp.Or(later.Target, s.name), Err: reason(err)}
	case stateOf(err) == "", strings.HasPrefix(stateOf(err), fixed): // the end of the commit is unknown, or the table is another: no message is to blame
		return s.later(err)
	}
	return reason(err)
}

func (s *Sink) later(err error) error {
	return &delivery.Later{After: wait, Target: s.name, Err: reason(err)}
}

// learn obeys what an error says of the database. A table that somebody dropped is made again. The idle
// connections to a server that takes no writes any more are closed, and the next ones are to one that does.
func (s *Sink) learn(err error) {
	switch stateOf(err) {
	case undefinedTable:
		s.mu.Lock()
		s.made = false
		s.mu.Unlock()
	case readOnly:
		s.db.SetMaxIdleConns(0)
		s.db.SetMaxIdleConns(connections)
	}
}

// reason returns what went wrong without the address, the user and the values of the statement.
func reason(err error) error {
	if of := otherThanReadOnly(err); of != nil {
		return errors.New("postgres: one of the servers takes no writes, and another fails: " + strings.TrimPrefix(reason(of).Error(), "postgres: "))
	}
	var known broker.Plain
	if errors.As(err, &known) {
		return known
	}
	var answered *pgconn.PgError
	var connecting *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &answered):
		return errors.New("postgres: refused with " + answered.Code + ": " + conditions(answered.Code))
	case errors.As(err, &connecting) && strings.Contains(err.Error(), noTLS):
		return errors.New("postgres: the server speaks no TLS")
	case errors.As(err, &connecting), errors.As(err, &network):
		return errors.New("postgres: " + broker.Reason(err).Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errors.New("postgres: the database did not answer in time")
	}
	return errors.New("postgres: the connection broke")
}

// noTLS is how the library says that a server does not begin TLS. If that text changes, the reason is less exact.
const noTLS = "server refused TLS connection"

// conditions names the commonest SQLSTATEs of
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
func conditions(code string) string {
	switch code {
	case "28P01":
		return "the user or the password is wrong"
	case "28000":
		return "the server admits no such user in this way: see user, tls and client_certificate, and the server's pg_hba.conf"
	case readOnly:
		return "the server takes no writes"
	case "3D000":
		return "the database does not exist"
	case undefinedTable:
		return "the table is gone, and is made again"
	case "42501":
		return "the user lacks a privilege"
	case "42703", "42804", "42P10":
		return "the table has other columns"
	case "53300":
		return "there are too many connections"
	case "57P01", "57P03":
		return "the server starts or stops"
	}
	return "see the table of PostgreSQL's error codes"
}

func stateOf(err error) string {
	var answered *pgconn.PgError
	if errors.As(err, &answered) {
		return answered.Code
	}
	return ""
}
