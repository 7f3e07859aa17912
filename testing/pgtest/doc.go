// Package pgtest starts PostgreSQL servers for tests: separate processes, each with a
// cluster in its own directory, on a free loopback port behind a password. A test that
// needs one fails where PostgreSQL is not installed, and says what to install. So a green
// run means that it ran.
//
// PostgreSQL refuses to run as root. If the tests run as root, the server runs as the
// user postgres or, without such a user, as nobody.
package pgtest
