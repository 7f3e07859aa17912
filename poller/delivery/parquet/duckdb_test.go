package parquet

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// script prints the columns of a file and its rows, as DuckDB has them.
const script = `
const { DuckDBInstance } = require(process.argv[1] + '/@duckdb/node-api');
(async () => {
  const db = await (await DuckDBInstance.create(':memory:')).connect();
  for (const query of ["SELECT string_agg(name || ' ' || duckdb_type, ', ') FROM parquet_schema($1) WHERE name <> 'row'",
    "SELECT id, account, kind, message, type, epoch_us(time), data->>'n', handle FROM read_parquet($1)"]) {
    const rows = await (await db.runAndReadAll(query, [process.argv[2]])).getRows();
    for (const row of rows) console.log(row.join('|'));
  }
})();`

// TestDuckDB reads a file with a database that others wrote. testing/nightly.sh installs it.
func TestDuckDB(t *testing.T) {
	modules := os.Getenv("ROUNDS_TEST_DUCKDB")
	if modules == "" {
		t.Skip("ROUNDS_TEST_DUCKDB names no folder node_modules with @duckdb/node-api")
	}
	f := form{sinktest.Namespace}
	var lines bytes.Buffer
	timeless := sinktest.Message("账号", 1)
	timeless.Message.Time = time.Time{}
	for _, d := range append(sinktest.Messages(1, "a"), timeless) {
		line, err := f.Line(d)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	var file bytes.Buffer
	if err := f.Convert()(&lines, &file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lake.parquet")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := exec.CommandContext(ctx, "node", "-e", script, modules, path).CombinedOutput()
	want := "id VARCHAR, account VARCHAR, kind VARCHAR, message VARCHAR, type VARCHAR, time TIMESTAMP WITH TIME ZONE, data JSON, handle VARCHAR\n" +
		sink.Key(sinktest.Namespace, sinktest.Message("a", 0)) + "|a|feed|a-0|text|1772366400000000|0|0:1-0\n" +
		sink.Key(sinktest.Namespace, timeless) + "|账号|feed|账号-1|text||1|0:2-0\n"
	if err != nil || string(got) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
}
