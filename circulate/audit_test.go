package circulate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestParkThatFailsHalfWayLosesNobody refuses each write of a park in turn, for accounts
// that are claimed, waiting and scheduled. Lua rolls nothing back: at worst a second copy
// is left, which an audit repairs.
func TestParkThatFailsHalfWayLosesNobody(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	admin, err := process.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for shard, refused := range []string{"incrby", "zadd", "hset", "zrem"} {
		if _, err := admin.Do("ACL", "SETUSER", "limited", "reset", "on", ">pass", "~*", "&*", "+@all", "-"+refused); err != nil {
			t.Fatal(err)
		}
		limited, err := connect.Open(strings.Replace(process.URL(), "redis://", "redis://limited:pass@", 1), connect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		whole := openRing(t, redistest.Connect(t, process), 4)
		var ids []string
		for i := 'a'; len(ids) < 3; i++ {
			if id := refused + string(i); whole.ShardOf(id) == shard {
				ids = append(ids, id)
			}
		}
		register(t, whole, ids...)
		claims, err := whole.Claim(t.Context(), shard, alice, 2, 0)
		if err != nil || len(claims.Claims) != 2 {
			t.Fatal(claims, err)
		}
		if _, err := whole.Release(t.Context(), shard, []*circulate.Claim{&claims.Claims[1]}); err != nil {
			t.Fatal(err)
		}
		ring := openRing(t, limited, 4)
		for _, id := range ids {
			if _, err := ring.Park(t.Context(), shard, "gone", []string{id}); err == nil {
				t.Errorf("%s: %q was parked", refused, id)
			}
		}
		found, err := whole.AuditShard(t.Context(), shard, circulate.AuditOptions{Repair: true})
		if err != nil {
			t.Fatal(err)
		}
		if lost, _ := found.Count(circulate.Lost); lost > 0 {
			t.Errorf("%s: %d accounts were lost: %+v", refused, lost, found.Findings)
		}
		if found, err = whole.AuditShard(t.Context(), shard, circulate.AuditOptions{}); err != nil || len(found.Findings) > 0 || found.Accounts != 3 {
			t.Errorf("%s: after the repair %+v, %v", refused, found, err)
		}
		if err := limited.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An account that an audit parked because it has no record is not found again: it is in
// one place, with a reason, and in the list of parked accounts.
func TestAuditFindsAMissingRecordOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ring := openRing(t, server, 1)
		register(t, ring, "a", "b")
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Do("HDEL", "{rounds:0}:accounts", "a"); err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]circulate.Finding{
			{{Kind: circulate.NoRecord, ID: "a"}}, {{Kind: circulate.NoRecord, ID: "a", Repaired: true}}, nil,
		} {
			found, err := ring.AuditShard(t.Context(), 0, circulate.AuditOptions{Repair: i > 0})
			if err != nil || !slices.Equal(found.Findings, want) {
				t.Errorf("audit %d: %+v, %v; want %+v", i, found.Findings, err, want)
			}
		}
	})
}
