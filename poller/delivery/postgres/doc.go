// Package postgres stores messages as rows of a PostgreSQL table, each effectively once. It is the
// type postgres of endpoints.
//
// A row and the record that its message is stored are committed in one transaction by package
// sqlonce, whose table has the name of this one with _applied behind it. Records are removed after
// 14 days, so a message that comes again later than that is a second row with the same id.
//
// While the database is away, refuses to let the endpoint in, or lacks the permission to create the
// table, messages wait. A value that the table's own types cannot have, after somebody changed them,
// makes a dead letter of its message alone.
package postgres
