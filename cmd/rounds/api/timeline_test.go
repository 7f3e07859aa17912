package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// told returns an account's timeline, read in pages of so many, with the text of each
// event.
func (f *fixture) told(path string, limit int) (events []string) {
	f.Helper()
	for next := ""; ; {
		var page TimelinePage
		f.call("GET", fmt.Sprintf("/v1/accounts/%s/timeline?limit=%d&cursor=%s", path, limit, next), "", 200, &page)
		for _, e := range page.Events {
			if e.Time.Location() != time.UTC || e.ID == "" {
				f.Errorf("%+v", e)
			}
			events = append(events, strings.Join(strings.Fields(fmt.Sprint(e.Event, " ", e.Count, " ", e.Text, " ", e.By, " ", strings.Join(e.Fields, ","))), " "))
		}
		if next = page.Next; next == "" {
			return events
		}
	}
}

// tick returns in another millisecond, because lines and orders of the same one have no
// order.
func (f *fixture) tick() {
	f.Helper()
	now := func() int64 {
		at, err := f.ring.Now(f.Context(), 0)
		if err != nil {
			f.Fatal(err)
		}
		return at.UnixMilli()
	}
	for before := now(); now() == before; {
	}
}

func TestTimeline(t *testing.T) {
	f := newFixture(t, nil)
	f.call("GET", "/v1/accounts/a%2Fb/timeline", "", 404, nil)
	f.call("POST", "/v1/accounts", `{"id":"a/b","kind":"plain"}`, 201, nil)
	f.fails("auth: http_401: refused")
	f.call("POST", "/v1/accounts/a%2Fb/resume", `{"from":"now"}`, 200, nil)
	f.tick()
	f.call("PATCH", "/v1/accounts/a%2Fb", `{"cadence":"every 9m"}`, 200, nil)
	want := []string{"changed 0 local cadence", "resumed 0 now local", "parked 3 auth: http_401: refused", "registered 0 local"}
	for _, limit := range []int{1, 3, 200} {
		if got := f.told("a%2Fb", limit); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q, want %q", limit, got, want)
		}
	}
	for query, field := range map[string]string{"limit=0": "query.limit", "limit=201": "query.limit", "limit=x": "query.limit", "cursor=x": "query.cursor"} {
		if got := f.errorReply("GET", "/v1/accounts/a%2Fb/timeline?"+query, "", 422); len(got.Errors) != 1 || got.Errors[0].Location != field {
			t.Errorf("%s: %+v", query, got)
		}
	}
	f.call("POST", "/v1/accounts", `{"id":"/","kind":"plain"}`, 201, nil)
	if got := f.told("%2F", 5); !slices.Equal(got, []string{"registered 0 local"}) {
		t.Errorf("%q", got)
	}
}

func TestTimelineOfOthersIsNotThere(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.RequireKey = true })
	admin := f.as(f.key(key.New{Name: "root", Role: access.Admin}))
	admin.call("POST", "/v1/accounts", `{"id":"red","kind":"plain","labels":{"team":"red"}}`, 201, nil)
	blue := f.as(f.key(key.New{Name: "blue", Role: access.Viewer, Labels: map[string]string{"team": "blue"}}))
	blue.call("GET", "/v1/accounts/red/timeline", "", 404, nil)
	red := f.as(f.key(key.New{Name: "red", Role: access.Viewer, Labels: map[string]string{"team": "red"}}))
	if got := red.told("red", 5); !slices.Equal(got, []string{"registered 0 root"}) {
		t.Errorf("%q", got)
	}
}

func TestScheduleEstimates(t *testing.T) {
	f := newFixture(t, nil)
	ctx := t.Context()
	var ids []string // of one shard
	for i := 0; len(ids) < 3; i++ {
		if id := fmt.Sprint("a", i); f.ring.ShardOf(id) == 1 {
			ids = append(ids, id)
			f.call("POST", "/v1/accounts", fmt.Sprintf(`{"id":%q,"kind":"plain"}`, id), 201, nil)
		}
	}
	// A claim promotes one account. Another claim finds nothing and promotes none.
	if _, err := f.ring.Claim(ctx, 1, "replica001", 2, 0); err != nil {
		t.Fatal(err)
	}
	entries, _, err := f.ring.Oldest(ctx, 1, 0, 10)
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	if _, err := f.ring.ReleaseEntries(ctx, 1, entries); err != nil {
		t.Fatal(err)
	}
	second := entries[1].Entry.ID
	var s Schedule
	f.call("GET", "/v1/accounts/"+second+"/schedule", "", 200, &s)
	if s.Place != circulate.Waiting || s.Lanes == nil || s.Lanes.Before == nil || *s.Lanes.Before != 1 || s.Lanes.Seconds != nil {
		t.Errorf("without history: %+v", s.Lanes)
	}
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	sample := history.NewSample(now.Add(-20 * time.Second))
	sample.Set(history.ChecksPerSecond, 8)
	if err := history.NewKeeper(f.ring).Add(ctx, sample); err != nil {
		t.Fatal(err)
	}
	f.api.history = history.NewReader(f.ring) // the other one has just looked
	f.call("GET", "/v1/accounts/"+second+"/schedule", "", 200, &s)
	if s.Lanes == nil || s.Lanes.Seconds == nil || *s.Lanes.Seconds != 0.5 { // one of four shards, at 8 a second
		t.Errorf("%+v", s.Lanes)
	}
}
