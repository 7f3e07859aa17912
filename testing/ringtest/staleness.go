package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// staleness sets ages and expects what a scan reports.
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
	kind := func(id, record string) { f.do("HSET", f.key("accounts"), id, record) }
	kind("old", `{"id":"old","kind":"k"}`)
	kind("parked", `{"id":"parked","kind":"k"}`)
	kind("oldest", `{"id":"oldest","kind":"other"}`)
	kind("a1", `{"id":"a1","kind":"k"}`) // too young
	var all circulate.Ages
	var told []circulate.Stale
	for cursor := ""; cursor != circulate.ScanDone; {
		page, err := f.ring.Staleness(ctx, 0, cursor, 10, circulate.StaleFilter{Kinds: []string{"none", "k"}, From: 30 * time.Minute})
		if err != nil {
			f.Fatal(err)
		}
		if page.Slow != nil {
			f.Errorf("%+v is told, and nobody asked", page.Slow)
		}
		told = append(told, page.Told...)
		all.Add(page.Ages)
		cursor = page.Next
	}
	about := func(what string, got, want time.Duration) {
		f.Helper()
		// The test may take a minute on a loaded machine, and a bucket has a width.
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
	slices.SortFunc(told, func(a, b circulate.Stale) int { return strings.Compare(a.ID, b.ID) })
	told = slices.CompactFunc(told, func(a, b circulate.Stale) bool { return a.ID == b.ID })
	if len(told) != 2 || told[0].ID != "old" || told[1].ID != "parked" {
		f.Fatalf("told %v", told)
	}
	about("the old one's age", told[0].Age, time.Hour)
	about("the parked one's age", told[1].Age, 1000*time.Hour)
	if !told[0].Parked.IsZero() || told[0].Reason != "" || string(told[0].Record) != `{"id":"old","kind":"k"}` {
		f.Errorf("%+v", told[0])
	}
	if told[1].Reason != "gone" || told[1].Parked.Before(now) {
		f.Errorf("%+v", told[1])
	}
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

// slowness sets histories and expects what a scan reports of accounts together.
func slowness(f *fixture) {
	ctx := context.Background()
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	plant := func(id string, age time.Duration, marks, record string) {
		f.register(id)
		ticket := f.text("HGET", f.key("tickets"), id)
		f.do("HSET", f.key("tickets"), id, fmt.Sprintf("%s%08x%s%s", ticket[:16], now.Add(-age).Unix(), marks, ticket[32:]))
		f.do("HSET", f.key("accounts"), id, record)
	}
	record := func(id, rest string) string { return fmt.Sprintf(`{"id":%q,"kind":"feed","config":{}%s}`, id, rest) }
	plant("well", time.Second, "++++++++", record("well", ""))
	plant("fetching", time.Second, "m+++++++", record("fetching", ""))
	plant("new", time.Second, "--------", record("new", ""))
	plant("fails", time.Minute, "b+++++++", record("fails", `,"cadence":"every 5m"`))
	plant("never", 2*time.Minute, "tt------", record("never", `,"cadence":"every 5m","labels":{"cadence":"x"}`))
	plant("long never", 3*time.Minute, "tttttttt", record("long never", `,"cadence":"every 5m"`)) // succeeded before
	plant("never caught up", time.Second, "m-------", record("never caught up", ""))
	plant("excused", time.Hour, "W+++++++", record("excused", ""))
	plant("slow", time.Hour, "++++++++", `{"id":"slow","kind":"http","config":{"cadence":"every 9h"}}`)
	plant("late", time.Hour, "++++++++", `{"id":"late","kind":"http","config":{"cadence":"every 9h"},"cadence":"every 1h","priority":"low"}`)
	plant("no record", time.Hour, "++++++++", "{")
	plant("gone", time.Hour, "a+++++++", record("gone", ""))
	if _, err := f.ring.Park(ctx, 0, "auth", []string{"gone"}); err != nil {
		f.Fatal(err)
	}
	f.do("HSET", f.key("tickets"), "unreadable", "x")
	var got []string
	read, scanned := 0, 0
	for cursor := ""; cursor != circulate.ScanDone; {
		page, err := f.ring.Staleness(ctx, 0, cursor, 100, circulate.StaleFilter{Slow: 30 * time.Minute, Sound: []circulate.Mark{'m'}, Excused: []circulate.Mark{'W'}})
		if err != nil {
			f.Fatal(err)
		}
		for _, g := range page.Slow {
			for _, c := range g.Counts {
				// On a slow machine an age may fall into the next bucket.
				got = append(got, fmt.Sprintf("%s|%s|%s|%v|%v|%v|%d", g.Kind, g.Cadence, g.Stalest, c.Failing, c.NeverSucceeded, c.Age >= 50*time.Minute, c.Accounts))
			}
		}
		read, scanned, cursor = read+page.Read, scanned+page.Scanned, page.Next
	}
	slices.Sort(got)
	want := []string{
		"feed|every 5m|long never|true|false|false|1", "feed|every 5m|long never|true|false|false|1",
		"feed|every 5m|long never|true|true|false|1", "feed||never caught up|false|true|false|1",
		"http|every 1h|late|false|false|true|1", "http||slow|false|false|true|1", "||no record|false|false|true|1",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if read < 300 || read > 800 || scanned != 11 {
		f.Errorf("%d bytes were read, of %d accounts", read, scanned)
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
	ask(bob, 0, false) // bob does not hold it, so he cannot give it up
	ask(bob, time.Hour, false)
	ask(alice, 0, false)
	ask(bob, time.Hour, true)
}
