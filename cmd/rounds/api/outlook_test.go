package api

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
)

// The concerns include the faults of Redis that the service knows of. A concern is gone when
// somebody has mended it.
func TestConcerns(t *testing.T) {
	data := Data{Concerns: []RedisConcern{{Node: "n", Concern: "memory", Value: "97", Text: "it is filling"}}}
	f := newFixture(t, func(o *Options) { o.Data = func(context.Context) Data { return data } })
	expect := func(healthy bool, codes ...concern.Code) concern.Concerns {
		t.Helper()
		var l concern.Concerns
		got := f.call("GET", "/v1/concerns", "", 200, &l)
		var all []concern.Code
		for _, c := range l.Concerns {
			all = append(all, c.Code)
		}
		if l.Healthy != healthy || !reflect.DeepEqual(all, codes) {
			t.Errorf("got %s", got.body)
		}
		return l
	}
	l := expect(false, concern.NoReplica, concern.NoMonitor, concern.RedisMemory)
	if c := l.Concerns[2]; c.Level != concern.Bad || c.Subject != "n" || c.Value != "97" || c.Text == "" || c.Link != "/system" {
		t.Errorf("%+v", c)
	}
	data.Concerns = nil
	if _, err := f.ring.Heartbeat(t.Context(), "replica001", []byte(`{"kinds":["plain"]}`), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ring.Roster().Attend(t.Context(), circulate.Process{Name: "p", Roles: "monitor"}, []byte(`{"since":"`+time.Now().Format(time.RFC3339)+`"}`)); err != nil {
		t.Fatal(err)
	}
	expect(true)
	f.call("GET", "/v1/concerns?all=true", "", 422, nil)
	f.redis.Miniredis().SetError("LOADING")
	f.call("GET", "/v1/concerns", "", 503, nil)
}

func TestSystem(t *testing.T) {
	store := Store{Name: "redis.example:6379", Nodes: []StoreNode{{Name: "redis.example:6379", Version: "7.0.15", AppendOnly: "no", Used: 40, Limit: 100, Policy: "noeviction"}}}
	f := newFixture(t, func(o *Options) { o.Store = func(context.Context) Store { return store } })
	for name, about := range map[string]string{"a": `{"version":"v1","settings":{"X":"1"}}`, "b": `{"version":"v2","settings":{"X":"2"}}`, "c": `{"version":"v1","settings":{"X":"1"}}`} {
		if _, err := f.ring.Roster().Attend(t.Context(), circulate.Process{Name: name, Roles: "api,poller"}, []byte(about)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ring.Heartbeat(t.Context(), "replica001", []byte(`{"concurrency":100,"in_flight":1}`), time.Minute); err != nil {
		t.Fatal(err)
	}
	now, err := f.ring.Now(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	sample := history.NewSample(now.Add(-30 * time.Minute))
	sample.Set(history.Claimed, 40)
	sample.Set(history.Overdue, 2)
	if err := history.NewKeeper(f.ring).Add(t.Context(), sample); err != nil {
		t.Fatal(err)
	}
	var s System
	got := f.call("GET", "/v1/system", "", 200, &s)
	if s.Store != store.Name || s.Namespace != "rounds" || s.Shards != 4 || len(s.Nodes) != 1 || len(s.Processes) != 3 || !s.Processes[0].Alive {
		t.Fatalf("got %s", got.body)
	}
	if n := s.Nodes[0]; n.Shards != 4 || !reflect.DeepEqual(n.Numbers, []int{0, 1, 2, 3}) || len(n.Judged) != 4 || n.Version != "7.0.15" {
		t.Errorf("%+v", n)
	}
	// The busiest minutes of the day are what counts.
	want := []accounts.Bound{{Bound: "places", Used: 40, Most: 80, Room: 1}, {Bound: "memory", Used: 40, Most: 85, Room: 85.0/40 - 1}}
	if c := s.Capacity; c == nil || c.Bound != "places" || !slices.Equal(c.Bounds, want) {
		t.Errorf("%+v", c)
	}
	if len(s.Settings) != 1 || s.Settings[0].Value != "1" || !s.Settings[0].Differ || len(s.Versions) != 2 || s.Versions[0] != (Version{Version: "v1", Processes: 2}) {
		t.Errorf("%+v, %+v", s.Settings, s.Versions)
	}
	f.redis.SetClock(func() time.Time { return time.Now().Add(time.Minute) })
	f.call("GET", "/v1/system", "", 200, &s)
	if len(s.Settings) != 0 || len(s.Versions) != 0 || s.Processes[0].Alive {
		t.Errorf("the silent count: %+v", s)
	}
	f.redis.Miniredis().SetError("LOADING")
	f.call("GET", "/v1/system", "", 503, nil)
}

func TestTheFullestServerIsFullFirst(t *testing.T) {
	nodes := []RedisNode{{Used: 900}, {Used: 20, Limit: 100}, {Used: 40, Limit: 100}, {Used: 300, Limit: 1000}}
	if used, limit := fullest(nodes); used != 40 || limit != 100 {
		t.Errorf("%v of %v", used, limit)
	}
	if used, limit := fullest(nodes[:1]); used != 0 || limit != 0 {
		t.Errorf("without a limit: %v of %v", used, limit)
	}
}
