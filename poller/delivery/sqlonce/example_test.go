package sqlonce_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

// Messages become rows of an SQLite file. Each message becomes one row, however often it is
// delivered. A delivery.Consumer calls the handler; here the example calls it in the same way.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "inbox.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, "CREATE TABLE inbox (account TEXT, data TEXT)"); err != nil {
		log.Fatal(err)
	}

	handler, err := sqlonce.New(db, sqlonce.SQLite, func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO inbox VALUES (?, ?)", d.Account, string(d.Message.Data))
		return err
	}, sqlonce.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := handler.Prepare(ctx); err != nil {
		log.Fatal(err)
	}

	found := circulate.Found{Position: "1-0", Account: "news", Message: circulate.Message{ID: "42", Data: []byte(`"hello"`)}}
	for attempt := 1; attempt <= 3; attempt++ {
		errs := handler.Handle(ctx, []delivery.Delivery{{Found: found, Group: "inbox", Attempt: attempt}})
		fmt.Println("delivered, failures:", len(errs))
	}
	var rows int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM inbox").Scan(&rows); err != nil {
		log.Fatal(err)
	}
	fmt.Println("rows:", rows)
	// Output:
	// delivered, failures: 0
	// delivered, failures: 0
	// delivered, failures: 0
	// rows: 1
}
