package ringtest

import (
	"context"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/testing/census"
)

// count reads the whole shard itself and does not ask the ring.
func (f *fixture) count() *census.Census {
	f.Helper()
	conn, err := f.server.Conn(context.Background(), f.key("tickets"))
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	c := census.New()
	if err := c.ReadAtRest(conn, strings.TrimSuffix(f.key(""), ":")); err != nil {
		f.Fatal(err)
	}
	return c
}

// conserved expects every account in exactly one place under its current ticket, and a
// reason for every parked one.
func (f *fixture) conserved() {
	f.Helper()
	f.check(census.Once)
}

// conservedOnceClaimed is conserved, but allows copies of one entry in message_queue. A
// monitor that stopped half way leaves them, and the account's next claim makes them
// void.
func (f *fixture) conservedOnceClaimed() {
	f.Helper()
	f.check(func(places []string) bool {
		return census.OnceInALane(places) && (len(places) == 1 || places[0] == "message_queue")
	})
}

func (f *fixture) check(lawful func(places []string) bool) {
	f.Helper()
	c := f.count()
	if broken := append(c.Broken(lawful), c.Strays...); len(broken) > 0 {
		slices.Sort(broken)
		f.Fatalf("the conservation law does not hold:\n%v", strings.Join(broken, "\n"))
	}
}
