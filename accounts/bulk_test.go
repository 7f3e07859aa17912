package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func noReport(Progress) error { return nil }

// fillBulk registers accounts of two kinds, of ten teams.
func fillBulk(tb testing.TB, r *Registry, n int) {
	tb.Helper()
	var text strings.Builder
	for i := range n {
		kind, config := "plain", "{}"
		if i%2 == 1 {
			kind, config = "web", `{"url":"u"}`
		}
		fmt.Fprintf(&text, "{\"id\":\"%s-%d\",\"kind\":%q,\"config\":%s,\"cadence\":\"every 10m\",\"labels\":{\"team\":\"%d\"}}\n", []string{"a", "b"}[i/2%2], i, kind, config, i%10)
	}
	if s, err := r.Import(tb.Context(), strings.NewReader(text.String()), func(b BadLine) error { return b.Faults }); err != nil || s.Created != n {
		tb.Fatalf("%+v, %v", s, err)
	}
}

func mustBulk(tb testing.TB, r *Registry, b Bulk) Progress {
	tb.Helper()
	done, err := r.Bulk(tb.Context(), b, noReport)
	if err != nil {
		tb.Fatalf("%+v: %v", b, err)
	}
	return done
}

func countOf(tb testing.TB, r *Registry, s Selector) int {
	tb.Helper()
	n := 0
	for q := (Query{Limit: MaxListLimit, Selector: s}); ; {
		page, err := r.List(tb.Context(), q)
		if err != nil {
			tb.Fatal(err)
		}
		n += len(page.Views)
		if q.Cursor = page.Next; q.Cursor == "" {
			return n
		}
	}
}

