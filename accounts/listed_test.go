package accounts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// scanPlainly looks at each account.
func scanPlainly(t *testing.T, ring *circulate.Ring) (all []circulate.View) {
	t.Helper()
	for shard := range ring.Shards() {
		for cursor := ""; cursor != circulate.ScanDone; {
			some, next, err := ring.Scan(t.Context(), shard, cursor, 500)
			if err != nil {
				t.Fatal(err)
			}
			for step := range slices.Chunk(some, 500) {
				views, err := ring.Look(t.Context(), shard, step)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, views...)
			}
			cursor = next
		}
	}
	slices.SortFunc(all, func(a, b circulate.View) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b circulate.View) bool { return a.ID == b.ID })
}

// Every filter finds what a look at each account finds, each account once, whatever answers: an
// index, a summary or a walk. And the walk says how many accounts it has gone past.
func TestEveryFilterFindsWhatAPlainScanFinds(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		r, ring := newRegistry(t, server, 2)
		const accounts = 2200
		var lines strings.Builder
		for i := range accounts {
			kind := []string{"plain", "web"}[i%2]
			fmt.Fprintf(&lines, `{"id":"%s-%04d","kind":"%s","config":{"url":"https://h%d.example/"},"cadence":"every %dm","labels":{"team":"%d"}}`+"\n",
				[]string{"Acme", "beta"}[i/2%2], i, kind, i%20, 1+i%9, i%100)
		}
		if s, err := r.Import(t.Context(), strings.NewReader(lines.String()), func(b BadLine) error { return b.Faults }); err != nil || s.Created != accounts {
			t.Fatal(s, err)
		}
		time.Sleep(10 * time.Minute) // all are due
		claims := claimAll(t, ring)
		for i, id := range slices.Sorted(maps.Keys(claims)) {
			item := circulate.Return{Claim: claims[id], Mark: circulate.MarkOK, Due: time.Now().Add(time.Hour)}
			switch {
			case i%50 == 49:
				continue // it stays claimed
			case i%11 == 0:
				item.Mark, item.Error = 't', "http_404: item "+id
			case i%13 == 0:
				item.Mark, item.Error = 'a', "http_401: no"
			case i%101 == 0:
				item.Mark, item.Error, item.Park = 'g', "http_410: Gone", "gone: http_410: Gone"
			}
			returnClaim(t, ring, item)
		}
		if did := mustBulk(t, r, Bulk{Action: PauseAll, Selector: Selector{Labels: map[string]string{"team": "33"}}}); did.Changed == 0 {
			t.Fatal("nobody is paused")
		}
		time.Sleep(6 * time.Minute)
		for shard := range ring.Shards() { // some wait
			batch, err := ring.Claim(t.Context(), shard, "replica001", 100, 0)
			if err != nil {
				t.Fatal(err)
			}
			back := make([]*circulate.Claim, 0, 50)
			for i := range min(50, len(batch.Claims)) {
				back = append(back, &batch.Claims[i])
			}
			if _, err := ring.Release(t.Context(), shard, back); err != nil {
				t.Fatal(err)
			}
		}
		index := NewIDIndex(ring)
		for shard := range ring.Shards() {
			if err := index.read(t.Context(), shard); err != nil {
				t.Fatal(err)
			}
		}
		one := func(s Selector) map[string]Selector { return map[string]Selector{fmt.Sprintf("%+v", s): s} }
		all := one(Selector{})
		for _, state := range States() {
			maps.Copy(all, one(Selector{States: []string{state}}))
			maps.Copy(all, one(Selector{States: []string{state}, Kinds: []string{"web"}, Hosts: []string{"h7.example", "h8.example", "h13.example", "h17.example"}}))
		}
		for _, s := range []Selector{
			{States: []string{StateFailing, string(circulate.Parked)}}, {IDs: []string{"Acme-0000", "beta-0002", "none"}}, {Kinds: []string{"web"}}, {Labels: map[string]string{"team": "7"}},
			{Prefixes: []string{"beta-21"}}, {Prefixes: []string{"beta-2", "Acme-00"}, Hosts: []string{"h3.example"}}, {Parts: []string{"ACME-1"}}, {Parts: []string{"a-20", "99"}, Kinds: []string{"web"}},
			{Parts: []string{"-00"}, Prefixes: []string{"beta"}, States: []string{StateFailing}}, {Parts: []string{"none"}}, {Reasons: []string{"gone"}}, {Errors: []string{"http_404"}}, {Errors: []string{"auth"}},
			{Hosts: []string{"h11.example"}, Errors: []string{"http_401"}}, {Except: []string{"h1.example"}, States: []string{StateLate}}, {Since: 7 * time.Minute}, {Since: 5 * time.Minute, Labels: map[string]string{"team": "1"}},
			{Since: time.Hour}, {Since: 2 * time.Minute, States: []string{StateActive}, Errors: []string{"http_401"}}, {Causes: []string{CauseOf("http_404: item Acme-0000", "").Name}}, {Causes: []string{CauseOf("http_410: Gone", "").Name}, Kinds: []string{"plain"}},
		} {
			maps.Copy(all, one(s))
		}
		found := make(map[string]int)
		looks := scanPlainly(t, ring)
		for name, s := range all {
			want := []string{}
			for i := range looks {
				if v := &looks[i]; s.named(v.ID) && (len(s.IDs) == 0 || slices.Contains(s.IDs, v.ID)) && s.matchesView(v) {
					want = append(want, v.ID)
				}
			}
			registries := []*Registry{r}
			if len(s.Parts) > 0 {
				registries = append(registries, r.Indexed(index))
			}
			for _, r := range registries {
				got, looked := []string{}, 0
				for q := (Query{Limit: 150, Selector: s}); ; {
					page, err := r.List(t.Context(), q)
					if err != nil {
						t.Fatal(name, err)
					}
					for i := range page.Views {
						got = append(got, page.Views[i].ID)
					}
					looked += page.Looked
					if q.Cursor = page.Next; q.Cursor == "" {
						break
					}
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s: %d accounts, a plain scan finds %d", name, len(got), len(want))
				}
				if walked := len(s.IDs) == 0 && !s.indexed() && (r.ids == nil || len(s.Parts) == 0); walked != (looked == accounts) {
					t.Errorf("%s: it has gone past %d accounts of %d", name, looked, accounts)
				}
			}
			found[name] = len(want)
		}
		// The control: the accounts differ in all that is asked for. So a filter that is not
		// obeyed would have found more.
		for name, n := range found {
			if s := all[name]; !s.Empty() && n == accounts || n == 0 && s.Since != time.Hour && !slices.Equal(s.Parts, []string{"none"}) {
				t.Errorf("%s selects %d accounts of %d, and so nothing is shown", name, n, accounts)
			}
		}
	})
}
