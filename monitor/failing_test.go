package monitor_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// enter registers an account with marks of its last checks, and with the time of its last
// success.
func (w *world) enter(id string, age time.Duration, marks, record string) {
	w.Helper()
	w.Register(circulate.Registration{ID: id, Record: []byte(record)})
	tickets := key(w.Ring, w.Ring.ShardOf(id), "tickets")
	ticket, ok := w.Do("HGET", tickets, id).([]byte)
	if !ok {
		w.Fatalf("%s has no ticket", id)
	}
	w.Do("HSET", tickets, id, fmt.Sprintf("%s%08x%s%s", ticket[:16], time.Now().Add(-age).Unix(), marks, ticket[32:]))
}

// scanned returns what the last scan found of accounts that are checked in vain.
func (w *world) scanned() accounts.Failing {
	w.Helper()
	text, err := w.Ring.LastStaleness(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var scan accounts.Scan
	if err := json.Unmarshal(text, &scan); err != nil || scan.Failing == nil {
		w.Fatalf("%s, %v", text, err)
	}
	return *scan.Failing
}

// Failing accounts show after the first scan, by kind. An account that is checked once a
// day does not look neglected.
func TestFailingShows(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		record := func(kind, cadence string) string {
			return fmt.Sprintf(`{"id":"x","kind":%q,"config":{},"cadence":%q}`, kind, cadence)
		}
		for i := range 60 {
			w.enter(fmt.Sprint("daily", i), 20*time.Hour, "++++++++", record("feed", "every 24h"))
		}
		for i := range 30 {
			w.enter(fmt.Sprint("news", i), 40*time.Minute, "tttttttt", record("feed", "every 5m"))
		}
		for i := range 10 {
			w.enter(fmt.Sprint("wrong", i), 2*time.Hour, "bb------", record("http", "every 24h"))
		}
		w.enter("parked", 90*time.Hour, "a+++++++", record("feed", "every 5m"))
		if _, err := w.Ring.Park(w.Context(), w.Ring.ShardOf("parked"), "auth", []string{"parked"}); err != nil {
			w.Fatal(err)
		}
		stop := w.run(monitor.Config{SweepInterval: time.Minute})
		time.Sleep(time.Minute)
		f := w.scanned()
		if f.Accounts != 40 || f.Newly != 40 || f.NeverSucceeded != 10 || f.Behind != 30 || f.MissedMax < 7 || !strings.HasPrefix(f.MostMissed, "news") {
			w.Errorf("%+v", f)
		}
		if !slices.Equal(f.Kinds, []accounts.FailingKind{
			{Kind: "feed", Accounts: 30, Newly: 30, Behind: 30}, {Kind: "http", Accounts: 10, Newly: 10, NeverSucceeded: 10},
		}) {
			w.Errorf("%+v", f.Kinds)
		}
		w.exposed(`# TYPE rounds_accounts_behind gauge
rounds_accounts_behind{kind="feed"} 30
rounds_accounts_behind{kind="http"} 0
# TYPE rounds_accounts_failing gauge
rounds_accounts_failing{kind="feed"} 30
rounds_accounts_failing{kind="http"} 10
# TYPE rounds_accounts_never_succeeded gauge
rounds_accounts_never_succeeded{kind="feed"} 0
rounds_accounts_never_succeeded{kind="http"} 10
# TYPE rounds_accounts_newly_failing gauge
rounds_accounts_newly_failing{kind="feed"} 30
rounds_accounts_newly_failing{kind="http"} 10`, "rounds_accounts_failing", "rounds_accounts_newly_failing", "rounds_accounts_never_succeeded", "rounds_accounts_behind")
		// An hour after their first slot they are no longer new.
		time.Sleep(time.Hour)
		w.exposed(`# TYPE rounds_accounts_newly_failing gauge
rounds_accounts_newly_failing{kind="feed"} 0
rounds_accounts_newly_failing{kind="http"} 10`, "rounds_accounts_newly_failing")
		stop()
	})
}