func TestBulk(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		r, ring := newRegistry(t, server, 4)
		const n, half = 600, 300
		fillBulk(t, r, n)
		teamOne := 0
		for i := 1; i < n; i += 10 {
			if i/2%2 == 0 && strings.HasPrefix(fmt.Sprint(i), "1") {
				teamOne++
			}
		}
		// Two accounts are parked for other reasons.
		for _, id := range []string{"a-0", "b-2"} {
			if _, err := ring.Park(ctx, ring.ShardOf(id), "auth: 401", []string{id}); err != nil {
				t.Fatal(err)
			}
		}
		plain := Selector{Kinds: []string{"plain"}}
		if got, want := mustBulk(t, r, Bulk{Action: PauseAll, Selector: plain, DryRun: true}), (Progress{Seen: n, Matched: half, Changed: half - 2, Unchanged: 2}); got != want {
			t.Errorf("dry run: %+v, want %+v", got, want)
		}
		if got := countOf(t, r, Selector{States: []string{"parked"}}); got != 2 {
			t.Errorf("%d are parked after a dry run", got)
		}
		if got, want := mustBulk(t, r, Bulk{Action: PauseAll, Selector: plain}), (Progress{Seen: n, Matched: half, Changed: half - 2, Unchanged: 2}); got != want {
			t.Errorf("pause: %+v, want %+v", got, want)
		}
		for _, dryRun := range []bool{true, false} {
			var why Reasons
			got := mustBulk(t, r, Bulk{Action: PauseAll, Selector: plain, DryRun: dryRun, Reasons: func(all Reasons) { why = all }})
			if got.Changed != 0 || got.Unchanged != half || why.Sum() != half || why[WhyPaused].Count != half-2 || why[WhyParked].Count != 2 || len(why[WhyParked].Examples) != 2 {
				t.Errorf("pause again: %+v, %v", got, why)
			}
		}
		for _, c := range []struct {
			s    Selector
			want int
		}{
			{Selector{}, n},
			{Selector{States: []string{StatePaused}}, half - 2},
			{Selector{States: []string{StateActive}}, half},
			{Selector{States: []string{"scheduled", "parked"}, Kinds: []string{"web"}}, half},
			{Selector{Reasons: []string{"auth"}}, 2},
			{Selector{Prefixes: []string{"a-1"}, Labels: map[string]string{"team": "1"}}, teamOne},
			{Selector{Prefixes: []string{"none"}}, 0},
		} {
			if got := countOf(t, r, c.s); got != c.want {
				t.Errorf("%+v: %d are listed, want %d", c.s, got, c.want)
			}
			var out bytes.Buffer
			if e, err := r.export(ctx, c.s, &out); err != nil || e.Accounts != c.want || bytes.Count(out.Bytes(), []byte("\n")) != c.want {
				t.Errorf("%+v: %+v are exported, want %d; %v", c.s, e, c.want, err)
			}
		}

		// An account that was parked before stays parked. A resumed one is due at its slot.
		if got, want := mustBulk(t, r, Bulk{Action: ResumeAll, All: true}), (Progress{Seen: n, Matched: n, Changed: half - 2, Unchanged: half + 2}); got != want {
			t.Errorf("resume: %+v, want %+v", got, want)
		}
		v, err := r.Get(ctx, "a-4")
		now, nowErr := ring.Now(ctx, ring.ShardOf("a-4"))
		rhythm, parseErr := cadence.Parse("every 10m")
		if err := errors.Join(err, nowErr, parseErr); err != nil {
			t.Fatal(err)
		}
		if slot, _ := rhythm.After("a-4", now, cadence.State{}); !v.State.Due.Equal(slot) {
			t.Errorf("due %v, its slot is %v", v.State.Due, slot)
		}
		if got := mustBulk(t, r, Bulk{Action: ResumeAll, Selector: Selector{Reasons: []string{"auth"}}}); got.Changed != 2 {
			t.Errorf("resume what has no access: %+v", got)
		}

		// Deleting can be repeated until nothing is left.
		if got, want := mustBulk(t, r, Bulk{Action: DeleteAll, Selector: Selector{States: []string{"scheduled"}, Kinds: []string{"web"}}}), (Progress{Seen: n, Matched: half, Changed: half}); got != want {
			t.Errorf("delete: %+v, want %+v", got, want)
		}
		if got := mustBulk(t, r, Bulk{Action: DeleteAll, Selector: plain, DryRun: true}); got.Changed != half {
			t.Errorf("delete, dry run: %+v", got)
		}
		if got, want := mustBulk(t, r, Bulk{Action: DeleteAll, All: true}), (Progress{Seen: half, Matched: half, Changed: half}); got != want {
			t.Errorf("delete all: %+v, want %+v", got, want)
		}
		if got := mustBulk(t, r, Bulk{Action: DeleteAll, All: true}); got != (Progress{}) {
			t.Errorf("delete nothing: %+v", got)
		}
	})
}

func TestBulkIsRefused(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 1)
	for want, b := range map[string]Bulk{
		"all: must be true":     {Action: DeleteAll},
		"all: must not be true": {Action: DeleteAll, All: true, Selector: Selector{Kinds: []string{"a"}}},
		"action: ":              {Action: "forget", All: true},
		"state: ":               {Action: PauseAll, Selector: Selector{States: []string{"x"}}},
	} {
		var faults Faults
		if _, err := r.Bulk(t.Context(), b, noReport); !errors.As(err, &faults) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	var faults Faults
	if _, err := r.export(t.Context(), Selector{States: []string{"x"}}, new(bytes.Buffer)); !errors.As(err, &faults) {
		t.Errorf("export: %v", err)
	}
	if _, err := r.List(t.Context(), Query{Selector: Selector{Kinds: []string{""}}}); !errors.As(err, &faults) {
		t.Errorf("list: %v", err)
	}
}

// losing is a server whose connections lose one reply. After that it lends no connections.
type losing struct {
	circulate.Server
	step atomic.Pointer[string] // an argument of the call whose reply is lost
	lost atomic.Bool
}

func (s *losing) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if s.lost.Load() {
		return nil, errAway
	}
	conn, err := s.Server.Conn(ctx, key)
	return &losingConn{conn.(redis.ConnWithTimeout), s}, err
}

