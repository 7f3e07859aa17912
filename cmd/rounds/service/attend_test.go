package service

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// statsOf waits until the registry's stats of a namespace are as wanted, and returns them.
func statsOf(t *testing.T, registry *accounts.Registry, wanted func(accounts.Stats) bool) accounts.Stats {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		s, err := registry.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wanted(s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("stats: %+v", s)
		}
	}
}

// Processes of every role are listed with their descriptions and their differences. A process
// that must hurry is removed from the list at once, with its replica, although a check hangs.
func TestProcessesShow(t *testing.T) {
	hangs := make(chan struct{}, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hangs <- struct{}{}
		<-r.Context().Done()
	}))
	defer upstream.Close()
	server := redistest.Start(t)
	opened, err := connect.Open(server.URL(), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	ring, err := circulate.Open(t.Context(), opened, circulate.Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	registry := accounts.NewRegistry(ring, poller.Checkers{})
	record := []byte(`{"id":"a","kind":"feed","config":{"url":"` + upstream.URL + `"}}`)
	if _, err := ring.Account("a").Register(t.Context(), circulate.Registration{Record: record}); err != nil {
		t.Fatal(err)
	}

	first := start(t, map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "monitor", "ROUNDS_HEARTBEAT_INTERVAL": "100ms"})
	variables := map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "poller", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true",
		"ROUNDS_GRACE_PERIOD": "1h", "ROUNDS_HEARTBEAT_INTERVAL": "200ms"}
	s, err := read(variables)
	if err != nil {
		t.Fatal(err)
	}
	var log processes.Output
	hurry := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, s, Options{Version: "v1.2.3", Lookup: lookupIn(variables), Log: slog.New(slog.NewJSONHandler(&log, nil)), Hurry: hurry})
	}()
	<-hangs
	found := statsOf(t, registry, func(s accounts.Stats) bool { return len(s.Processes) == 2 && len(s.Replicas) == 1 })
	accounts.Compare(found.Processes, func(*accounts.Process) bool { return true })
	for _, p := range found.Processes {
		differs := make(map[string]string)
		for _, d := range p.Differs {
			differs[d.Setting] = d.Value
		}
		if p.Report.Host == "" || time.Since(p.Report.Since) > time.Minute || len(differs) != 1 || len(p.Roles) != 1 {
			t.Errorf("%+v", p)
		}
		if want := map[string]string{settings.RoleMonitor: "100ms", settings.RolePoller: "200ms"}[p.Roles[0]]; differs["ROUNDS_HEARTBEAT_INTERVAL"] != want {
			t.Errorf("%s differs in %v", p.Roles, differs)
		}
		if p.Roles[0] == settings.RolePoller && p.Report.Version != "v1.2.3" {
			t.Errorf("%+v", p.Report)
		}
	}

	// At the first signal the process begins to leave, and waits for its check. At the second
	// signal it hurries.
	cancel()
	statsOf(t, registry, func(s accounts.Stats) bool { return len(s.Processes) == 1 && len(s.Replicas) == 1 })
	close(hurry)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := statsOf(t, registry, func(accounts.Stats) bool { return true }); len(s.Replicas) != 0 || s.Claimed != 0 || s.Registered != 1 {
		t.Errorf("%+v", s)
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	if s := statsOf(t, registry, func(accounts.Stats) bool { return true }); len(s.Processes) != 0 {
		t.Errorf("%+v", s.Processes)
	}
}

// A process reports its new settings after they are read again.
func TestPresenceFollowsSettings(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	registry := accounts.NewRegistry(ring, poller.Checkers{})
	var current atomic.Pointer[settings.Settings]
	set := func(concurrency string) {
		s, err := read(map[string]string{"ROUNDS_CONCURRENCY": concurrency})
		if err != nil {
			t.Fatal(err)
		}
		current.Store(&s)
	}
	set("10")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		newPresence("v1", func() settings.Settings { return *current.Load() }, func() (int, time.Time) { return 0, time.Time{} }).attend(ctx, ring, 5*time.Millisecond)
	}()
	for _, want := range []string{"10", "20"} {
		set(want)
		statsOf(t, registry, func(s accounts.Stats) bool {
			return len(s.Processes) == 1 && s.Processes[0].Report.Settings["ROUNDS_CONCURRENCY"] == want && s.Processes[0].Report.Version == "v1"
		})
	}
	cancel()
	<-done
	statsOf(t, registry, func(s accounts.Stats) bool { return len(s.Processes) == 0 })
}

// A process that polls has one name: in the log, as a process and as a replica, and after a
// change of the number of shards another one, everywhere.
func TestAProcessHasOneName(t *testing.T) {
	service := start(t, map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_DATA_DIR": "memory", "ROUNDS_SHARDS": "2"})
	calls := client.New(service.base(t, "api"), "")
	defer calls.Close()
	processes.AwaitStatus(t, service.base(t, "api")+"/readyz", http.StatusOK)
	first := ""
	for _, reshards := range []bool{false, true} {
		if reshards {
			if _, err := calls.Reshard(t.Context(), api.ReshardRequest{Shards: 3}); err != nil {
				t.Fatal(err)
			}
		}
		oneName := func() (string, bool) {
			s, err := calls.Stats(t.Context())
			if err != nil {
				return "", false
			}
			var alive []string
			for _, p := range s.Processes {
				if p.Alive {
					alive = append(alive, p.Name)
				}
			}
			for _, r := range s.Replicas {
				if r.Alive {
					alive = append(alive, r.Name)
				}
			}
			return strings.Join(alive, " "), len(alive) == 2 && alive[0] == alive[1] && alive[0] != first
		}
		tick := time.NewTicker(50 * time.Millisecond)
		for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
			names, one := oneName()
			if one {
				first, _, _ = strings.Cut(names, " ")
				service.log.Await(t, `"process":"`+first+`"`)
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("resharded %t: process and replica are %q", reshards, names)
			}
		}
		tick.Stop()
	}
}
