package sqlonce

import (
	"fmt"
	"strings"
)

// Dialect is the SQL that a database speaks. It works with any database/sql driver whose errors
// have a method for their code: SQLState() string for PostgreSQL (pgx, lib/pq), Code() int for
// SQLite (modernc.org/sqlite).
type Dialect int

// The supported databases.
const (
	PostgreSQL Dialect = iota + 1
	SQLite
)

// String returns the database's name.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// statements are what a Handler executes. An empty statement is left out.
type statements struct {
	prepare []string // in one transaction
	record  string   // argument: a JSON array of [group, account, message]; returns the ones that were not there
	guard   string   // behind record
	after   string   // after each call of the function: fails if the transaction is no longer open
	check   string   // before the commit: the same
	prune   string   // arguments: age in seconds, most records
}

func (d Dialect) statements(table string) statements {
	if d == SQLite {
		return sqlite(table)
	}
	return postgreSQL(table)
}

const columns = "consumer_group, account, message"

// quote returns a table's name in quotes, its schema, and its name without the schema.
func quote(table string) (quoted, schema, name string) {
	quoted = `"` + strings.ReplaceAll(table, ".", `"."`) + `"`
	if before, after, ok := strings.Cut(table, "."); ok {
		return quoted, before, after
	}
	return quoted, "", table
}

// postgreSQL returns the statements for PostgreSQL.
func postgreSQL(table string) statements {
	quoted, _, name := quote(table)
	fill := strings.NewReplacer("$TABLE", quoted, "$INDEX", `"`+name+`_applied_at"`, "$LOCK", "rounds sqlonce "+table, "$COLUMNS", columns).Replace
	return statements{
		prepare: []string{
			// IF NOT EXISTS alone fails if two processes do it at once.
			fill(`SELECT pg_advisory_xact_lock(hashtextextended('$LOCK', 0))`),
			// Keys collate by bytes, because the index outlives the system's collations, which
			// change with its versions.
			fill(`CREATE TABLE IF NOT EXISTS $TABLE (
				consumer_group text COLLATE "C" NOT NULL,
				account        text COLLATE "C" NOT NULL,
				message        text COLLATE "C" NOT NULL,
				applied_at     timestamptz NOT NULL DEFAULT now(),
				PRIMARY KEY ($COLUMNS))`),
			fill(`CREATE INDEX IF NOT EXISTS $INDEX ON $TABLE (applied_at)`),
		},
		record: fill(`INSERT INTO $TABLE ($COLUMNS)
			SELECT r->>0, r->>1, r->>2 FROM json_array_elements($1::text::json) AS r
			ON CONFLICT ($COLUMNS) DO NOTHING RETURNING $COLUMNS`),
		check: `SELECT 1`, // 25P02 after an error that the function did not return
		prune: fill(`DELETE FROM $TABLE WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM $TABLE WHERE applied_at < now() - make_interval(secs => $1)
			ORDER BY applied_at LIMIT $2 FOR UPDATE SKIP LOCKED))`),
	}
}

// sqlite returns the statements for SQLite.
func sqlite(table string) statements {
	quoted, schema, name := quote(table)
	index := `"` + name + `_applied_at"`
	if schema != "" { // SQLite wants the schema before the index's name, and none before the table's
		index = `"` + schema + `".` + index
	}
	fill := strings.NewReplacer("$TABLE", quoted, "$NAME", `"`+name+`"`, "$INDEX", index, "$COLUMNS", columns).Replace
	return statements{
		prepare: []string{
			fill(`CREATE TABLE IF NOT EXISTS $TABLE (
				consumer_group TEXT NOT NULL,
				account        TEXT NOT NULL,
				message        TEXT NOT NULL,
				applied_at     INTEGER NOT NULL, -- Unix seconds
				PRIMARY KEY ($COLUMNS)) WITHOUT ROWID`),
			fill(`CREATE INDEX IF NOT EXISTS $INDEX ON $NAME (applied_at)`),
		},
		record: fill(`INSERT INTO $TABLE ($COLUMNS, applied_at)
			SELECT value->>0, value->>1, value->>2, CAST(strftime('%s', 'now') AS INTEGER) FROM json_each(?) WHERE true
			ON CONFLICT ($COLUMNS) DO NOTHING RETURNING $COLUMNS`),
		// Some errors roll back the whole transaction, and later statements would then be
		// committed one by one. But the savepoint is gone too, so RELEASE fails.
		guard: `SAVEPOINT sqlonce`,
		after: `RELEASE sqlonce; SAVEPOINT sqlonce`,
		prune: fill(`DELETE FROM $TABLE WHERE ($COLUMNS) IN (
			SELECT $COLUMNS FROM $TABLE WHERE applied_at < CAST(strftime('%s', 'now') AS INTEGER) - ?
			ORDER BY applied_at LIMIT ?)`),
	}
}
