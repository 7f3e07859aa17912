package api

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

func TestReshard(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	var now Resharding
	f.call("GET", "/v1/reshard", "", 200, &now)
	from := now.From
	if now.Phase != circulate.Steady || now.To != from || now.Accounts != 1 {
		t.Errorf("%+v", now)
	}
	for body, field := range map[string]string{`{"shards":0}`: "body.shards", `{"shards":16385}`: "body.shards", `{}`: "shards", `{"shards":9,"wet":true}`: "wet"} {
		if got := f.call("POST", "/v1/reshard", body, 422, nil); !strings.Contains(got.body, field) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	f.call("POST", "/v1/reshard", `{"shards":9,"dry_run":true}`, 200, &now)
	if now.Phase != circulate.Steady || now.From != from || now.To != 9 || now.Left != 1 {
		t.Errorf("dry run: %+v", now)
	}
	f.call("POST", "/v1/reshard", `{"shards":9}`, 200, &now)
	f.call("POST", "/v1/reshard", `{"shards":9}`, 200, &now)
	if now.Phase != circulate.Moving || now.From != from || now.To != 9 || now.Left != 1 {
		t.Errorf("begun: %+v", now)
	}
	refused := func(what string, method, path, body string, want ...string) {
		t.Helper()
		got := f.call(method, path, body, 409, nil)
		for _, part := range want {
			if !strings.Contains(got.body, part) {
				t.Errorf("%s: %q is not in %s", what, part, got.body)
			}
		}
	}
	for _, body := range []string{`{"shards":10}`, `{"shards":10,"dry_run":true}`} {
		refused("another, before any has moved", "POST", "/v1/reshard", body, "no account has moved", "rounds reshard --abort")
	}
	refused("finish, before any has moved", "POST", "/v1/reshard:finish", "", "rounds reshard --abort")
	// This server's routes do not know of the change. They do not report an account as missing
	// that may be in another place.
	if got := f.call("GET", "/v1/accounts/b", "", 503, nil); got.header.Get("Retry-After") != "1" {
		t.Errorf("%v", got.header)
	}
	f.call("GET", "/v1/accounts/a", "", 200, nil)

	for range 2 {
		f.call("POST", "/v1/reshard:abort", "", 200, &now)
		if now.Phase != circulate.Steady || now.From != from || now.To != from || now.Left != 0 || now.Accounts != 1 {
			t.Errorf("given up: %+v", now)
		}
	}
	f.call("GET", "/v1/accounts/b", "", 404, nil)
	f.call("POST", "/v1/reshard", `{"shards":10}`, 200, &now)
	if now.To != 10 {
		t.Errorf("another: %+v", now)
	}
	ring, err := circulate.Open(t.Context(), f.redis, circulate.Options{Namespace: f.ring.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Mover().Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if moved, _, err := ring.Mover().Move(t.Context(), ring.ShardOf("a")); err != nil || moved != 1 {
		t.Fatal(moved, err)
	}
	refused("abort", "POST", "/v1/reshard:abort", "", "point of no return")
	// The trail has each change that was begun and each order to end one, but no change to the
	// number that the ring has already.
	var kept TrailPage
	f.call("GET", "/v1/trail?limit=100", "", 200, &kept)
	done := make(map[string]int)
	for _, e := range kept.Entries {
		if e.Outcome == trail.Done {
			done[e.Action]++
		}
	}
	if done["reshard"] != 2 || done["abort-resharding"] != 2 || done["finish-resharding"] != 0 {
		t.Errorf("the trail has %v", done)
	}
}

// When all accounts have moved, every refusal names what helps, and the groups that need the
// old shards.
func TestReshardingThatDrains(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	old := f.ring.ShardOf("a")
	do := func(name string, args ...any) any {
		t.Helper()
		conn, err := f.redis.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		reply, err := conn.Do(name, args...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	for range 3 {
		do("XADD", f.ring.Tag(old)+":messages", "*", "account", "a", "kind", "plain", "id", "1", "type", "t", "time", "", "data", "{}")
	}
	if _, err := f.ring.Streams().EnsureGroup(t.Context(), old, "crm", circulate.StreamStart); err != nil {
		t.Fatal(err)
	}
	shards := f.ring.Shards()
	if _, err := f.ring.Mover().Begin(t.Context(), shards+1); err != nil {
		t.Fatal(err)
	}
	open := func() *circulate.Ring {
		t.Helper()
		ring, err := circulate.Open(t.Context(), f.redis, circulate.Options{Namespace: f.ring.Namespace()})
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	ring := open()
	if err := ring.Mover().Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for source := range ring.Sources() {
		if _, _, err := ring.Mover().Move(t.Context(), source); err != nil {
			t.Fatal(err)
		}
	}
	for source := range ring.Sources() {
		// Accounts that have arrived can be confirmed once that is long ago, so the test sets their
		// time back.
		departed := f.ring.Tag(source) + ":departed"
		pairs, _ := redis.Strings(do("HGETALL", departed), nil)
		for i := 0; i+1 < len(pairs); i += 2 {
			do("HSET", departed, pairs[i], "0000000000001"+pairs[i+1][13:])
		}
		if err := ring.Mover().Confirm(t.Context(), source); err != nil {
			t.Fatal(err)
		}
	}
	if over, err := ring.Mover().FinishMove(t.Context()); !over || err != nil {
		t.Fatal(over, err)
	}
	after := *f
	after.ring = open()
	now := after.second(Options{})
	refused := func(what, method, path, body string, want ...string) {
		t.Helper()
		got := now.call(method, path, body, 409, nil)
		for _, part := range append(want, "All accounts have moved, and 3 messages are left", "rounds reshard --finish") {
			if !strings.Contains(got.body, part) {
				t.Errorf("%s: %q is not in %s", what, part, got.body)
			}
		}
		if strings.Contains(got.body, "--abort") {
			t.Errorf("%s: %s", what, got.body)
		}
	}
	refused("another", "POST", "/v1/reshard", `{"shards":2}`)
	refused("dry run of another", "POST", "/v1/reshard", `{"shards":2,"dry_run":true}`)
	refused("abort", "POST", "/v1/reshard:abort", "")
	refused("finish", "POST", "/v1/reshard:finish", "", "crm (3)", "rounds groups rm")
	refused("backup", "GET", "/v1/backup", "", "no backup can be taken now")
	var stats Stats
	if now.call("GET", "/v1/stats", "", 200, &stats); stats.Shards != shards+1 {
		t.Errorf("%d shards, want %d", stats.Shards, shards+1)
	}
}
