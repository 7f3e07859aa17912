package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Most tests ask one thing after another. The race detector watches those in which something happens at
// once, and one of each kind of call that asks all shards.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Watched(m, "TestReviveRaces", "TestPatchesAtOnce", "TestTheIndexFindsWhatALookAtEachIDFinds", "TestTheIndexIsUpToDateWhileItIsAsked",
		"TestStats", "TestPut", "TestParked", "TestCount", "TestSelectingByIDs", "TestAuditListsSomeAndCountsAll", "TestBulkPauseKeepsAReasonThatCameInBetween",
		"TestBulkStopsWhereRedisRefuses", "TestANudgeOfManyThatStops", "TestImportFedSlowly", "TestImportStops", "TestMove"))
}

// testKinds knows "plain", which accepts any config, and "web", which needs a url.
type testKinds struct{}

func (testKinds) Validate(kind string, config json.RawMessage) error {
	switch kind {
	case "plain":
		return nil
	case "web":
		var c struct{ URL, Key string }
		_ = json.Unmarshal(config, &c)
		var errs []error
		if c.URL == "" {
			errs = append(errs, Fault{Field: "config.url", Reason: "must not be empty"})
		}
		if c.Key == "bad" {
			errs = append(errs, Fault{Field: "config.key", Reason: "must be good"})
		}
		return errors.Join(errs...)
	}
	return Fault{Field: "kind", Reason: "is not known"}
}

func newRegistry(tb testing.TB, server circulate.Server, shards int) (*Registry, *circulate.Ring) {
	tb.Helper()
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Shards: shards})
	if err != nil {
		tb.Fatal(err)
	}
	return NewRegistry(ring, testKinds{}), ring
}

// claimAll claims everything that is due in all shards.
func claimAll(tb testing.TB, ring *circulate.Ring) map[string]*circulate.Claim {
	tb.Helper()
	claims := make(map[string]*circulate.Claim)
	for shard := range ring.Shards() {
		batch, err := ring.Claim(context.Background(), shard, "replica001", 1000, 0)
		if err != nil {
			tb.Fatal(err)
		}
		for i := range batch.Claims {
			claims[batch.Claims[i].ID] = &batch.Claims[i]
		}
	}
	return claims
}

func returnClaim(tb testing.TB, ring *circulate.Ring, item circulate.Return) {
	tb.Helper()
	outcomes, err := ring.Return(context.Background(), item.Claim.Shard, []circulate.Return{item})
	if err != nil || outcomes[0] != circulate.Written {
		tb.Fatalf("return of %s: %v, %v", item.Claim.ID, outcomes, err)
	}
}

