package trail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/testing/redistest"
)

type fixture struct {
	*testing.T
	*trail.Trail
	redis *connect.Embedded
	ring  *circulate.Ring
	logs  bytes.Buffer
	count *prometheus.Registry
}

func newFixture(t *testing.T, kept int) *fixture {
	t.Helper()
	f := &fixture{T: t, redis: redistest.Embedded(t), count: prometheus.NewRegistry()}
	var err error
	if f.ring, err = circulate.Open(t.Context(), f.redis, circulate.Options{Namespace: "ns", Shards: 2}); err != nil {
		t.Fatal(err)
	}
	f.Trail, err = trail.New(f.ring, trail.Options{Kept: kept, Log: slog.New(slog.NewTextHandler(&f.logs, nil)), Metrics: trail.NewMetrics(f.count)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// all walks through the trail, a page at a time.
func (f *fixture) all(q trail.Query) (found []trail.Entry) {
	f.Helper()
	for range 1000 {
		page, err := f.Look(f.Context(), q)
		if err != nil {
			f.Fatal(err)
		}
		found = append(found, page.Entries...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return found
		}
	}
	f.Fatal("the walk has no end")
	return nil
}

func (f *fixture) counted(kept, logged, lost float64) {
	f.Helper()
	families, err := f.count.Gather()
	if err != nil {
		f.Fatal(err)
	}
	want := map[string]float64{"kept": kept, "logged": logged, "lost": lost}
	for _, m := range families[0].GetMetric() {
		result := m.GetLabel()[0].GetValue()
		if got := m.GetCounter().GetValue(); families[0].GetName() != "rounds_trail_entries_total" || got != want[result] {
			f.Errorf("%s: got %v, want %v", result, got, want[result])
		}
		delete(want, result)
	}
	for result, n := range want {
		if n != 0 {
			f.Errorf("%s: not counted", result)
		}
	}
}

func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	_, d := trail.Begin(t.Context(), trail.Entry{By: "press", Via: access.ViaKey, Address: "192.0.2.7", Action: "put-account"})
	d.Account("news")
	d.Fields([]string{"config.url", "cadence"})
	d.Count("changed", 2)
	d.Count("changed", 1)
	d.Count("failed", 0)
	e, keep := d.Close(trail.Done, 200)
	if !keep {
		t.Fatal("it is not to be kept")
	}
	f.Add(t.Context(), e)
	got := f.all(trail.Query{Limit: 10})
	if len(got) != 1 || got[0].At.IsZero() || got[0].ID == "" {
		t.Fatalf("got %+v", got)
	}
	e.At, e.ID = got[0].At, got[0].ID
	if fmt.Sprint(got[0]) != fmt.Sprint(e) {
		t.Errorf("got %+v, kept %+v", got[0], e)
	}
	f.counted(1, 0, 0)
	const want = `level=INFO msg=ordered action=put-account outcome=done by=press via=key addr=192.0.2.7 account=news fields=config.url,cadence changed=3`
	if !strings.Contains(f.logs.String(), want) {
		t.Errorf("the log has %s", f.logs.String())
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	for i := range 60 {
		e := trail.Entry{By: []string{"a", "b"}[i%2], Action: "nudge-account", Outcome: trail.Done, Account: fmt.Sprint("n", i%3)}
		if i == 50 {
			e.Account, e.Accounts = "", []string{"x", "n0"}
		}
		f.Add(t.Context(), e)
	}
	for _, c := range []struct {
		q    trail.Query
		want int
	}{
		{trail.Query{}, 60}, {trail.Query{By: "a"}, 30}, {trail.Query{Account: "n0"}, 21}, {trail.Query{Account: "n0", By: "b"}, 10},
		{trail.Query{Account: "x"}, 1}, {trail.Query{Account: "none"}, 0}, {trail.Query{Since: time.Hour}, 60},
	} {
		for _, limit := range []int{1, 7, 1000} {
			c.q.Limit = limit
			if got := f.all(c.q); len(got) != c.want {
				t.Errorf("%+v: got %d, want %d", c.q, len(got), c.want)
			}
		}
	}
	page, err := f.Look(t.Context(), trail.Query{Limit: 1, Account: "n0"})
	if err != nil || len(page.Entries) != 1 || page.Looked != 3 || page.Back.IsZero() {
		t.Errorf("got %+v, %v", page, err)
	}
	for _, bad := range []string{"x", accounts.SealCursor(accounts.CursorList, []byte("1 0 0")), accounts.SealCursor(accounts.CursorTrail, nil), accounts.SealCursor(accounts.CursorTrail, []byte("1 x 0")), accounts.SealCursor(accounts.CursorTrail, []byte("1 0 -5"))} {
		if _, err := f.Look(t.Context(), trail.Query{Limit: 1, Cursor: bad}); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("cursor %q: got %v", bad, err)
		}
	}
}

func TestALookIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	f.Add(t.Context(), trail.Entry{Action: "delete-account", Outcome: trail.Done, Account: "first"})
	conn, err := f.redis.Conn(t.Context(), "ns:trail")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range trail.MaxScan {
		if err := conn.Send("XADD", "ns:trail", "*", "note", `{"action":"x"}`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Do(""); err != nil {
		t.Fatal(err)
	}
	q := trail.Query{Account: "first", Limit: 5}
	page, err := f.Look(t.Context(), q)
	if err != nil || len(page.Entries) != 0 || page.Looked != trail.MaxScan || page.Next == "" {
		t.Fatalf("got %+v, %v", page, err)
	}
	q.Cursor = page.Next
	if page, err = f.Look(t.Context(), q); err != nil || len(page.Entries) != 1 || page.Next != "" {
		t.Errorf("then %+v, %v", page, err)
	}
}

func TestAnEntryIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	long := strings.Repeat("\x01", 5000)
	many := make([]string, 500)
	counts := make(map[string]int)
	for i := range many {
		many[i] = fmt.Sprint(i)
		counts[fmt.Sprint(i)] = i
	}
	f.Add(t.Context(), trail.Entry{By: long, Via: access.Via(long), Address: long, Action: "put-account", Account: long, Subject: long, Selector: long, Outcome: trail.Done,
		Accounts: []string{long, long, long, long}, Fields: []string{long}})
	f.Add(t.Context(), trail.Entry{By: "a\xff", Action: "revive", Accounts: many, Fields: many, Counts: counts, Outcome: trail.Done})
	got := f.all(trail.Query{Limit: 10})
	if len(got) != 2 || !got[0].Cut || !got[1].Cut {
		t.Fatalf("got %+v", got)
	}
	if len(got[0].Accounts) != 20 || len(got[0].Fields) != 32 || len(got[0].Counts) != 16 || got[0].By != "a�" {
		t.Errorf("got %+v", got[0])
	}
	if got[1].Accounts != nil || len(got[1].Account) != 256 {
		t.Errorf("got %+v", got[1])
	}
}

func TestALookOnlyLeavesNoEntry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		as   trail.Outcome
		want bool
	}{{trail.Done, false}, {trail.Refused, true}, {trail.Failed, true}, {trail.Unknown, true}} {
		ctx, _ := trail.Begin(t.Context(), trail.Entry{Action: "reshard"})
		trail.Of(ctx).LookOnly()
		if e, keep := trail.Of(ctx).Close(c.as, 0); keep != c.want || e.Outcome != c.as {
			t.Errorf("%s: got %+v, %t", c.as, e, keep)
		}
	}
	none := trail.Of(t.Context())
	none.Account("x")
	none.LookOnly()
	none.Count("x", 1)
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	for want, fields := range map[string]map[string][]string{
		"all":                                nil,
		"kind=feed label=a=b label=c=d":      {"label": {"a=b", "c=d"}, "kind": {"feed"}, "host": {""}},
		"prefix=news/ since=1h state=paused": {"state": {"paused"}, "since": {"1h"}, "prefix": {"news/"}},
	} {
		_, d := trail.Begin(t.Context(), trail.Entry{})
		d.Select(fields)
		if e, _ := d.Close(trail.Done, 0); e.Selector != want {
			t.Errorf("got %q, want %q", e.Selector, want)
		}
	}
}

