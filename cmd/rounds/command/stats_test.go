package command

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestHeadroomForPeople(t *testing.T) {
	hours := func(h float64) *float64 { h *= 3600; return &h }
	for want, s := range map[string]api.Schedule{
		"": {},
		"20h0m0s, of the 72h0m0s that the third party keeps messages":                             {Retention: hours(72), Headroom: hours(20)},
		"none since 1h0m0s, of the 72h0m0s that the third party keeps messages: some may be lost": {Retention: hours(72), Headroom: hours(-1)},
	} {
		if got := headroomOf(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var out strings.Builder
	stats := api.Stats{Staleness: &accounts.Staleness{Headroom: []accounts.Headroom{
		{Kind: "feed", Least: 3600, Account: "a"}, {Kind: "wecom-kf", Least: -60, Account: "b", Low: 3, Critical: 2, Past: 1, Parked: 2},
	}}}
	if err := printStats(&out, shownStats{Stats: stats}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"feed: least 1h0m0s (a)\n", "wecom-kf: least -1m0s (b); 3 with less than half left, 2 with less than a quarter, 1 with none; 2 of them parked\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Late accounts are in time again after a while, never, or nobody knows when.
func TestCatchUpForPeople(t *testing.T) {
	for want, c := range map[string]*accounts.CatchUp{
		"in time again  in about 3m0s: 5551.0 checks/s, 5000.0 are asked for, about 600 accounts wait\n":        {Seconds: 180, Made: 5551, Asked: 5000, Late: 600},
		"in time again  not with this capacity: 40.0 checks/s, 50.5 are asked for, about 12345 accounts wait\n": {Never: true, Made: 40, Asked: 50.5, Late: 12345},
		"": nil,
	} {
		var out strings.Builder
		if err := printStats(&out, shownStats{Stats: api.Stats{OverdueSeconds: 75, CatchUp: c}}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "in time again") != (c != nil) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A dead replica shows no rates: they are what it reported while it lived, and would count
// twice beside its successor's.
func TestADeadReplicaShowsNoRates(t *testing.T) {
	alive := api.Replica{Name: "alice00000", Alive: true}
	alive.ChecksPerSecond, alive.InFlight, alive.Concurrency = 333.4, 5, 256
	dead := api.Replica{Name: "bob0000000"}
	dead.ChecksPerSecond, dead.InFlight, dead.Concurrency = 166.7, 7, 256
	var out strings.Builder
	if err := printReplicas(&out, time.Time{}, []api.Replica{alive, dead}, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "333.4") || strings.Contains(got, "166.7") || strings.Contains(got, "7/256") {
		t.Error(got)
	}
}

// Just after an outage of Redis a replica lives that has not reported anything since: its figures are
// shown with their time.
func TestFiguresFromBeforeAnOutageHaveTheirTime(t *testing.T) {
	now := time.Date(2026, 11, 26, 5, 0, 30, 0, time.UTC)
	for age, old := range map[time.Duration]bool{2 * time.Second: false, 40 * time.Second: true} {
		heard := now.Add(-age)
		replica := api.Replica{Name: "alice00000", Alive: true, LastHeartbeat: heard}
		replica.ChecksPerSecond = 333.4
		var out strings.Builder
		if err := printStats(&out, shownStats{Stats: api.Stats{Now: now, Replicas: []api.Replica{replica}}}); err != nil || !strings.Contains(out.String(), "333.4") ||
			strings.Contains(out.String(), "alive, figures as of "+clockTime(heard)+" ") != old {
			t.Errorf("%v: %s, %v", age, out.String(), err)
		}
	}
}

// While the number of shards changes, a scan may count an account twice, and the output
// says so.
func TestStatsSayThatAScanMayCountTwice(t *testing.T) {
	for moving, want := range map[bool]string{true: "; the number of shards was changing, so some of them may be counted twice\n", false: "of 5 accounts at " + clockTime(time.Time{}) + "\n"} {
		var out strings.Builder
		stats := api.Stats{Staleness: &accounts.Staleness{Scanned: 5, Moving: moving}, Failing: &accounts.Failing{Behind: 7}}
		if err := printStats(&out, shownStats{Stats: stats}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %s", err, out.String())
		}
		if _, behind, _ := strings.Cut(out.String(), "behind "); strings.Contains(behind, "may be counted twice") != moving {
			t.Errorf("%v: %s", moving, out.String())
		}
	}
}

// The end of a process is one moment, in the same words for its replica.
func TestAReplicaIsSilentSinceItsProcessIs(t *testing.T) {
	heard := time.Date(2026, 11, 25, 0, 33, 7, 0, time.UTC)
	s := api.Stats{
		Replicas:  []api.Replica{{Name: "bob0000000", LastHeartbeat: heard.Add(-time.Second)}},
		Processes: []api.Process{{Name: "bob0000000", LastHeartbeat: heard}},
	}
	var out strings.Builder
	if err := printStats(&out, shownStats{Stats: s}); err != nil || strings.Count(out.String(), "silent since "+clockTime(heard)) != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// Figures that are not of this moment are shown with their time.
func TestOldFiguresHaveTheirTime(t *testing.T) {
	now := time.Date(2026, 11, 25, 21, 21, 53, 0, time.UTC)
	for age, want := range map[time.Duration]string{5 * time.Second: "2285 messages wait\n", 80 * time.Second: "2285 messages wait, as of " + clockTime(now.Add(-80*time.Second)) + "\n"} {
		var out strings.Builder
		wrong := concern.Concerns{Now: now, Concerns: []concern.Concern{{Code: concern.GroupLagging, Level: concern.Warn, Text: "consumer group audit lags: 2285 messages wait", AsOf: now.Add(-age)}}}
		if err := printWrong(&out, shownStats{Wrong: &wrong}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s, %v; want %q", out.String(), err, want)
		}
	}
}

// A fault of Redis is shown once, among the current concerns.
func TestConcernsOfRedisAreToldOnce(t *testing.T) {
	const text = "redis 127.0.0.1:6379: appendonly is no, and no snapshots are made: a restart loses everything; set appendonly to yes"
	stats := shownStats{
		Stats: api.Stats{Data: &api.Data{Store: "127.0.0.1:6379", Concerns: []api.RedisConcern{{Concern: "appendonly", Text: text}}}},
		Wrong: &concern.Concerns{Concerns: []concern.Concern{{Code: concern.RedisAppendOnly, Level: concern.Warn, Text: text}}},
	}
	var out strings.Builder
	if err := showStats(&out, stats, false); err != nil || strings.Count(out.String(), text) != 1 || !strings.Contains(out.String(), "WRONG NOW\nwarn   -      "+text) {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestCapacityForPeople(t *testing.T) {
	c := accounts.CapacityOf(accounts.Load{InFlight: 1, Places: 100, Held: 30, HeldPlaces: 39, Memory: 1, MemoryLimit: 2, MemoryMark: 100})
	const want = "30 % more accounts like these fit: held 30 %, memory 100 %, places 1000 % or more"
	if got := capacityIn(c); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
