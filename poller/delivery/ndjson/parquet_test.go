package ndjson_test

import (
	"strings"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/rounds-dev/rounds/poller/delivery/ndjson"
	"github.com/rounds-dev/rounds/poller/delivery/parquet"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// Parquet files are made of lines, so what the suite breaks is this package's. A kill between the finished
// file and the removal of its lines makes the same file again.
func TestParquet(t *testing.T) {
	all, err := sink.Types{parquet.Type{Namespace: sinktest.Namespace}}.Read(strings.NewReader(`{"endpoints":[{"name":"lake","type":"parquet","directory":"/x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	to, err := all[0].Config.Open()
	if err != nil {
		t.Fatal(err)
	}
	sinktest.Run(t, sinktest.Suite{
		New:     func(t *testing.T) sinktest.Place { return ndjson.NewPlace(t, to.(*ndjson.Sink), rows) },
		Doubles: true, // not Fake: decoders of Zstandard go from test to test, which bubbles forbid
	})
}

// rows reads the rows of a file as parquet-go has them; package parquet reads one with DuckDB by night.
func rows(t testing.TB, path string) (all []sinktest.Stored) {
	t.Helper()
	read, err := parquetgo.ReadFile[struct {
		ID      string `parquet:"id"`
		Account string `parquet:"account"`
		Message string `parquet:"message"`
		Data    string `parquet:"data"`
	}](path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range read {
		all = append(all, sinktest.Stored{Key: r.ID, Account: r.Account, ID: r.Message, Data: r.Data})
	}
	return all
}
