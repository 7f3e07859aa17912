package sqlonce_test

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

func TestInvalidOptions(t *testing.T) {
	db := openSQLite(t, "")
	long := strings.Repeat("x", 49)
	for _, c := range []struct {
		o    sqlonce.Options
		want string
	}{
		{sqlonce.Options{Table: `a"; DROP TABLE b`}, "table:"},
		{sqlonce.Options{Table: "a.b.c"}, "table:"},
		{sqlonce.Options{Table: "a."}, "table:"},
		{sqlonce.Options{Table: "1a"}, "table:"},
		{sqlonce.Options{Table: "SQLite_a"}, "table:"},
		{sqlonce.Options{Table: long}, "table:"},
		{sqlonce.Options{MaxBatch: -1}, "max batch:"},
		{sqlonce.Options{MaxBatch: 10_001}, "max batch:"},
		{sqlonce.Options{ConflictWait: -1}, "conflict wait:"},
		{sqlonce.Options{Isolation: 99}, "isolation:"},
	} {
		if _, err := sqlonce.New(db, sqlonce.SQLite, apply, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
	_, err := sqlonce.New(nil, 0, nil, sqlonce.Options{Table: "-", MaxBatch: -1})
	for _, field := range []string{"table:", "max batch:", "db:", "dialect:", "function:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