func TestRegistry(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		a := Account{ID: "a/1 ü", Kind: "plain", Config: json.RawMessage(`{ "b": "<&>" }`), Labels: map[string]string{"x": "y"}}

		if _, err := r.Get(ctx, a.ID); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Get before Create: %v", err)
		}
		v, err := r.Create(ctx, a)
		if err != nil {
			t.Fatal(err)
		}
		if v.ID != a.ID || v.Kind != "plain" || string(v.Config) != `{"b":"<&>"}` || v.Labels["x"] != "y" || v.State.Place != circulate.Scheduled {
			t.Fatalf("Create returned %+v", v)
		}
		if _, err := r.Create(ctx, a); !errors.Is(err, ErrExists) {
			t.Fatalf("second Create: %v", err)
		}

		claims := claimAll(t, ring)
		if len(claims) != 1 {
			t.Fatalf("a new account must be due at once; claimed %d", len(claims))
		}
		if v, err = r.Get(ctx, a.ID); err != nil || v.State.Place != circulate.Claimed || v.State.Replica != "replica001" || v.State.Since.IsZero() {
			t.Fatalf("claimed: %+v, %v", v.State, err)
		}
		returnClaim(t, ring, circulate.Return{Claim: claims[a.ID], Due: time.Now().Add(time.Hour), Cursor: []byte("c1"), Failures: 2})
		if v, err = r.Get(ctx, a.ID); err != nil || v.State.Failures != 2 || time.Until(v.State.Due) < 50*time.Minute {
			t.Fatalf("returned: %+v, %v", v.State, err)
		}

		if _, err = r.Nudge(ctx, a.ID, Nudge{Hint: json.RawMessage(`"h"`)}); err != nil {
			t.Fatal(err)
		}
		c := claimAll(t, ring)[a.ID]
		if c == nil || string(c.Hint) != `"h"` || string(c.Cursor) != "c1" {
			t.Fatalf("claim after a nudge: %+v", c)
		}
		if v, err = r.Pause(ctx, a.ID); err != nil || v.State.Place != circulate.Parked || v.State.Reason != circulate.ReasonPaused {
			t.Fatalf("paused: %+v, %v", v.State, err)
		}
		if _, err = r.Nudge(ctx, a.ID, Nudge{}); !errors.Is(err, ErrParked) {
			t.Fatalf("nudge of a parked account: %v", err)
		}
		if v, err = r.Resume(ctx, a.ID); err != nil || v.State.Place != circulate.Scheduled || v.State.Failures != 0 {
			t.Fatalf("resumed: %+v, %v", v.State, err)
		}
		if len(claimAll(t, ring)) != 1 {
			t.Fatal("a resumed account must be due at once")
		}
		if err := r.Delete(ctx, a.ID); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"delete": r.Delete(ctx, a.ID),
			"pause":  second(r.Pause(ctx, a.ID)),
			"resume": second(r.Resume(ctx, a.ID)),
			"nudge":  second(r.Nudge(ctx, a.ID, Nudge{})),
		} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s of what is gone: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestPut(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 2)
		put := func(a Account, want circulate.Registered) {
			t.Helper()
			if _, change, err := r.Put(ctx, a); err != nil || change != want {
				t.Fatalf("Put %+v: %c, %v; want %c", a, change, err, want)
			}
		}
		// cursorAfter claims the account, which must be due, and returns it with a new cursor.
		// Its result is the cursor from before.
		cursorAfter := func() string {
			t.Helper()
			c := claimAll(t, ring)["a"]
			if c == nil {
				t.Fatal("a changed account must be due at once")
			}
			returnClaim(t, ring, circulate.Return{Claim: c, Due: time.Now().Add(time.Hour), Cursor: []byte("c1")})
			return string(c.Cursor)
		}
		put(Account{ID: "a", Kind: "plain"}, circulate.Created)
		cursorAfter()
		put(Account{ID: "a", Kind: "plain"}, circulate.Unchanged)
		if len(claimAll(t, ring)) != 0 {
			t.Fatal("an unchanged account must stay where it is")
		}
		put(Account{ID: "a", Kind: "plain", Cadence: "every 5m"}, circulate.Updated)
		if cursor := cursorAfter(); cursor != "c1" {
			t.Fatalf("cursor after a change: %q", cursor)
		}
		put(Account{ID: "a", Kind: "web", Config: json.RawMessage(`{"url":"x"}`)}, circulate.Updated)
		if cursor := cursorAfter(); cursor != "" {
			t.Fatalf("cursor after a change of kind: %q", cursor)
		}
		var faults Faults
		if _, _, err := r.Put(ctx, Account{ID: "a", Kind: "web", Cadence: "never"}); !errors.As(err, &faults) || len(faults) != 2 {
			t.Fatalf("Put of a bad record: %v", err)
		}
	})
}

func TestList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, _ := newRegistry(t, server, 8)
		var want, web, parked []string
		for i := range 300 {
			a := Account{ID: fmt.Sprintf("id/%03d", i), Kind: "plain"}
			if i%3 == 0 {
				a.Kind, a.Config = "web", json.RawMessage(`{"url":"x"}`)
				web = append(web, a.ID)
			}
			want = append(want, a.ID)
			if _, err := r.Create(ctx, a); err != nil {
				t.Fatal(err)
			}
			if i%50 == 7 {
				parked = append(parked, a.ID)
				if _, err := r.Pause(ctx, a.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		walk := func(q Query) (ids []string, pages int) {
			t.Helper()
			for {
				page, err := r.List(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Views) > q.Limit {
					t.Fatalf("a page of %d, limit %d", len(page.Views), q.Limit)
				}
				pages++
				for _, v := range page.Views {
					ids = append(ids, v.ID)
				}
				if page.Next == "" {
					slices.Sort(ids)
					return ids, pages
				}
				q.Cursor = page.Next
			}
		}
		if ids, pages := walk(Query{Limit: 7}); !slices.Equal(ids, want) || pages != 43 {
			t.Errorf("all: %d accounts on %d pages", len(ids), pages)
		}
		if ids, _ := walk(Query{Limit: 1000, Selector: Selector{Kinds: []string{"web"}}}); !slices.Equal(ids, web) {
			t.Errorf("by kind: %v", ids)
		}
		if ids, _ := walk(Query{Limit: 2, Selector: Selector{States: []string{"parked"}}}); !slices.Equal(ids, parked) {
			t.Errorf("by place: %v", ids)
		}
		if page, err := r.List(ctx, Query{Limit: 300}); err != nil || page.Next != "" {
			t.Errorf("a page that has all must be the last: %q, %v", page.Next, err)
		}

		other := listCursor{shard: 1, after: "x"}
		position := SealCursor(CursorPosition, []byte{8, 0})
		for _, cursor := range []string{"x", "a b", other.String(9), listCursor{shard: 8}.String(8), position} {
			if _, err := r.List(ctx, Query{Cursor: cursor}); !errors.Is(err, ErrCursor) {
				t.Errorf("cursor %q: %v", cursor, err)
			}
		}
		if _, err := r.List(ctx, Query{Limit: 1001}); err == nil {
			t.Error("a limit of 1001 was accepted")
		}
	})
}

