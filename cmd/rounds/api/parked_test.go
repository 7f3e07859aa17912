package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// fails lets the check of every due account fail, and parks the account.
func (f *fixture) fails(reason string) {
	f.Helper()
	codes := accounts.NewCodes()
	for shard := range f.ring.Shards() {
		batch, err := f.ring.Claim(context.Background(), shard, "replica001", 100, 0)
		if err != nil {
			f.Fatal(err)
		}
		for i := range batch.Claims {
			_, err := f.ring.Return(context.Background(), shard, []circulate.Return{{
				Claim: &batch.Claims[i], Park: reason, Failures: 3, Rule: codes.Rule("auth"), Mark: codes.Mark("auth"), Error: "http_401: refused",
			}})
			if err != nil {
				f.Fatal(err)
			}
		}
	}
}

func TestParked(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 6 {
		f.call("POST", "/v1/accounts", fmt.Sprintf(`{"id":"a/%d","kind":"plain"}`, i), 201, nil)
	}
	f.call("POST", "/v1/accounts", `{"id":"web","kind":"web","config":{"url":"x"}}`, 201, nil)
	f.fails("auth: http_401: refused")
	f.call("POST", "/v1/accounts/a%2F0/pause", "", 200, nil)
	f.call("POST", "/v1/accounts", `{"id":"circulates","kind":"plain"}`, 201, nil)

	walk := func(query string) []string {
		t.Helper()
		var ids []string
		for next := ""; ; {
			var list ParkedList
			f.call("GET", "/v1/parked?"+query+next, "", 200, &list)
			for _, a := range list.Parked {
				if a.Since.IsZero() || a.Reason == "" || a.Failures != 3 || a.Error != "http_401: refused" || a.ErrorAt.IsZero() {
					t.Errorf("%+v", a)
				}
				ids = append(ids, a.ID)
			}
			if next = "&cursor=" + list.Next; list.Next == "" {
				slices.Sort(ids)
				return ids
			}
		}
	}
	for query, want := range map[string]int{"limit=2": 7, "limit=2&reason=auth": 6, "reason=auth&kind=web": 1, "reason=paused": 1, "reason=p%C3%A4": 0} {
		if got := walk(query); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	revive := func(body string, want Revived) {
		t.Helper()
		var got Revived
		f.call("POST", "/v1/parked:revive", body, 200, &got)
		if got.LastDue = (time.Time{}); got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
	revive(`{"kind":"plain","dry_run":true}`, Revived{Revived: 5, Skipped: 1})
	revive(`{"kind":"plain","reason":"auth","rate":0.1}`, Revived{Revived: 5})
	revive(`{"ids":["web","a/0","circulates","none","none"]}`, Revived{Revived: 2, Skipped: 1, NotFound: 1})
	if got := f.call("GET", "/v1/parked", "", 200, nil); got.body != "{\"parked\":[]}\n" {
		t.Errorf("none: %q", got.body)
	}

	for _, tt := range []struct {
		method, path, body string
		status             int
		locations          []string
	}{
		{"GET", "/v1/parked?limit=0", "", 422, []string{"query.limit"}},
		{"GET", "/v1/parked?cursor=x", "", 422, []string{"query.cursor"}},
		{"GET", "/v1/parked?state=parked", "", 422, nil},
		{"POST", "/v1/parked:revive", `{"ids":["a",""],"rate":0,"x":1}`, 422, []string{"body.rate", "body.x", "body.ids[1]"}},
		{"POST", "/v1/parked:revive", `{}`, 422, []string{"body.ids"}},
		{"POST", "/v1/parked:revive", `{"reason":"auth","cursor":"x"}`, 422, []string{"body.cursor"}},
		{"POST", "/v1/parked:revive", `[]`, 400, []string{"body"}},
		{"POST", "/v1/parked:revive", ``, 400, nil},
		{"POST", "/v1/parked:revive", `{"ids":["` + strings.Repeat("x", maxRevival) + `"]}`, 413, nil},
		{"GET", "/v1/parked:revive", "", 405, nil},
	} {
		var p problemBody
		f.call(tt.method, tt.path, tt.body, tt.status, &p)
		if tt.locations != nil && !slices.Equal(p.locations(), tt.locations) {
			t.Errorf("%s %s %.60s: faults at %v, want %v", tt.method, tt.path, tt.body, p.locations(), tt.locations)
		}
	}
	// A body with the maximum number of ids is not too large, however the ids are escaped.
	long := make([]string, accounts.MaxReviveIDs)
	for i := range long {
		long[i] = fmt.Sprintf(`"%04d%s"`, i, strings.Repeat(`\u0041`, 252))
	}
	revive(`{"ids":[`+strings.Join(long, ",")+`]}`, Revived{NotFound: accounts.MaxReviveIDs})
}

// sharing are kinds whose accounts share a host.
type sharing struct{ testKinds }

func (sharing) Shared(kind string, _ json.RawMessage) string { return kind + "/h" }

// The schedule has the way by which the account's calls go, and says that the account waits at it.
func TestScheduleHasTheWay(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Registry = accounts.NewRegistry(o.Ring, sharing{})
		o.Way = func(a *accounts.Account) string { return a.Kind + "-" + a.ID + "-" + a.Labels["region"] }
	})
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","labels":{"region":"de"}}`, 201, nil)
	var s Schedule
	if got := f.call("GET", "/v1/accounts/a/schedule", "", 200, &s); s.Way != "plain-a-de" || s.WayDown != nil {
		t.Errorf("%s", got.body)
	}
	batch, err := f.ring.Claim(t.Context(), f.ring.Account("a").Shard(), "replica001", 1, 0)
	if err != nil || len(batch.Claims) != 1 {
		t.Fatal(batch, err)
	}
	item := circulate.Return{Claim: &batch.Claims[0], Kind: "plain", Due: time.Now().Add(time.Minute), Rule: accounts.NewCodes().Rule(accounts.RuleDown)}
	if _, err := f.ring.Return(t.Context(), f.ring.Account("a").Shard(), []circulate.Return{item}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := limit.TroublesOf(f.ring).Do(t.Context(), []limit.TroubleStep{{Name: "egress/plain-a-de", What: limit.Failed, Cause: "proxy"}}); err != nil {
		t.Fatal(err)
	}
	if f.call("GET", "/v1/accounts/a/schedule", "", 200, &s); s.WayDown == nil || s.WayDown.Name != "egress/plain-a-de" || s.WayDown.State != "down" || s.WayDown.Cause != "proxy" {
		t.Errorf("the way is down: %+v", s.WayDown)
	}
	if s.Rule != accounts.RuleDown || !strings.HasPrefix(s.Why, "egress/plain-a-de, which it shares with others, has been down since") {
		t.Errorf("%s: %s", s.Rule, s.Why)
	}
	if _, _, err := limit.TroublesOf(f.ring).Do(t.Context(), []limit.TroubleStep{{Name: "egress/plain-a-de", What: limit.Well}, {Name: limit.Via("plain/h", "plain-b-de"), What: limit.Failed}, {Name: limit.Via("plain/h", "plain-a-de"), What: limit.Failed}}); err != nil {
		t.Fatal(err)
	}
	if f.call("GET", "/v1/accounts/a/schedule", "", 200, &s); !strings.HasPrefix(s.Why, "plain/h (via plain-a-de), which it shares with others, has been down since") {
		t.Errorf("the way is well again, and does not reach the host: %s", s.Why)
	}
}

func TestSchedule(t *testing.T) {
	f := newFixture(t, nil)
	f.call("GET", "/v1/accounts/a%2Fb/schedule", "", 404, nil)
	f.call("POST", "/v1/accounts", `{"id":"a/b","kind":"plain","cadence":"every 5m","priority":"low"}`, 201, nil)
	f.fails("auth: http_401: refused")
	f.call("POST", "/v1/accounts/a%2Fb/resume", "", 200, nil)
	var s Schedule
	got := f.call("GET", "/v1/accounts/a%2Fb/schedule", "", 200, &s)
	if s.ID != "a/b" || s.Kind != "plain" || s.Place != circulate.Scheduled || s.Due.IsZero() || s.Priority != "low" || s.Rule != "resumed" || s.DueRule != "resumed" ||
		!strings.Contains(s.Why, "resumed it") || s.Cadence != "every 5m" || len(s.Slots) != 3 || s.Slots[1].Sub(s.Slots[0]) != 5*time.Minute ||
		!slices.Equal(s.Checks, []string{"auth"}) || s.Error != "http_401: refused" || s.ErrorAt.IsZero() || s.Staleness == nil || !s.NeverSucceeded || !s.Succeeded.IsZero() || s.Begun.IsZero() || s.Shard != f.ring.ShardOf("a/b") {
		t.Errorf("%s", got.body)
	}
	for _, name := range []string{`"failures":0`, `"strikes":0`, `"registered":"2`, `"staleness_seconds":`, `"now":"2`} {
		if !strings.Contains(got.body, name) {
			t.Errorf("no %s in %s", name, got.body)
		}
	}
	for _, absent := range []string{"since", "replica", "reason", "lanes", "nudged_to", "fault"} {
		if strings.Contains(got.body, `"`+absent+`"`) {
			t.Errorf("%s stands in %s", absent, got.body)
		}
	}
	for shard := range f.ring.Shards() {
		batch, err := f.ring.Claim(context.Background(), shard, "replica001", 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Claims {
			if _, err := f.ring.Release(context.Background(), shard, []*circulate.Claim{&batch.Claims[i]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = Schedule{}
	got = f.call("GET", "/v1/accounts/a%2Fb/schedule", "", 200, &s)
	if s.Rule != "priority" || s.Lanes == nil || s.Lanes.Lane != "low" || s.Lanes.Low != 1 || s.Lanes.Before == nil || *s.Lanes.Before != 0 || s.Since.IsZero() {
		t.Errorf("%s", got.body)
	}
	if _, err := f.ring.Register(context.Background(), f.ring.ShardOf("bad"), []circulate.Registration{{ID: "bad", Record: []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	s = Schedule{}
	got = f.call("GET", "/v1/accounts/bad/schedule", "", 200, &s)
	if s.Fault == "" || s.Rule != "registered" || s.Place != circulate.Scheduled || s.Staleness == nil || !strings.Contains(got.body, `"slots":[],`) || !strings.Contains(got.body, `"checks":[],`) {
		t.Errorf("%s", got.body)
	}
}
