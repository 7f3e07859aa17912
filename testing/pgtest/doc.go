// Package pgtest starts PostgreSQL servers for tests: processes of their own, with
// a cluster in a directory of their own, on a free loopback port behind a password.
// A test that needs one fails where PostgreSQL is not installed, and says what to
// install: green means that it ran.
//
// PostgreSQL refuses to run as root. There the server runs as the user postgres
// or, without such a user, as nobody.
package pgtest