// A record that this version cannot read is shown and can be deleted.
func TestUnreadableRecord(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 1)
	for id, record := range map[string]string{"broken": "{", "later": `{"id":"later","kind":"plain","new":1}`} {
		if _, err := ring.Register(ctx, 0, []circulate.Registration{{ID: id, Record: []byte(record)}}); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := r.Get(ctx, "broken"); err != nil || v.ID != "broken" || v.Fault == "" || v.State.Place != circulate.Scheduled {
		t.Errorf("broken: %+v, %v", v, err)
	}
	if v, err := r.Get(ctx, "later"); err != nil || v.Kind != "plain" || v.Fault != "" {
		t.Errorf("later: %+v, %v", v, err)
	}
	if err := r.Delete(ctx, "broken"); err != nil {
		t.Error(err)
	}
}

func TestStats(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 16)
		for i := range 20 {
			if _, err := r.Create(ctx, Account{ID: fmt.Sprint(i), Kind: "plain"}); err != nil {
				t.Fatal(err)
			}
		}
		claims := claimAll(t, ring)
		returnClaim(t, ring, circulate.Return{Claim: claims["0"], Due: time.Now().Add(time.Hour), Kind: "plain", Messages: []circulate.Message{{ID: "m"}}})
		if _, err := r.Pause(ctx, "0"); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Heartbeat(ctx, "replica001", []byte(`{"host":"h","concurrency":3}`), time.Minute); err != nil {
			t.Fatal(err)
		}
		s, err := r.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Shards != 16 || s.Registered != 20 || s.Claimed != 19 || s.Parked != 1 || s.Scheduled != 0 || s.Messages != 1 || s.Now.IsZero() {
			t.Errorf("stats: %+v", s)
		}
		if s.Staleness != nil {
			t.Errorf("staleness that nobody found: %+v", s.Staleness)
		}
		for found, want := range map[string]*Staleness{`[]`: nil, `{"scanned":3,"seconds_p99":1.5,"stalest":"a"}`: {Scanned: 3, P99: 1.5, Stalest: "a"}} {
			if err := ring.KeepStaleness(ctx, []byte(found)); err != nil {
				t.Fatal(err)
			}
			if s, err := r.Stats(ctx); err != nil || (s.Staleness == nil) != (want == nil) || want != nil && !reflect.DeepEqual(s.Staleness, want) {
				t.Errorf("staleness of %s: %+v, %v", found, s.Staleness, err)
			}
		}
		if len(s.Replicas) != 1 || s.Replicas[0].Name != "replica001" || s.Replicas[0].Report.Host != "h" || s.Replicas[0].Report.Concurrency != 3 {
			t.Errorf("replicas: %+v", s.Replicas)
		}
	})
}

func TestNudgeMerges(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 1)
	if _, err := r.Create(ctx, Account{ID: "a", Kind: "plain"}); err != nil {
		t.Fatal(err)
	}
	returnClaim(t, ring, circulate.Return{Claim: claimAll(t, ring)["a"], Due: time.Now().Add(time.Hour)})
	v, err := r.Nudge(ctx, "a", Nudge{Within: time.Minute})
	if err != nil || time.Until(v.State.Due) > time.Minute {
		t.Fatalf("nudged: %+v, %v", v.State, err)
	}
	if v, err = r.Nudge(ctx, "a", Nudge{Within: cadence.MaxInterval}); err != nil || time.Until(v.State.Due) > time.Minute {
		t.Fatalf("a nudge made it later: %+v, %v", v.State, err)
	}
	var faults Faults
	_, err = r.Nudge(ctx, "a", Nudge{Within: -1, Lives: -1, Hint: make([]byte, MaxHint+1)})
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Fatalf("a bad nudge: %v", err)
	}
}