type losingConn struct {
	redis.ConnWithTimeout
	server *losing
}

func (c *losingConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	reply, err := c.ConnWithTimeout.DoWithTimeout(timeout, name, args...)
	if step := c.server.step.Load(); err == nil && step != nil && len(args) > 10 && fmt.Sprint(args[10]) == *step && c.server.lost.CompareAndSwap(false, true) {
		return nil, errors.New("connection cut")
	}
	return reply, err
}

// After a lost reply it is unknown what was done. Repeating the action finds out.
func TestBulkOfUnknownOutcome(t *testing.T) {
	server := &losing{Server: redistest.Embedded(t)}
	r, _ := newRegistry(t, server, 1)
	fillBulk(t, r, 450)
	reason := circulate.ReasonPaused
	server.step.Store(&reason)
	done, err := r.Bulk(t.Context(), Bulk{Action: PauseAll, All: true}, noReport)
	if want := (Progress{Seen: bulkStep, Matched: bulkStep, Unknown: bulkStep}); err == nil || done != want {
		t.Fatalf("%+v, %v; want %+v", done, err, want)
	}
	server.step.Store(nil)
	server.lost.Store(false)
	if got, want := mustBulk(t, r, Bulk{Action: PauseAll, All: true}), (Progress{Seen: 450, Matched: 450, Changed: 450 - bulkStep, Unchanged: bulkStep}); got != want {
		t.Errorf("again: %+v, want %+v", got, want)
	}
}

// A step that Redis refuses changes nothing, and no other step follows.
func TestBulkStopsWhereRedisRefuses(t *testing.T) {
	server := redistest.Embedded(t)
	r, _ := newRegistry(t, server, 1)
	fillBulk(t, r, 450)
	away := &failingServer{Server: server, left: 100}
	failing, _ := newRegistry(t, away, 1)
	away.left = 2 // to scan, and to look
	done, err := failing.Bulk(t.Context(), Bulk{Action: DeleteAll, All: true}, noReport)
	if want := (Progress{Seen: bulkStep, Matched: bulkStep, Failed: bulkStep}); !errors.Is(err, errAway) || done != want {
		t.Fatalf("%+v, %v; want %+v", done, err, want)
	}
	if got := countOf(t, r, Selector{}); got != 450 {
		t.Errorf("%d are left", got)
	}
}

// The caller gets reports of the progress. If a report fails, everything ends.
func TestBulkTellsHowFarItIs(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		r, _ := newRegistry(t, server, 2)
		fillBulk(t, r, 1200)
		away := &faketime.Faulty{Server: server} // each connection takes a second
		away.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Connect {
				time.Sleep(time.Second)
			}
			return faketime.Healthy
		})
		slow, _ := newRegistry(t, away, 2)
		told, last := 0, Progress{}
		done, err := slow.Bulk(t.Context(), Bulk{Action: PauseAll, All: true}, func(p Progress) error {
			if p.Seen < last.Seen || p.Changed < last.Changed {
				t.Errorf("%+v after %+v", p, last)
			}
			told, last = told+1, p
			return nil
		})
		if err != nil || done.Changed != 1200 || told < 5 || last.Changed == 0 {
			t.Fatalf("%+v, %v, told %d times, last %+v", done, err, told, last)
		}

		gone := errors.New("gone")
		done, err = slow.Bulk(t.Context(), Bulk{Action: DeleteAll, All: true}, func(p Progress) error {
			if p.Changed == 0 {
				return nil
			}
			return gone
		})
		if !errors.Is(err, gone) || done.Changed == 0 || done.Changed == 1200 || done.Changed != 1200-countOf(t, r, Selector{}) {
			t.Fatalf("%+v, %v", done, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done, err = slow.Bulk(ctx, Bulk{Action: DeleteAll, All: true}, func(Progress) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) || done.Changed != 0 {
			t.Fatalf("%+v, %v", done, err)
		}
	})
}
