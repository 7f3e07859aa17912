package ringtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// life is how long an account counts as connected.
const life = 5 * time.Minute

// connect asks for connections, and returns the accounts that may have one.
func (l *limited) connect(accounts ...string) string {
	l.Helper()
	answers, errs := limit.Of(l.ring).Connect(context.Background(), []limit.Connects{{Limit: l.held, Accounts: accounts}}, life)
	if errs[0] != nil {
		l.Fatal(errs[0])
	}
	var may []string
	for i, yes := range answers[0] {
		if yes {
			may = append(may, accounts[i])
		}
	}
	return strings.Join(may, " ")
}

// limitConnections has accounts that stay connected and checks share a concurrency.
func limitConnections(f *fixture) {
	l := f.limited(limit.Limit{Concurrency: 4})
	connects := func(when, want string, accounts ...string) {
		f.Helper()
		if got := l.connect(accounts...); got != want {
			f.Errorf("%s: %q may connect, want %q", when, got, want)
		}
	}
	l.expect("checks come first", l.ask(limit.Ask{CheckID: "1"}, limit.Ask{CheckID: "2"}), 2)
	connects("beside two checks", "a b", "a", "b", "c")
	l.leave("1", "2")
	connects("one place is left for checks", "c", "c", "d")
	l.expect("in that place", l.newcomers(2), 1)
	connects("those that are connected stay so", "a b c", "a", "b", "c", "d")

	key := l.state() + ":connected"
	for _, set := range []string{key, l.state() + ":leases"} {
		l.do("ZADD", set, 1, "@a")
	}
	connects("a has been silent", "d", "d", "a")

	l.do("ZADD", key, time.Now().Add(time.Hour).UnixMilli(), "@b")
	connects("the clock went back", "", "e")
	if left := time.Until(time.UnixMilli(int64(l.number("ZSCORE", key, "@b")))); left > life+time.Minute {
		f.Errorf("b counts as connected for %v", left)
	}
	l.held.Concurrency = 2
	connects("the limit is lower", "d", "b", "c", "d")
	l.held.Concurrency = 1
	connects("one at once: only checks", "", "d", "x")
	if ttl := l.number("PTTL", key); ttl > int(life.Milliseconds()) {
		f.Errorf("the connections last for %d ms", ttl)
	}

	l.do("SET", key, "x")
	l.held.Concurrency = 8
	connects("a key of another type is set aside", "a", "a")
	if n := (limit.Limit{Concurrency: 100}).MostConnected(); n != 87 {
		f.Errorf("%d of 100 may be connected", n)
	}
}

// limitsOfConnections asks several limits, and one that cannot be asked.
func limitsOfConnections(f *fixture) {
	good, bad := limit.Limit{Name: "a", Concurrency: 2, Lease: time.Minute}, limit.Limit{Name: "b"}
	answers, errs := limit.Of(f.ring).Connect(context.Background(), []limit.Connects{{Limit: good, Accounts: []string{"x", "y"}}, {Limit: limit.Limit{Name: "c", Concurrency: 9, Lease: time.Minute}, Accounts: []string{"x"}}}, life)
	if got := fmt.Sprint(answers, errs); got != "[[true false] [true]] [<nil> <nil>]" {
		f.Error(got)
	}
	if _, errs = limit.Of(f.ring).Connect(context.Background(), []limit.Connects{{Limit: good, Accounts: []string{"z"}}, {Limit: bad, Accounts: []string{"x"}}}, life); errs[0] == nil || errs[1] == nil {
		f.Errorf("a limit of nothing was asked: %v", errs)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, errs = limit.Of(f.ring).Connect(gone, []limit.Connects{{Limit: good, Accounts: []string{"x"}}}, life); errs[0] == nil {
		f.Error("asked after the end")
	}
}
