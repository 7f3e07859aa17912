// Command ledger shows how messages of checked accounts become rows in SQLite, each
// message once:
//
//	go run ./deployments/examples/ledger
//
// Redis is in the process. Three accounts have a new message at each check. At every
// third message the ledger fails after it wrote the row, as if the process was killed
// there. The row is then rolled back, and the message is delivered again.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout, filepath.Join(os.TempDir(), fmt.Sprintf("ledger-%d.db", os.Getpid()))); err != nil {
		log.Fatal(err)
	}
}

// run checks accounts and keeps the ledger until ctx is done.
func run(ctx context.Context, out io.Writer, file string) error {
	server := connect.NewEmbedded() // in production: connect.Open("redis://…")
	defer func() { _ = server.Close() }()
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	checkers, err1 := poller.NewCheckers(counter{})
	db, err2 := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	keeper, err3 := sqlonce.New(db, sqlonce.SQLite, enter, sqlonce.Options{})
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, "CREATE TABLE ledger (account TEXT, message TEXT, attempt INTEGER)")
	if err := errors.Join(err, keeper.Prepare(ctx)); err != nil {
		return err
	}
	for _, id := range []string{"anna", "ben", "carla"} {
		account := accounts.Account{ID: id, Kind: "counter", Cadence: "every 1s"}
		if _, err := accounts.NewRegistry(ring, checkers).Create(ctx, account); err != nil {
			return err
		}
	}
	pool, err := poller.New(ring, checkers, poller.Config{}, poller.Options{})
	if err != nil {
		return err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return pool.Run(ctx) })
	both.Go(func() error { return delivery.Consumer{Ring: ring, Group: "ledger", Handler: keeper}.Run(ctx) })
	if err := both.Wait(); err != nil {
		return err
	}
	var rows, messages, again int
	err = db.QueryRow("SELECT count(*), count(DISTINCT account || message), sum(attempt > 1) FROM ledger").Scan(&rows, &messages, &again)
	fmt.Fprintf(out, "%s: %d rows of %d messages, %d of them delivered more than once\n", file, rows, messages, again)
	return err
}

// enter writes a message's row, in the same transaction as the record of its delivery.
func enter(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?, ?)", d.Account, d.Message.ID, d.Attempt)
	if n, _ := strconv.Atoi(d.Message.ID); n%3 == 0 && d.Attempt == 1 {
		panic("the power fails")
	}
	return err
}
