package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/pgtest"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// Messages go to that one of several servers which takes writes, also after it has become another.
func testSeveralServers(t *testing.T, first *pgtest.Server) {
	servers := []*pgtest.Server{first, pgtest.Start(t)}
	var list []string
	var admins, users []*sql.DB
	for _, server := range servers {
		execute(t, pgtest.Open(t, server.URL("postgres")), "CREATE ROLE plain LOGIN PASSWORD '"+password+"'", "CREATE DATABASE several OWNER plain")
		list = append(list, fmt.Sprintf("%q", server.Addr()))
		admins = append(admins, pgtest.Open(t, server.URL("several")+"&default_transaction_read_only=off"))
		user := pgtest.Open(t, server.URL("several"))
		user.SetMaxIdleConns(0) // each question is asked by a new connection
		users = append(users, user)
	}
	// set has servers take writes or none, also on connections that are open.
	set := func(readOnly ...string) {
		t.Helper()
		for i, value := range readOnly {
			execute(t, admins[i], "ALTER SYSTEM SET default_transaction_read_only = "+value, "SELECT pg_reload_conf()")
			for got := ""; got != value; {
				if err := users[i].QueryRowContext(t.Context(), "SHOW default_transaction_read_only").Scan(&got); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stored := func() (rows [2]int) {
		t.Helper()
		for i, user := range users {
			if err := user.QueryRowContext(t.Context(), "SELECT count(*) FROM rounds_messages").Scan(&rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		return rows
	}
	open := func(list ...string) *Sink {
		t.Helper()
		s := &Sink{config: added(t, `"servers":[`+strings.Join(list, ",")+`],"database":"several","user":"plain","password":{"secret":"PASSWORD"}`, map[string]string{"PASSWORD": password})}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	waits := func(s *Sink, account, want string) {
		t.Helper()
		var later *delivery.Later
		if err := s.Handle(t.Context(), sinktest.Messages(1, account))[0]; !errors.As(err, &later) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	handles := func(s *Sink, account string, want [2]int) {
		t.Helper()
		if err := errors.Join(s.Handle(t.Context(), sinktest.Messages(1, account))...); err != nil {
			t.Error(err)
		}
		if got := stored(); got != want {
			t.Errorf("the servers have %v rows, want %v", got, want)
		}
	}

	for i := range servers { // as if one had copied the other
		if err := open(list[i]).Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set("on", "off")
	s := open(list...)
	if err := s.Try(t.Context()); err != nil {
		t.Error(err)
	}
	handles(s, "a", [2]int{0, 1})
	set("on", "on")
	waits(s, "b", "refused with 25006: the server takes no writes")
	waits(s, "b", "none of the servers takes writes")
	waits(open(list[0]), "b", "refused with 25006: the server takes no writes")
	waits(open(list[0], `"127.0.0.1:1"`), "b", "one of the servers takes no writes, and another fails: no connection to the host: connection refused")
	set("off", "on")
	handles(s, "b", [2]int{1, 1})
	set("on", "off")
	waits(s, "c", "refused with 25006: the server takes no writes")
	handles(s, "c", [2]int{1, 2})
	set("off")
}
