package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestRevisionKept(t *testing.T) {
	created, updated := time.Unix(1_700_000_000, 0), time.Unix(1_700_000_100, 0)
	for _, v := range []Revision{{Number: 1, Created: created, Updated: created}, {Number: 12, Created: created, Updated: updated}, {Number: 3, Updated: updated}, {Number: 1}} {
		for _, record := range []string{`{"id":"a","kind":"plain"}`, `{"id":"a","kind":"k","config":{"revision":[1,2,3]},"labels":{"x":",\"revision\":[1,2,3]}"}}`} {
			kept := withRevision([]byte(record), v)
			if !json.Valid(kept) {
				t.Fatalf("%s is no JSON", kept)
			}
			plain, got := SplitRevision(kept)
			if string(plain) != record || !reflect.DeepEqual(got, v) {
				t.Errorf("%s came back as %s, %+v", kept, plain, got)
			}
		}
	}
	for _, record := range []string{``, `{}`, `x`, `{"id":"a","config":{"a":1,"revision":[1,2,3]}}`, `{"id":"a","revision":[1]}`, `{"id":"a","revision":[1,2,3,4]}`, `{"id":"a","revision":[1,2,"3]}`, `{"id":"a","revision":[1,-2,3]}`} {
		if plain, got := SplitRevision([]byte(record)); string(plain) != record || got != (Revision{Number: 1}) {
			t.Errorf("%s: %s, %+v", record, plain, got)
		}
	}
}

func TestSave(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		a := Account{ID: "a", Kind: "plain", Labels: map[string]string{"team": "x"}}

		if _, _, err := r.Save(ctx, a, Save{Match: Match{Any: true}}); !errors.Is(err, ErrChanged) {
			t.Errorf("save of what is not there: %v", err)
		}
		first, outcome, err := r.Save(ctx, a, Save{})
		if err != nil || outcome != circulate.Created || first.Revision.Number != 1 || first.Revision.Created.IsZero() || !first.Revision.Updated.Equal(first.Revision.Created) {
			t.Fatalf("first: %+v, %c, %v", first, outcome, err)
		}
		same, outcome, err := r.Save(ctx, a, Save{Match: Match{Tags: []string{"other", first.Tag}}})
		if err != nil || outcome != circulate.Unchanged || same.Tag != first.Tag || same.Revision.Number != 1 {
			t.Errorf("same: %+v, %c, %v", same, outcome, err)
		}
		a.Cadence = "every 5m"
		second, outcome, err := r.Save(ctx, a, Save{Match: Match{Tags: []string{first.Tag}}})
		if err != nil || outcome != circulate.Updated || second.Revision.Number != 2 || second.Tag == first.Tag || !second.Revision.Created.Equal(first.Revision.Created) {
			t.Fatalf("second: %+v, %c, %v", second, outcome, err)
		}
		a.Cadence = "every 6m"
		if _, _, err := r.Save(ctx, a, Save{Match: Match{Tags: []string{first.Tag}}}); !errors.Is(err, ErrChanged) {
			t.Errorf("save of what was changed: %v", err)
		}
		if err := r.DeleteIf(ctx, "a", Match{Tags: []string{first.Tag}}); !errors.Is(err, ErrChanged) {
			t.Errorf("delete of what was changed: %v", err)
		}
		if v, err := r.Get(ctx, "a"); err != nil || v.Tag != second.Tag || v.Cadence != "every 5m" {
			t.Errorf("then: %+v, %v", v, err)
		}

		// A version without revisions writes the record without one.
		if _, err := ring.Account("a").Upsert(ctx, circulate.Registration{Record: []byte(`{"id":"a","kind":"plain"}`)}); err != nil {
			t.Fatal(err)
		}
		old, err := r.Get(ctx, "a")
		if err != nil || old.Revision.Number != 1 || !old.Revision.Created.IsZero() || old.Tag == first.Tag {
			t.Errorf("of an old version: %+v, %v", old, err)
		}
		if v, _, err := r.Save(ctx, a, Save{Match: Match{Tags: []string{old.Tag}}}); err != nil || v.Revision.Number != 2 || v.Revision.Updated.IsZero() {
			t.Errorf("after it: %+v, %v", v, err)
		}
		if err := r.DeleteIf(ctx, "a", Match{Any: true}); err != nil {
			t.Error(err)
		}
		if err := r.DeleteIf(ctx, "a", Match{Any: true}); !errors.Is(err, ErrNotFound) {
			t.Errorf("delete twice: %v", err)
		}
	})
}

