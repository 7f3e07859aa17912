package api_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/testing/redistest"
)

type fixture struct {
	*testing.T
	ring  *circulate.Ring
	trail *trail.Trail
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 1, Timeline: func() int { return 50_000 }})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, ring: ring}
	if f.trail, err = trail.New(ring, trail.Options{}); err != nil {
		t.Fatal(err)
	}
	f.register("a")
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) register(id string) {
	f.Helper()
	_, err := f.ring.Account(id).Register(f.Context(), circulate.Registration{Record: []byte(`{}`)})
	f.must(err)
}

// ordered adds an entry to the trail, in a later millisecond than everything before.
func (f *fixture) ordered(e trail.Entry) {
	f.Helper()
	f.tick()
	if e.Outcome == "" {
		e.Outcome = trail.Done
	}
	f.trail.Add(f.Context(), e)
	f.tick()
}

func (f *fixture) tick() {
	f.Helper()
	before, err := f.ring.Now(f.Context(), 0)
	f.must(err)
	for now := before; now.UnixMilli() == before.UnixMilli(); {
		now, err = f.ring.Now(f.Context(), 0)
		f.must(err)
	}
}

func (f *fixture) pause(id string) {
	f.Helper()
	f.must(f.ring.Account(id).Park(f.Context(), circulate.ReasonPaused))
}

// all returns an account's events in pages of so many.
func (f *fixture) all(id string, limit int) (events []string) {
	f.Helper()
	q := api.TimelineQuery{Account: id, Limit: limit}
	seen := make(map[string]bool)
	for range 1000 {
		page, err := api.NewTimeline(f.ring, f.trail).Look(f.Context(), q)
		f.must(err)
		if len(page.Events) > limit {
			f.Fatalf("%d events on a page, want at most %d", len(page.Events), limit)
		}
		for _, e := range page.Events {
			if seen[e.ID] {
				f.Errorf("%s comes twice: %+v", e.ID, e)
			}
			seen[e.ID] = true
			text := e.Event
			if e.Text != "" {
				text += " (" + e.Text + ")"
			}
			if e.By != "" {
				text += " by " + e.By
			}
			if len(e.Fields) > 0 {
				text += fmt.Sprint(" ", e.Fields)
			}
			events = append(events, text)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return events
		}
	}
	f.Fatal("the timeline has no end")
	return nil
}

func TestOrdersAndLinesAreOneTimeline(t *testing.T) {
	f := newFixture(t)
	f.ordered(trail.Entry{By: "cms", Action: "create-account", Account: "a"})
	f.ordered(trail.Entry{By: "cms", Action: "put-account", Account: "a", Counts: map[string]int{"unchanged": 1}})
	f.ordered(trail.Entry{By: "bot", Action: "create-send", Account: "a"})
	f.ordered(trail.Entry{By: "cms", Action: "patch-account", Account: "a", Fields: []string{"cadence"}})
	f.ordered(trail.Entry{By: "cms", Action: "patch-account", Account: "b", Fields: []string{"cadence"}})
	f.ordered(trail.Entry{By: "eve", Action: "delete-account", Account: "a", Outcome: trail.Refused})
	f.pause("a")
	f.ordered(trail.Entry{By: "ann", Action: "pause-account", Account: "a"})
	f.must(f.ring.Account("a").Resume(t.Context(), circulate.Resumption{ForgetCursor: true}))
	f.ordered(trail.Entry{By: "bob", Action: "resume-account", Account: "a"})
	f.must(f.ring.Account("a").Park(t.Context(), "gone: away")) // by nobody
	f.ordered(trail.Entry{By: "bob", Action: "nudge-account", Account: "a"})
	want := []string{
		"nudged by bob", "parked (gone: away)", "resumed (backfill) by bob", "parked (paused) by ann",
		"changed by cms [cadence]", "registered by cms",
	}
	for _, limit := range []int{1, 2, 3, 5, 200} {
		if got := f.all("a", limit); limit > 5 && !slices.Equal(got, want) || len(got) < len(want) {
			t.Errorf("in pages of %d: %q, want %q", limit, got, want)
		}
	}
}

func TestAnEarlierAccountOfTheSameID(t *testing.T) {
	f := newFixture(t)
	f.ordered(trail.Entry{By: "secret", Action: "patch-account", Account: "a"})
	f.pause("a")
	f.tick()
	f.must(f.ring.Account("a").Deregister(t.Context()))
	f.ordered(trail.Entry{By: "ann", Action: "delete-account", Account: "a"})
	f.register("a")
	f.ordered(trail.Entry{By: "ann", Action: "create-account", Account: "a"})
	f.pause("a")
	for _, limit := range []int{1, 2, 50} {
		got := f.all("a", limit)
		if last := got[len(got)-1]; len(got) < 3 || got[0] != "parked (paused)" || last != "deregistered by ann" && last != "deregistered" {
			t.Errorf("in pages of %d: %q", limit, got)
		}
	}
}

// Many lines and entries of other accounts are between those of one.
func TestLookingIsBounded(t *testing.T) {
	f := newFixture(t)
	f.pause("a")
	f.ordered(trail.Entry{By: "ann", Action: "patch-account", Account: "a"})
	for range api.MaxOrders + 100 {
		f.trail.Add(t.Context(), trail.Entry{By: "cms", Action: "patch-account", Account: "other", Outcome: trail.Done})
	}
	f.register("b")
	f.pause("b")
	page, err := api.NewTimeline(f.ring, f.trail).Look(t.Context(), api.TimelineQuery{Account: "a", Limit: 10})
	f.must(err)
	if len(page.Events) != 0 || page.Next == "" || page.Back.IsZero() || page.Looked != api.MaxOrders+2 {
		t.Errorf("%+v", page)
	}
	if got, want := f.all("a", 10), []string{"changed by ann", "parked (paused)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBadQueries(t *testing.T) {
	f := newFixture(t)
	for _, limit := range []int{-1, 0, api.MaxLimit + 1} {
		if page, err := api.NewTimeline(f.ring, f.trail).Look(t.Context(), api.TimelineQuery{Account: "a", Limit: limit}); err == nil {
			t.Errorf("limit %d: %+v", limit, page)
		}
	}
	for _, text := range []string{"x", accounts.SealCursor(accounts.CursorTrail, []byte("1 2 3")), accounts.SealCursor(accounts.CursorTimeline, []byte("1 2")),
		accounts.SealCursor(accounts.CursorTimeline, []byte("1 2 0 1 2 true true -5"))} {
		if _, err := api.NewTimeline(f.ring, f.trail).Look(t.Context(), api.TimelineQuery{Account: "a", Limit: 5, Cursor: text}); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
