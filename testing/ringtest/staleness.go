package ringtest

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// staleness plants ages and expects what a scan makes of them.
func staleness(f *fixture) {
	ctx := context.Background()
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	plant := func(id string, age time.Duration) {
		f.register(id)
		ticket := f.text("HGET", f.key("tickets"), id)
		f.do("HSET", f.key("tickets"), id, fmt.Sprintf("%s%08x%s", ticket[:16], now.Add(-age).Unix(), ticket[24:]))
	}
	for i := range 98 {
		plant(fmt.Sprint("a", i), time.Minute)
	}
	plant("old", time.Hour)
	plant("oldest", 240*time.Hour)
	plant("parked", 1000*time.Hour)
	plant("future", -time.Hour) // Redis' clock went back
	if _, err := f.ring.Park(ctx, 0, "gone", []string{"parked"}); err != nil {
		f.Fatal(err)
	}
	f.do("HSET", f.key("tickets"), "unreadable", "x")
	var all circulate.Ages
	for cursor := ""; cursor != circulate.ScanDone; {
		page, next, err := f.ring.Staleness(ctx, 0, cursor, 10)
		if err != nil {
			f.Fatal(err)
		}
		all.Add(page)
		cursor = next
	}
	about := func(what string, got, want time.Duration) {
		f.Helper()
		// A minute that a loaded machine may take, and the width of a bucket.
		if got < want || float64(got) > 1.1*float64(want+time.Minute) {
			f.Errorf("%s is %v, want about %v", what, got, want)
		}
	}
	if all.Scanned != 101 || all.Parked != 1 || all.Stalest != "oldest" {
		f.Errorf("scanned %d, parked %d, stalest %q", all.Scanned, all.Parked, all.Stalest)
	}
	about("the median", all.Quantile(0.5), time.Minute)
	about("the 99th", all.Quantile(0.99), time.Hour)
	about("the highest", all.Max, 240*time.Hour)
	if n, err := f.ring.LastStaleness(ctx); err != nil || n != nil {
		f.Errorf("%q is kept, %v", n, err)
	}
	if err := f.ring.KeepStaleness(ctx, []byte(`{"n":1}`)); err != nil {
		f.Fatal(err)
	}
	if n, err := f.ring.LastStaleness(ctx); err != nil || string(n) != `{"n":1}` {
		f.Errorf("%q is kept, %v", n, err)
	}
}

func duties(f *fixture) {
	ask := func(who string, ttl time.Duration, want bool) {
		f.Helper()
		if mine, err := f.ring.OnDuty(context.Background(), who, ttl); err != nil || mine != want {
			f.Errorf("%s is on duty: %v, %v", who, mine, err)
		}
	}
	ask(alice, time.Hour, true)
	ask(bob, time.Hour, false)
	ask(alice, time.Hour, true)
	ask(bob, 0, false) // it is not bob's to give up
	ask(bob, time.Hour, false)
	ask(alice, 0, false)
	ask(bob, time.Hour, true)
}
