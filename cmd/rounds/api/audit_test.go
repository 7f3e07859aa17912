package api

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
)

func TestAudit(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 8 {
		f.call("POST", "/v1/accounts", fmt.Sprintf(`{"id":"a/%d","kind":"plain"}`, i), 201, nil)
	}
	audit := func(method, path string, kinds []FindingCount) Audit {
		t.Helper()
		var a Audit
		f.call(method, path, "", 200, &a)
		if a.Accounts != 8 || a.Audited != 4 || a.Shards != 4 || a.Next != "" || a.Unjudged != 0 || !reflect.DeepEqual(a.Kinds, kinds) {
			t.Errorf("%s %s: %+v", method, path, a)
		}
		return a
	}
	holds := func(want concern.State, lost int) {
		t.Helper()
		var l concern.Law
		f.call("GET", "/v1/law", "", 200, &l)
		if l.State != want {
			t.Errorf("the law is %s, want %s", l.State, want)
		}
		if want == concern.Never {
			return
		}
		if found, _ := l.Last.Found(circulate.Lost); found != lost || l.Last.Accounts != 8 || l.Last.By != "hand" {
			t.Errorf("the last audit: %+v", l.Last)
		}
	}
	holds(concern.Never, 0)
	audit("GET", "/v1/audit", []FindingCount{})
	holds(concern.Kept, 0)
	conn, err := f.redis.Conn(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	shard := f.ring.ShardOf("a/3")
	schedule := fmt.Sprintf("{rounds:%d}:schedule", shard)
	if _, err := conn.Do("ZREM", schedule, "a/3"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do("ZADD", schedule, 1, "ghost"); err != nil {
		t.Fatal(err)
	}
	found := []FindingCount{{Kind: circulate.Lost, Found: 1}, {Kind: circulate.Orphan, Found: 1}}
	got := audit("GET", "/v1/audit", found)
	want := []circulate.Finding{{Kind: circulate.Lost, Shard: shard, ID: "a/3"}, {Kind: circulate.Orphan, Shard: shard, ID: "ghost"}}
	if !reflect.DeepEqual(got.Findings, want) {
		t.Errorf("findings: %+v", got.Findings)
	}
	holds(concern.Violated, 1)
	found[0].Repaired, found[1].Repaired = 1, 1
	audit("POST", "/v1/audit:repair", found)
	holds(concern.Repaired, 1)
	audit("POST", "/v1/audit:repair", []FindingCount{})
	holds(concern.Kept, 0)

	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/audit?cursor=x", 422},
		{"POST", "/v1/audit:repair?cursor=x", 422},
		{"GET", "/v1/audit?repair=true", 422},
		{"GET", "/v1/audit:repair", 405},
		{"POST", "/v1/audit", 405},
	} {
		f.call(tt.method, tt.path, "", tt.status, nil)
	}
	f.redis.Miniredis().SetError("LOADING")
	f.call("GET", "/v1/audit", "", 503, nil)
	f.call("GET", "/v1/law", "", 503, nil)
}
