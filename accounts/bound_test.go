package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// teams returns a registry, and the same registry bound to the team press. It has accounts of
// two teams, one without a team, and one that cannot be read.
func teams(t *testing.T) (all, press *Registry, ring *circulate.Ring) {
	t.Helper()
	all, ring = newRegistry(t, redistest.Embedded(t), 4)
	for id, labels := range map[string]map[string]string{
		"p1": {"team": "press"}, "p2": {"team": "press", "env": "test"}, "p3": {"team": "press"},
		"s1": {"team": "sales"}, "s2": {"team": "sales", "env": "test"}, "none": nil, "other": {"Team": "press"},
	} {
		if _, err := all.Create(t.Context(), Account{ID: id, Kind: "plain", Labels: labels}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ring.Account("torn").Register(t.Context(), circulate.Registration{Record: []byte(`{"id":"torn","labels":{"team":"press"}`)}); err != nil {
		t.Fatal(err)
	}
	return all, all.Bound(access.Labels{"team": "press"}), ring
}

func TestBoundToNothingIsNotBound(t *testing.T) {
	all, press, _ := teams(t)
	if all.Bound(nil) != all || all.Bound(access.Labels{}) != all || press == all {
		t.Error("without labels it must be the same registry")
	}
	labels := access.Labels{"team": "press"}
	bound := all.Bound(labels)
	labels["team"] = "sales"
	if _, err := bound.Get(t.Context(), "p1"); err != nil {
		t.Errorf("the labels changed with the caller's: %v", err)
	}
}

// A bound registry does not show other teams' accounts, and nothing done through it
// changes them.
func TestOthersAccountsAreNotThere(t *testing.T) {
	all, press, ring := teams(t)
	ctx := t.Context()
	steps := map[string]func(id string) error{
		"get":     func(id string) error { _, err := press.Get(ctx, id); return err },
		"explain": func(id string) error { _, err := press.Explain(ctx, id); return err },
		"pause":   func(id string) error { _, err := press.Pause(ctx, id); return err },
		"resume":  func(id string) error { _, err := press.Resume(ctx, id); return err },
		"resume from": func(id string) error {
			_, err := press.ResumeFrom(ctx, id, ResumeBackfill)
			return err
		},
		"nudge": func(id string) error { _, err := press.Nudge(ctx, id, Nudge{}); return err },
		"put": func(id string) error {
			_, _, err := press.Put(ctx, Account{ID: id, Kind: "plain", Labels: map[string]string{"team": "press"}})
			return err
		},
		"patch": func(id string) error {
			_, _, err := press.Patch(ctx, id, []byte(`{"labels":{"team":"press"}}`), Match{})
			return err
		},
		"delete":    func(id string) error { return press.Delete(ctx, id) },
		"delete if": func(id string) error { return press.DeleteIf(ctx, id, Match{Any: true}) },
	}
	for _, id := range []string{"s1", "s2", "none", "other", "torn", "absent"} {
		before, _ := ring.Account(id).Look(ctx)
		for name, step := range steps {
			if id == "absent" && name == "put" {
				continue
			}
			if err := step(id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s %s: %v", name, id, err)
			}
		}
		after, _ := ring.Account(id).Look(ctx)
		if !bytes.Equal(before.Record, after.Record) || before.Place != after.Place || !before.Due.Equal(after.Due) {
			t.Errorf("%s: %+v became %+v", id, before, after)
		}
	}
	for name, step := range steps {
		if _, _, err := all.Put(ctx, Account{ID: "p1", Kind: "plain", Labels: map[string]string{"team": "press"}}); err != nil {
			t.Fatal(err)
		}
		if err := step("p1"); err != nil && !(name == "nudge" && errors.Is(err, ErrParked)) {
			t.Errorf("%s of one of theirs: %v", name, err)
		}
	}
}

// No account is created without the labels of the binding, or loses one of them.
func TestLabelsAreKept(t *testing.T) {
	_, press, _ := teams(t)
	ctx := t.Context()
	wants := func(what string, err error, reason string) {
		t.Helper()
		var faults Faults
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != "labels.team" || !strings.Contains(faults[0].Reason, reason) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := press.Read(ctx, "", []byte(`{"id":"new","kind":"plain"}`))
	wants("read", err, `is missing, and must be "press": access is bound to accounts with team=press`)
	_, err = press.Read(ctx, "", []byte(`{"id":"new","kind":"plain","labels":{"team":"sales"}}`))
	wants("read", err, `must be "press"`)
	_, err = press.Create(ctx, Account{ID: "new", Kind: "plain", Labels: map[string]string{"env": "test"}})
	wants("create", err, "is missing")
	_, _, err = press.Put(ctx, Account{ID: "p1", Kind: "plain"})
	wants("put", err, "is missing")
	for _, patch := range []string{`{"labels":null}`, `{"labels":{"team":null}}`, `{"labels":{"team":"sales"}}`} {
		_, _, err = press.Patch(ctx, "p1", []byte(patch), Match{})
		wants(patch, err, `must be "press"`)
	}
	// All faults are returned at once. A text that is not a record has only that fault.
	_, err = press.Read(ctx, "", []byte(`{"id":"","kind":"plain"}`))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 2 {
		t.Errorf("two faults: %v", err)
	}
	if _, err = press.Read(ctx, "", []byte(`[]`)); !errors.As(err, &faults) || len(faults) != 1 {
		t.Errorf("no object: %v", err)
	}
	if _, _, err := press.Patch(ctx, "p1", []byte(`{"labels":{"env":"live"},"cadence":"every 5m"}`), Match{}); err != nil {
		t.Errorf("another label: %v", err)
	}
	if _, err := press.Create(ctx, Account{ID: "new", Kind: "plain", Labels: map[string]string{"team": "press"}}); err != nil {
		t.Errorf("with the label: %v", err)
	}
	if _, err := press.Create(ctx, Account{ID: "s1", Kind: "plain", Labels: map[string]string{"team": "press"}}); !errors.Is(err, ErrExists) {
		t.Errorf("an id of others: %v", err)
	}
}

// Lists, exports and counts have only the accounts of the binding, whatever else is asked
// for.
func TestOnlyTheirOwnAreTold(t *testing.T) {
	all, press, _ := teams(t)
	ctx := t.Context()
	list := func(s Selector) []string {
		t.Helper()
		var ids []string
		for q := (Query{Limit: 2, Selector: s}); ; {
			page, err := press.List(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range page.Views {
				ids = append(ids, v.ID)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				slices.Sort(ids)
				return ids
			}
		}
	}
	for _, c := range []struct {
		s    Selector
		want string
	}{
		{Selector{}, "[p1 p2 p3]"},
		{Selector{Labels: map[string]string{"env": "test"}}, "[p2]"},
		{Selector{Labels: map[string]string{"team": "sales"}}, "[]"},
		{Selector{Prefixes: []string{"s", "p1"}}, "[p1]"},
		{Selector{States: []string{StateActive}}, "[p1 p2 p3]"},
		{Selector{States: []string{string(circulate.Scheduled)}}, "[p1 p2 p3]"},
	} {
		if got := fmt.Sprint(list(c.s)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.s, got, c.want)
		}
		for _, state := range []bool{false, true} {
			var out bytes.Buffer
			done, err := press.ExportWith(ctx, Exporting{Selector: c.s, State: state}, &out)
			if err != nil || done.Accounts != strings.Count(c.want, "p") || strings.Contains(out.String(), "sales") || strings.Contains(out.String(), "none") {
				t.Errorf("export %+v: %+v, %v: %s", c.s, done, err, &out)
			}
		}
	}
	for _, id := range []string{"p1", "s1", "none"} {
		if _, err := all.Pause(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	page, err := press.Parked(ctx, ParkedQuery{})
	if err != nil || len(page.Accounts) != 1 || page.Accounts[0].ID != "p1" {
		t.Errorf("parked: %+v, %v", page, err)
	}
	s, err := press.Stats(ctx)
	if err != nil || s.Registered != 3 || s.Scheduled != 2 || s.Parked != 1 || s.Messages != 0 || s.Replicas != nil || s.Processes != nil {
		t.Errorf("stats: %+v, %v", s, err)
	}
	if s.Staleness == nil || s.Staleness.Scanned != 2 || s.Staleness.ParkedExcluded != 1 || !strings.HasPrefix(s.Staleness.Stalest, "p") || s.Failing == nil || s.Failing.Accounts != 0 {
		t.Errorf("staleness: %+v, failing: %+v", s.Staleness, s.Failing)
	}
	none, err := all.Bound(access.Labels{"team": "nobody"}).Stats(ctx)
	if err != nil || none.Registered != 0 || none.Staleness.Max != 0 {
		t.Errorf("stats of nobody: %+v, %v", none, err)
	}
}

// Bulk actions change only the accounts of the binding.
func TestOnlyTheirOwnAreChanged(t *testing.T) {
	all, press, _ := teams(t)
	ctx := t.Context()
	silent := func(Progress) error { return nil }
	parked := func(want ...string) {
		t.Helper()
		page, err := all.Parked(ctx, ParkedQuery{})
		var ids []string
		for _, a := range page.Accounts {
			ids = append(ids, a.ID)
		}
		if slices.Sort(ids); err != nil || !slices.Equal(ids, want) {
			t.Errorf("parked: %q, %v; want %q", ids, err, want)
		}
	}
	did, err := press.Bulk(ctx, Bulk{Action: PauseAll, All: true}, silent)
	if err != nil || did != (Progress{Seen: 3, Matched: 3, Changed: 3}) {
		t.Errorf("pause: %+v, %v", did, err)
	}
	parked("p1", "p2", "p3")
	for _, id := range []string{"s1", "none"} {
		if _, err := all.Pause(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, dry := range []bool{true, false} {
		back, err := press.Revive(ctx, Revival{IDs: []string{"p1", "s1", "none", "absent", "s1"}, DryRun: dry})
		if err != nil || back.Revived != 1 || back.NotFound != 3 || back.Skipped != 0 {
			t.Errorf("revive by id: %+v, %v", back, err)
		}
	}
	back, err := press.Revive(ctx, Revival{Kind: "plain"})
	if err != nil || back.Revived != 0 || back.Skipped != 2 {
		t.Errorf("revive by kind: %+v, %v", back, err)
	}
	parked("none", "p2", "p3", "s1")
	back, err = press.Revive(ctx, Revival{Reason: "paused"})
	if err != nil || back.Revived != 2 || back.Skipped != 0 {
		t.Errorf("revive by reason: %+v, %v", back, err)
	}
	parked("none", "s1")
	if did, err = press.Bulk(ctx, Bulk{Action: ResumeAll, All: true}, silent); err != nil || did.Changed != 0 || did.Matched != 3 {
		t.Errorf("resume: %+v, %v", did, err)
	}
	if did, err = press.Bulk(ctx, Bulk{Action: DeleteAll, Selector: Selector{Prefixes: []string{"s", "p1", "n"}}}, silent); err != nil || did.Changed != 1 {
		t.Errorf("delete: %+v, %v", did, err)
	}
	if s, err := all.Stats(ctx); err != nil || s.Registered != 7 {
		t.Errorf("%d accounts are left, %v", s.Registered, err)
	}
}

// An import takes the accounts of the binding, and reports the lines of others.
func TestOnlyTheirOwnAreImported(t *testing.T) {
	all, press, _ := teams(t)
	ctx := t.Context()
	lines := strings.Join([]string{
		`{"id":"p1","kind":"plain","labels":{"team":"press"},"cadence":"every 9m"}`,
		`{"id":"s1","kind":"plain","labels":{"team":"press"}}`, // the id belongs to others
		`{"id":"n1","kind":"plain","labels":{"team":"press"}}`,
		`{"id":"n2","kind":"plain","labels":{"team":"sales"}}`,
		`{"id":"n3","kind":"plain"}`,
		`{"id":"p2","kind":"plain","labels":{"env":"test","team":"press"}}`,
		`{"id":"n1","kind":"plain","labels":{"team":"press"},"cadence":"every 9m"}`,
	}, "\n")
	var bad []BadLine
	done, err := press.Import(ctx, strings.NewReader(lines), func(b BadLine) error { bad = append(bad, b); return nil })
	slices.SortFunc(bad, func(a, b BadLine) int { return a.Line - b.Line })
	if err != nil || done.Lines != 7 || done.Created != 1 || done.Updated != 2 || done.Unchanged != 1 || done.Failed != 3 || done.Done() != 7 {
		t.Fatalf("%+v, %v", done, err)
	}
	for i, want := range []struct {
		line  int
		field string
	}{{2, "id"}, {4, "labels.team"}, {5, "labels.team"}} {
		if bad[i].Line != want.line || bad[i].Faults[0].Field != want.field || bad[i].ID == "" {
			t.Errorf("%+v", bad[i])
		}
	}
	if !strings.Contains(bad[0].Faults[0].Reason, "without team=press") {
		t.Errorf("%+v", bad[0])
	}
	if a, err := all.Get(ctx, "s1"); err != nil || a.Labels["team"] != "sales" {
		t.Errorf("s1: %+v, %v", a.Account, err)
	}
	stop := errors.New("enough")
	if _, err := press.Import(ctx, strings.NewReader(lines), func(b BadLine) error {
		if b.Line == 2 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Errorf("the report failed: %v", err)
	}
}

// A bound write does not overwrite a change that somebody else makes between its look and its
// write.
func TestAnAccountThatIsTakenMeanwhile(t *testing.T) {
	all, press, ring := teams(t)
	ctx := context.Background()
	sales := func(id string) {
		if _, _, err := all.Put(ctx, Account{ID: id, Kind: "plain", Labels: map[string]string{"team": "sales"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"p1", "late"} {
		changed := false
		_, _, err := press.save(ctx, id, Save{}, func(*circulate.View) (Account, []byte, error) {
			if !changed {
				changed = true
				sales(id) // after the look
			}
			a := Account{ID: id, Kind: "plain", Cadence: "every 9m", Labels: map[string]string{"team": "press"}}
			record, err := a.Encode()
			return a, record, err
		})
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
		if v, err := ring.Account(id).Look(ctx); err != nil || !strings.Contains(string(v.Record), "sales") {
			t.Errorf("%s: %s, %v", id, v.Record, err)
		}
	}
}
