package accounts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// listed walks through the list, changes each cursor before it is used, and returns how often
// each account came.
func listed(t *testing.T, r *Registry, q Query, change func(pages int, cursor string) string) (times map[string]int, pages int) {
	t.Helper()
	times = make(map[string]int)
	for {
		page, err := r.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Views) > q.Limit {
			t.Fatalf("a page of %d has %d accounts", q.Limit, len(page.Views))
		}
		for _, v := range page.Views {
			times[v.ID]++
		}
		if pages++; page.Next == "" || pages > 5000 {
			return times, pages
		}
		if q.Cursor = page.Next; change != nil {
			q.Cursor = change(pages, q.Cursor)
		}
	}
}

// TestLargeShardsAreListedInWindows: a page of a shard with very many accounts reads a part of
// them, and a walk has each account once all the same.
func TestLargeShardsAreListedInWindows(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		r, _ := newRegistry(t, server, 1)
		const accounts = 2500
		var lines strings.Builder
		for i := range accounts {
			labels := ""
			if i%100 == 7 {
				labels = `,"labels":{"team":"seven"}`
			}
			fmt.Fprintf(&lines, `{"id":"a-%04d","kind":"plain","config":{},"cadence":"every 1h"%s}`+"\n", i, labels)
		}
		if s, err := r.Import(t.Context(), strings.NewReader(lines.String()), func(b BadLine) error { return b.Faults }); err != nil || s.Created != accounts {
			t.Fatal(s, err)
		}
		once := func(times map[string]int, want int) {
			t.Helper()
			if len(times) != want {
				t.Errorf("%d accounts of %d", len(times), want)
			}
			for id, n := range times {
				if n != 1 {
					t.Errorf("%s came %d times", id, n)
				}
			}
		}
		for _, limit := range []int{7, 50, 400} {
			times, pages := listed(t, r, Query{Limit: limit}, nil)
			once(times, accounts)
			if most := accounts/limit + 2; pages > most {
				t.Errorf("%d pages of %d", pages, limit)
			}
		}
		times, _ := listed(t, r, Query{Limit: 10, Selector: Selector{Labels: map[string]string{"team": "seven"}}}, nil)
		once(times, accounts/100)
		times, _ = listed(t, r, Query{Limit: 10, Selector: Selector{Prefixes: []string{"a-01"}}}, nil)
		once(times, 100)

		// Another server took over: nothing is missed.
		changed := 0
		times, _ = listed(t, r, Query{Limit: 100}, func(pages int, text string) string {
			at, err := parseListCursor(text, 1)
			if err != nil {
				t.Fatal(err)
			}
			w, windowed := at.window()
			if pages != 5 || !windowed {
				return text
			}
			changed++
			w.server = "another"
			at.after = w.String()
			return at.String(1)
		})
		if len(times) != accounts {
			t.Errorf("%d accounts of %d after another server took over", len(times), accounts)
		}
		// A version that does not know windows takes the place for one before all ids.
		if at := (listCursor{after: (&listWindow{server: "s", next: 5}).String()}); slices.ContainsFunc([]string{"a", " ", "0"}, func(id string) bool { return id <= at.after }) {
			t.Error("a window is not before all ids")
		}
		if _, err := parseListCursor(SealCursor(CursorList, []byte("\x01\x00\x00\x05x")), 1); err == nil {
			t.Error("half a window is a cursor")
		}
	})
}
