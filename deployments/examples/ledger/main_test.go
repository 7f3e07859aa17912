package main

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEachMessageHasOneRow runs the example until it has delivered some message again.
func TestEachMessageHasOneRow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- run(ctx, &out, file) }()

	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	again := 0
	for tick := time.Tick(50 * time.Millisecond); again < 3; <-tick {
		if ctx.Err() != nil {
			t.Fatal("nothing was delivered again in a minute")
		}
		// The table is not there at first.
		_ = db.QueryRowContext(ctx, "SELECT count(*) FROM ledger WHERE attempt > 1").Scan(&again)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var rows, messages int
	if err := db.QueryRow("SELECT count(*), count(DISTINCT account || '/' || message) FROM ledger").Scan(&rows, &messages); err != nil {
		t.Fatal(err)
	}
	if rows != messages || rows < 9 {
		t.Errorf("%d rows of %d messages, want as many, and at least 9", rows, messages)
	}
	if !strings.Contains(out.String(), " of them delivered more than once") {
		t.Errorf("the example said %q", out.String())
	}
}
