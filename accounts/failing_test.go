package accounts_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// monday is a Monday at noon.
var monday = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func one(age time.Duration, failing, never bool) []circulate.SlowCount {
	return []circulate.SlowCount{{Age: age, Failing: failing, NeverSucceeded: never, Accounts: 1}}
}

// Each row is one account. How it counts depends on its cadence, not on its age alone.
func TestFailingByCadence(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		cadence      string
		age          time.Duration
		missed       int
		newly, falls bool
	}{
		{"", 170 * time.Second, 0, true, false}, // three minutes must have passed
		{"", 3 * time.Minute, 3, true, true},
		{"", 62 * time.Minute, 62, false, true},
		{"every 0", 4 * time.Minute, 4, true, true}, // counts as a minute
		{"every 1s", 4 * time.Minute, 4, true, true},
		{"every 20s", 6*time.Minute + 32*time.Second, 6, true, true}, // and not 19
		{"every 24h", 23 * time.Hour, 0, true, false},                // its last check was before its slot
		{"every 24h", day + 30*time.Minute, 1, true, false},
		{"every 24h", day + 90*time.Minute, 1, false, false},
		{"every 24h", 3 * day, 3, false, true},
		{"every 1h", 5000 * time.Hour, 1000, false, true},
		{"adaptive 30s..10m", 29 * time.Minute, 2, true, false},
		{"adaptive 30s..10m", 31 * time.Minute, 3, true, true},
		{"cron 0 9 * * 1-5", 3*day - 3*time.Hour - time.Minute, 1, false, false}, // since Friday it has missed only this morning's check
		{"cron 30 11 * * 1-5", 3 * day, 1, true, false},
		{"cron 0 9 * * 1-5", 6 * day, 4, false, true},
		{"cron * * * * *", day, 100, false, true},
		{"at 2026-11-16T11:50:00Z", 90 * day, 1, true, false},
		{"at 2027-01-01T00:00:00Z", 90 * day, 0, true, false},
		{"nonsense", 90 * day, 0, false, false},
	} {
		count := accounts.NewFailingCount()
		count.Add(monday, []circulate.SlowGroup{{Kind: "feed", Cadence: tt.cadence, Stalest: "a", Counts: one(tt.age, true, false)}})
		found := count.Found(1)
		if found.MissedMax != tt.missed || found.MissedP99 != tt.missed || found.Accounts != 1 || (found.Newly == 1) != tt.newly || (found.Behind == 1) != tt.falls {
			t.Errorf("%q, %v: %+v", tt.cadence, tt.age, found)
		}
	}
}

func TestFailingByKind(t *testing.T) {
	count := accounts.NewFailingCount()
	count.Add(monday, []circulate.SlowGroup{
		{Kind: "http", Stalest: "h", Counts: []circulate.SlowCount{
			{Age: time.Minute, Failing: true, Accounts: 3}, {Age: time.Hour, Failing: true, NeverSucceeded: true, Accounts: 4}, {Age: 4 * time.Minute, Accounts: 1},
		}},
		{Kind: "feed", Cadence: "every 24h", Stalest: "f", Counts: one(time.Hour, false, false)},
	})
	count.Add(monday, []circulate.SlowGroup{{Kind: "http", Cadence: "every 1h", Stalest: "i", Counts: one(100*time.Hour, true, false)}})
	want := accounts.Failing{
		Accounts: 8, Newly: 7, NeverSucceeded: 4, Behind: 6, MissedP99: 4, MissedMax: 100, MostMissed: "i",
		Kinds: []accounts.FailingKind{{Kind: "http", Accounts: 8, Newly: 7, NeverSucceeded: 4, Behind: 6}},
	}
	if got := count.Found(599); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := count.Found(601); got.MissedP99 != 0 {
		t.Errorf("six of 601 have missed some, and the 99th %d", got.MissedP99)
	}
}

// The number of series is bounded, however many kinds the records name.
func TestFailingKindsAreBounded(t *testing.T) {
	count := accounts.NewFailingCount()
	for i := range 1000 {
		count.Add(monday, []circulate.SlowGroup{{Kind: string(rune('a'+i%26)) + string(rune('a'+i/26)), Stalest: "x", Counts: one(time.Hour, true, false)}})
	}
	found := count.Found(1000)
	if len(found.Kinds) != 101 || found.Accounts != 1000 {
		t.Errorf("%d kinds, %d accounts", len(found.Kinds), found.Accounts)
	}
	if !slices.ContainsFunc(found.Kinds, func(k accounts.FailingKind) bool { return k.Kind == "other" && k.Accounts == 900 }) {
		t.Errorf("%+v", found.Kinds)
	}
}
