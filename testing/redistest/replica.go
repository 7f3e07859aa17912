package redistest

import (
	"strconv"
	"testing"
)

// StartReplica starts a replica of a server, and waits until it has all data.
func StartReplica(tb testing.TB, of *Server, options ...Option) *Server {
	tb.Helper()
	s := Start(tb, options...)
	s.Follow(tb, of)
	return s
}

// Follow makes the server a replica of another one. It waits until the other's data has replaced
// its own.
func (s *Server) Follow(tb testing.TB, other *Server) {
	tb.Helper()
	must(tb, s.follow(other))
}

func (s *Server) follow(other *Server) error {
	if _, err := other.command("CONFIG", "SET", "repl-diskless-sync-delay", "0"); err != nil {
		return err
	}
	if _, err := s.command("REPLICAOF", "127.0.0.1", strconv.Itoa(other.Port)); err != nil {
		return err
	}
	return await("the replica is up to date", func() bool { return s.field("INFO", "master_link_status") == "up" })
}

// Lead makes a replica a master, with the data that it has. Its master gets no replica instead, and
// goes on: what is written there from then on is lost when it follows the new one.
func (s *Server) Lead(tb testing.TB) {
	tb.Helper()
	must(tb, s.lead())
}

func (s *Server) lead() error {
	_, err := s.command("REPLICAOF", "NO", "ONE")
	return err
}
