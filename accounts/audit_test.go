package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func do(tb testing.TB, server circulate.Server, name string, args ...any) {
	tb.Helper()
	conn, err := server.Conn(context.Background(), "")
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do(name, args...); err != nil {
		tb.Fatal(err)
	}
}

// auditAll audits in calls of one shard each.
func auditAll(tb testing.TB, r *Registry, repair bool) (sum Audited, calls int) {
	tb.Helper()
	sum.Found, sum.Repaired = make(map[circulate.Violation]int), make(map[circulate.Violation]int)
	for cursor := ""; ; {
		done, err := r.audit(context.Background(), AuditQuery{Repair: repair, Cursor: cursor}, 1)
		if err != nil {
			tb.Fatal(err)
		}
		calls++
		sum.Accounts += done.Accounts
		sum.Findings = append(sum.Findings, done.Findings...)
		for kind, n := range done.Found {
			sum.Found[kind] += n
			sum.Repaired[kind] += done.Repaired[kind]
		}
		if cursor = done.Next; cursor == "" {
			if done.Audited != done.Shards {
				tb.Errorf("%d of %d shards", done.Audited, done.Shards)
			}
			return sum, calls
		}
	}
}

// Only the records of a ring are left. After a repair, accounts are due as their cadences
// say, in their lanes, and not all at once.
func TestAuditRebuildsFromRecords(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		const shards, each = 3, 40
		r, ring := newRegistry(t, server, shards)
		ctx := t.Context()
		for i := range shards * each {
			a := Account{ID: fmt.Sprint("a", i), Kind: "plain", Cadence: "every 1h"}
			if i%4 == 0 {
				a.Priority = PriorityLow
			}
			if _, err := r.Create(ctx, a); err != nil {
				t.Fatal(err)
			}
		}
		if found, calls := auditAll(t, r, false); len(found.Findings) > 0 || found.Accounts != shards*each || calls != shards {
			t.Errorf("a healthy ring: %+v in %d calls", found, calls)
		}
		for shard := range shards {
			for _, name := range []string{"tickets", "schedule"} {
				do(t, server, "DEL", fmt.Sprintf("{rounds:%d}:%s", shard, name))
			}
		}
		if found, _ := auditAll(t, r, false); found.Found[circulate.Lost] != shards*each || found.Repaired[circulate.Lost] != 0 {
			t.Errorf("found %v, repaired %v", found.Found, found.Repaired)
		}
		if found, _ := auditAll(t, r, true); found.Found[circulate.Lost] != shards*each || found.Repaired[circulate.Lost] != shards*each {
			t.Errorf("found %v, repaired %v", found.Found, found.Repaired)
		}
		if found, _ := auditAll(t, r, false); len(found.Findings) > 0 || found.Accounts != shards*each {
			t.Errorf("after the repair: %v of %d", found.Found, found.Accounts)
		}
		now, err := ring.Now(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		soon, low := 0, 0
		for i := range shards * each {
			v, err := r.Get(ctx, fmt.Sprint("a", i))
			if err != nil {
				t.Fatal(err)
			}
			if v.State.Due.Before(now.Add(time.Minute)) {
				soon++
			}
			views, err := ring.Look(ctx, ring.ShardOf(v.ID), []string{v.ID})
			if err != nil {
				t.Fatal(err)
			}
			if views[0].Priority == circulate.Low {
				low++
			}
		}
		if soon > 30 || low != shards*each/4 {
			t.Errorf("of %d accounts %d are due within a minute, and %d are of low priority", shards*each, soon, low)
		}
	})
}

func TestAuditListsSomeAndCountsAll(t *testing.T) {
	server := redistest.Embedded(t)
	r, _ := newRegistry(t, server, 1)
	for i := range MaxFindings + 20 {
		do(t, server, "ZADD", "{rounds:0}:schedule", 1, fmt.Sprint("ghost", i))
	}
	done, err := r.Audit(t.Context(), AuditQuery{Repair: true})
	if err != nil || len(done.Findings) != MaxFindings || done.Found[circulate.Orphan] != MaxFindings+20 || done.Repaired[circulate.Orphan] != MaxFindings+20 || done.Next != "" {
		t.Errorf("%d listed, %v found, %v repaired, %v", len(done.Findings), done.Found, done.Repaired, err)
	}
}

func TestAuditCursors(t *testing.T) {
	server := redistest.Embedded(t)
	r, _ := newRegistry(t, server, 2)
	for i := range 20 {
		if _, err := r.Create(t.Context(), Account{ID: fmt.Sprint(i), Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
	}
	done, err := r.audit(t.Context(), AuditQuery{}, 1)
	if err != nil || done.Audited != 1 || done.Next == "" {
		t.Fatalf("%+v, %v", done, err)
	}
	page, err := r.List(t.Context(), Query{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatal(err)
	}
	for _, cursor := range []string{"x", done.Next[1:], page.Next, SealCursor(CursorAudit, []byte{3, 1}), SealCursor(CursorAudit, []byte{2, 2}), SealCursor(CursorAudit, []byte{2}), SealCursor(CursorAudit, nil)} {
		if _, err := r.Audit(t.Context(), AuditQuery{Cursor: cursor}); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

func TestAuditEndsWithItsContext(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Audit(ctx, AuditQuery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRestored(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		record   string
		priority circulate.Priority
		from, to time.Duration // after now; 0, 0: at once
	}{
		{`{"id":"a","cadence":"every 1h","priority":"urgent"}`, circulate.Urgent, 1, time.Hour},
		{`{"id":"a"}`, circulate.Normal, 1, time.Minute},
		{`{"id":"a","cadence":"at 2030-01-01T13:00:00Z","priority":"low"}`, circulate.Low, time.Hour, time.Hour},
		{`{"id":"a","cadence":"at 2029-01-01T13:00:00Z"}`, circulate.Normal, 0, 0},
		{`{"id":"a","cadence":"of another version","priority":"highest"}`, circulate.Normal, 0, 0},
		{`nothing`, circulate.Normal, 0, 0},
	} {
		got := Restored("a", []byte(test.record), now)
		if cmp.Or(got.Priority, circulate.Normal) != test.priority {
			t.Errorf("%s: priority %q", test.record, got.Priority)
		}
		if after := got.Due.Sub(now); test.to == 0 != got.Due.IsZero() || !got.Due.IsZero() && (after < test.from || after > test.to) {
			t.Errorf("%s: due %v", test.record, got.Due)
		}
	}
}