// Refused orders do not push out the entries of orders that were carried out.
func TestRefusedOrdersAreSpared(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	for range 1000 {
		f.Add(t.Context(), trail.Entry{Action: "delete-account", Outcome: trail.Refused, Status: 403})
	}
	f.Add(t.Context(), trail.Entry{Action: "delete-account", Outcome: trail.Done})
	got := f.all(trail.Query{Limit: 1000})
	if len(got) < 201 || len(got) > 300 || got[0].Outcome != trail.Done {
		t.Errorf("%d are kept, the last %+v", len(got), got[0])
	}
	if n := strings.Count(f.logs.String(), "msg=ordered"); n != 1001 {
		t.Errorf("the log has %d", n)
	}
}

func TestATrailThatIsOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, -1)
	f.Add(t.Context(), trail.Entry{Action: "delete-account", Outcome: trail.Done})
	if got := f.all(trail.Query{Limit: 10}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	f.counted(0, 1, 0)
	if _, err := trail.New(f.ring, trail.Options{Kept: 1 << 40}); err == nil {
		t.Error("it may keep any number")
	}
}

// An entry is added after the caller has gone. If Redis does not accept the entry, the log has it.
func TestRedisTakesNoEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Add(ctx, trail.Entry{Action: "pause-account", Outcome: trail.Done})
	f.counted(1, 0, 0)
	if err := f.redis.Close(); err != nil {
		t.Fatal(err)
	}
	f.Add(t.Context(), trail.Entry{Action: "delete-account", Account: "news", Outcome: trail.Done})
	f.counted(1, 0, 1)
	if n, at := f.Lost(); n != 1 || time.Since(at) > time.Minute {
		t.Errorf("%d entries are lost, the last at %v", n, at)
	}
	if logs := f.logs.String(); !strings.Contains(logs, "action=delete-account outcome=done account=news") || !strings.Contains(logs, "level=WARN msg=\"an entry of the trail stands in the log alone\"") {
		t.Errorf("the log has %s", logs)
	}
	if _, err := f.Look(t.Context(), trail.Query{Limit: 1}); !circulate.Unavailable(err) {
		t.Errorf("got %v", err)
	}
}