func TestPatch(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		start := Account{ID: "a", Kind: "plain", Config: json.RawMessage(`{"url":"https://x.example/?a&b","big":12345678901234567890,"in":{"a":1,"b":2}}`), Cadence: "every 5m", Labels: map[string]string{"team": "x", "tier": "1"}, RetryBudget: 5}
		for _, c := range []struct{ patch, want string }{
			{`{}`, ""},
			{`{"cadence":"every 5s"}`, `"cadence":"every 5s"`},
			{`{"cadence":null,"retry_budget":null}`, `"cadence":"","retry_budget":0`},
			{`{"labels":{"team":"press","tier":null,"new":"<&>"}}`, `"labels":{"team":"press","new":"<&>"}`},
			{`{"labels":null}`, `"labels":{}`},
			{`{"config":{"in":{"b":null,"c":{"d":null,"e":[null]}}}}`, `"config":{"url":"https://x.example/?a&b","big":12345678901234567890,"in":{"a":1,"c":{"e":[null]}}}`},
			{`{"config":{"url":{"secret":"X"}}}`, `"config":{"url":{"secret":"X"},"big":12345678901234567890,"in":{"a":1,"b":2}}`},
			{`{"id":"a","priority":"low"}`, `"priority":"low"`},
		} {
			_ = r.Delete(ctx, "a")
			before, err := r.Create(ctx, start)
			if err != nil {
				t.Fatal(err)
			}
			v, outcome, err := r.Patch(ctx, "a", []byte(c.patch), Match{})
			if err != nil {
				t.Errorf("%s: %v", c.patch, err)
				continue
			}
			want := start
			want.Config = bytes.Clone(start.Config)
			if err := json.Unmarshal([]byte("{"+c.want+"}"), &want); err != nil {
				t.Fatal(err)
			}
			if c.want != "" && strings.Contains(c.want, `"labels":{`) {
				want.Labels = nil
				_ = json.Unmarshal([]byte("{"+c.want+"}"), &want)
			}
			if changed := c.want != ""; changed != (outcome == circulate.Updated) || changed == (v.Tag == before.Tag) {
				t.Errorf("%s: %c", c.patch, outcome)
			}
			if !sameJSON(t, v.Config, want.Config) || v.Cadence != want.Cadence || v.Priority != want.Priority || v.RetryBudget != want.RetryBudget || !maps.Equal(v.Labels, want.Labels) {
				t.Errorf("%s: %+v with %s, want %+v", c.patch, v.Account, v.Config, want)
			}
		}
		for patch, fields := range map[string]string{
			`[]`:                          "record",
			`{`:                           "record",
			`{"colour":null}`:             "colour",
			`{"id":"b","state":{},"x":1}`: "id state x",
			`{"id":null,"kind":null}`:     "id kind",
			`{"cadence":"never","retry_budget":0,"labels":{"a":1}}`: "cadence labels.a retry_budget",
			`{"kind":"web","config":{"key":"bad"}}`:                 "config.key",
			`{"config":{"a":1,"a":2}}`:                              "config.a",
			`{"kind":"nothing"}`:                                    "kind",
		} {
			var faults Faults
			if _, _, err := r.Patch(ctx, "a", []byte(patch), Match{}); !errors.As(err, &faults) {
				t.Errorf("%s: %v", patch, err)
				continue
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Field)
			}
			if slices.Sort(got); strings.Join(got, " ") != fields {
				t.Errorf("%s: faults of %q, want %q", patch, got, fields)
			}
		}
		if _, _, err := r.Patch(ctx, "b", []byte(`{}`), Match{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("patch of what is not there: %v", err)
		}
		if _, _, err := r.Patch(ctx, "a", []byte(`{"cadence":"every 9m"}`), Match{Tags: []string{"0-0"}}); !errors.Is(err, ErrChanged) {
			t.Errorf("patch of another revision: %v", err)
		}
		// After a change of the kind, the account has no cursor, because the new kind could not
		// read it.
		returnClaim(t, ring, circulate.Return{Claim: claimAll(t, ring)["a"], Cursor: []byte("c")})
		if _, _, err := r.Patch(ctx, "a", []byte(`{"kind":"web"}`), Match{}); err != nil {
			t.Fatal(err)
		}
		if c := claimAll(t, ring)["a"]; c == nil || c.Cursor != nil {
			t.Errorf("after a change of kind: %+v", c)
		}
	})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	for text, into := range map[*[]byte]*any{&a: &x, &b: &y} {
		d := json.NewDecoder(bytes.NewReader(*text))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			t.Fatalf("%s: %v", *text, err)
		}
	}
	return reflect.DeepEqual(x, y)
}

