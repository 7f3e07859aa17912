package api

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
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
	f.call("POST", "/v1/reshard", `{"shards":10}`, 409, nil)
	f.call("POST", "/v1/reshard:finish", "", 409, nil)
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
	if got := f.call("POST", "/v1/reshard:abort", "", 409, nil); !strings.Contains(got.body, "point of no return") {
		t.Error(got.body)
	}
}
