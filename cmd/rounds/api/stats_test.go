package api

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// The stats count failing accounts as the problems do, at the same moment, and add what only the
// scan knows. Neither counts parked accounts.
func TestStatsTellWhatTheProblemsTell(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.ring.KeepStaleness(t.Context(), []byte(`{"at":"2026-11-20T08:00:00Z","failing":{"accounts":22920,"newly":9,"never_succeeded":8,"behind":3,"missed_slots_max":9,"most_missed":"z","kinds":[{"kind":"feed","accounts":22920,"behind":3}]}}`)); err != nil {
		t.Fatal(err)
	}
	var s Stats
	f.call("GET", "/v1/stats", "", 200, &s)
	if got := s.Failing; got == nil || got.Accounts != 22920 || !got.At.Equal(s.Staleness.At) {
		t.Errorf("of the scan alone: %+v", got)
	}
	now := time.Now().Truncate(time.Second).UTC()
	gathering := problem.NewGathering(0)
	never := circulate.History{Succeeded: now.Add(-5 * time.Minute), Marks: []circulate.Mark{'t', 't', 't', 't', 't', 't', 't'}}
	for i := range 2 {
		gathering.Failing(now, []circulate.FailingAccount{{ID: fmt.Sprint("id", i), Record: []byte(`{"kind":"imap","config":{"host":"m.example"}}`), Error: "http_404: no", History: never}})
	}
	gathering.Parked(&circulate.FailingAccount{ID: "m", Record: []byte(`{"kind":"imap"}`), History: never}, circulate.ParkedAccount{ID: "m", Since: now, Reason: "auth: refused"})
	if err := problem.Store(t.Context(), f.ring, gathering.Summary(now, 7)); err != nil {
		t.Fatal(err)
	}
	s = Stats{}
	f.call("GET", "/v1/stats", "", 200, &s)
	var p Problems
	f.call("GET", "/v1/problems", "", 200, &p)
	got := s.Failing
	if got.Accounts != 2 || got.NeverSucceeded != 2 || !got.At.Equal(now) || got.LeftOut != 7 || got.Behind != 3 || got.MostMissed != "z" {
		t.Errorf("stats: %+v", got)
	}
	if got.Accounts != p.Failing || got.Newly != p.Newly || got.NeverSucceeded != p.NeverSucceeded || !got.At.Equal(p.At) {
		t.Errorf("stats: %+v, problems: %+v", got, p.Counts)
	}
	if len(got.Kinds) != 2 || got.Kinds[0].Kind != "feed" || got.Kinds[0].Accounts != 0 || got.Kinds[0].Behind != 3 || got.Kinds[1].Accounts != 2 {
		t.Errorf("kinds: %+v", got.Kinds)
	}
}

// Just after an outage of Redis, stats, system and kinds do not judge who was alive before it.
// A process that goes on being silent is silent then.
func TestAnOutageSilencesNobody(t *testing.T) {
	faketime.Run(t, 2, func(w *faketime.World) {
		kept, err := trail.New(w.Ring, trail.Options{})
		if err != nil {
			w.Fatal(err)
		}
		server, err := New(Options{Ring: w.Ring, Registry: accounts.NewRegistry(w.Ring, testKinds{}), Trail: kept, Kinds: []strict.Kind{{Name: "feed"}}})
		if err != nil {
			w.Fatal(err)
		}
		defer server.Close()
		get := func(path string, status int, into any) {
			w.Helper()
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, httptest.NewRequestWithContext(w.Context(), "GET", "http://localhost"+path, nil))
			if recorder.Code != status {
				w.Fatalf("%s: %d %s", path, recorder.Code, recorder.Body)
			}
			if err := json.Unmarshal(recorder.Body.Bytes(), into); err != nil {
				w.Fatal(err)
			}
		}
		alive := func(want bool) {
			w.Helper()
			var stats Stats
			get("/v1/stats", 200, &stats)
			var system System
			get("/v1/system", 200, &system)
			var kinds KindList
			get("/v1/kinds", 200, &kinds)
			if got := []bool{stats.Replicas[0].Alive, stats.Processes[0].Alive, system.Processes[0].Alive, kinds.Kinds[0].Replicas == 1}; slices.Contains(got, !want) {
				w.Errorf("alive: %v, want %v", got, want)
			}
		}
		if _, err := w.Ring.Roster().Attend(w.Context(), circulate.Process{Name: "p1", Roles: "poller"}, nil); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Ring.Heartbeat(w.Context(), "replica000", []byte(`{"kinds":["feed"]}`), time.Minute); err != nil {
			w.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		get("/v1/stats", 503, new(map[string]any))
		time.Sleep(time.Minute)
		w.Miniredis().SetError("")
		alive(true)
		time.Sleep(9 * time.Second)
		alive(true)
		time.Sleep(time.Second)
		alive(false)
	})
}