// Many patches of one account at once, each of its own label: all of them are applied, and
// each one makes a revision.
func TestPatchesAtOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, _ := newRegistry(t, server, 1)
		if _, err := r.Create(ctx, Account{ID: "a", Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
		const writers, each = 8, 4
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					for {
						_, _, err := r.Patch(ctx, "a", fmt.Appendf(nil, `{"labels":{"w%d":"%d"}}`, w, n), Match{})
						if err == nil {
							break
						}
						if !errors.Is(err, ErrContended) {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
		v, err := r.Get(ctx, "a")
		if err != nil || len(v.Labels) != writers || v.Revision.Number != 1+writers*each {
			t.Errorf("%d labels, revision %d, %v", len(v.Labels), v.Revision.Number, err)
		}
		for name, value := range v.Labels {
			if value != fmt.Sprint(each-1) {
				t.Errorf("%s=%s", name, value)
			}
		}
	})
}

// An import and a patch run at once. The second write builds on the first.
func TestImportKeepsRevisions(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 1)
		lines := `{"id":"a","kind":"plain"}` + "\n" + `{"id":"a","kind":"plain","cadence":"every 9m"}` + "\n" + `{"id":"b","kind":"plain"}` + "\n"
		s, err := r.Import(ctx, strings.NewReader(lines), noBadLines(t))
		if want := (Summary{Lines: 3, Created: 2, Updated: 1, Repeated: 1}); err != nil || s != want {
			t.Fatalf("%+v, %v", s, err)
		}
		a, err := r.Get(ctx, "a")
		if err != nil || a.Revision.Number != 2 || a.Revision.Created.IsZero() {
			t.Errorf("a: %+v, %v", a.Revision, err)
		}
		// An account that changed after the look is read again.
		w := newBatchWriter(ctx, r, Importing{From: BeginBackfill})
		b := &batch{shard: 0}
		b.add(imported{Account: Account{ID: "a", Kind: "plain", Cadence: "every 8m"}}, []byte(`{"id":"a","kind":"plain","cadence":"every 8m"}`))
		items, places, _, err := w.changes(b)
		if err != nil || len(items) != 1 || places[0] != 0 {
			t.Fatal(items, err)
		}
		if _, _, err := r.Patch(ctx, "a", []byte(`{"labels":{"by":"patch"}}`), Match{}); err != nil {
			t.Fatal(err)
		}
		if outcomes, err := ring.Upsert(ctx, 0, items); err != nil || outcomes[0] != circulate.Differs {
			t.Errorf("%c, %v", outcomes, err)
		}
		if err := errors.Join(w.write(b), w.close(nil)); err != nil || w.updated != 1 {
			t.Errorf("%d updated, %v", w.updated, err)
		}
		if a, err = r.Get(ctx, "a"); err != nil || a.Revision.Number != 4 || a.Cadence != "every 8m" {
			t.Errorf("a: %+v, %v", a, err)
		}
		var exported bytes.Buffer
		if _, err := r.export(ctx, Selector{}, &exported); err != nil || strings.Contains(exported.String(), "revision") {
			t.Errorf("%s, %v", exported.String(), err)
		}
	})
}

func TestBeginFromNow(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 1)
		before, err := ring.Now(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Save(ctx, Account{ID: "new", Kind: "plain"}, Save{New: true, From: BeginNow}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Save(ctx, Account{ID: "put", Kind: "plain"}, Save{From: BeginNow}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ImportWith(ctx, strings.NewReader(`{"id":"imported","kind":"plain","cadence":"every 0"}`), Importing{From: BeginNow, Bad: noBadLines(t)}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Save(ctx, Account{ID: "all", Kind: "plain"}, Save{From: BeginBackfill}); err != nil {
			t.Fatal(err)
		}
		claims := claimAll(t, ring)
		for id, now := range map[string]bool{"new": true, "put": true, "imported": true, "all": false} {
			if c := claims[id]; c == nil || read(t, c.State).SkipBefore.IsZero() == now || now && read(t, c.State).SkipBefore.Before(before.Truncate(time.Millisecond)) {
				t.Errorf("%s: %+v", id, c)
			}
		}
		// An account that exists continues where it is.
		if _, _, err := r.Save(ctx, Account{ID: "all", Kind: "plain", Cadence: "every 9m"}, Save{From: BeginNow}); err != nil {
			t.Fatal(err)
		}
		if c := claimAll(t, ring)["all"]; c == nil || c.State != "" {
			t.Errorf("all: %+v", c)
		}
		if _, _, err := r.Save(ctx, Account{ID: "x", Kind: "plain"}, Save{From: "then"}); err == nil {
			t.Error("from then was accepted")
		}
	})
}
