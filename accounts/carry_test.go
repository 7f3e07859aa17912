package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// An account that is exported with its state from one namespace continues in another.
func TestStateGoesAlong(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		there := func(namespace string) (*Registry, *circulate.Ring) {
			ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: namespace, Shards: 3})
			if err != nil {
				t.Fatal(err)
			}
			return NewRegistry(ring, testKinds{}), ring
		}
		old, oldRing := there("old")
		cursors := map[string][]byte{
			"never": nil, "short": []byte("c"), "long": bytes.Repeat([]byte(`<"\&>ü`), 3000), "binary": {0, 255, 10, '|'}, "control": []byte("a\nb\x00"),
			"failing": []byte("f"), "paused": []byte("p"), "gone": bytes.Repeat([]byte{0xfe}, 300), "once": []byte("o"), "skips": []byte("s"),
		}
		for id := range cursors {
			a := Account{ID: id, Kind: "plain", Cadence: "every 10m", Labels: map[string]string{"x": id}}
			if id == "once" {
				now, err := oldRing.Now(ctx, 0)
				if err != nil {
					t.Fatal(err)
				}
				a.Cadence = "at " + now.Add(2*time.Second).UTC().Format(time.RFC3339)
			}
			if _, err := old.Create(ctx, a); err != nil {
				t.Fatal(err)
			}
		}
		if err := oldRing.Account("once").Nudge(ctx, circulate.Nudge{}); err != nil {
			t.Fatal(err)
		}
		claims := claimAll(t, oldRing)
		for id, cursor := range cursors {
			item := circulate.Return{Claim: claims[id], Kind: "plain", Cursor: cursor, Due: time.Now().Add(time.Hour), Mark: circulate.MarkOK}
			switch id {
			case "never":
				continue
			case "failing":
				item.Failures, item.State, item.Mark, item.Error = 3, "r2@1700000000000", 't', "timeout: x"
			case "gone":
				item.Failures, item.Park = 4, "gone: 410 \"x\"\nand more"
			case "once":
				item.Park = "finished: it was to be checked once"
			case "skips":
				item.State = Memory{SkipBefore: time.UnixMilli(1_700_000_000_000), Cadence: cadence.State{Interval: time.Minute}}.Encode()
			}
			returnClaim(t, oldRing, item)
		}
		if _, err := old.Pause(ctx, "paused"); err != nil {
			t.Fatal(err)
		}

		var lines bytes.Buffer
		done, err := old.ExportWith(ctx, Exporting{State: true}, &lines)
		if err != nil || done.Accounts != len(cursors) {
			t.Fatalf("%+v, %v", done, err)
		}
		// A reader that does not know states refuses the field by its name.
		var faults Faults
		if _, err := decode(lines.Bytes()[:bytes.IndexByte(lines.Bytes(), '\n')]); !errors.As(err, &faults) || faults[0].Field != "state" {
			t.Errorf("decoded without states: %v", err)
		}
		fresh, freshRing := there("new")
		for round, want := range []Summary{{Lines: len(cursors), Created: len(cursors)}, {Lines: len(cursors), Unchanged: len(cursors)}} {
			s, err := fresh.Import(ctx, bytes.NewReader(lines.Bytes()), noBadLines(t))
			if err != nil || s != want {
				t.Fatalf("import %d: %+v, %v", round, s, err)
			}
		}
		var again bytes.Buffer
		if _, err := fresh.ExportWith(ctx, Exporting{State: true}, &again); err != nil {
			t.Fatal(err)
		}
		sorted := func(b []byte) []string { return slices.Sorted(strings.Lines(string(b))) }
		if before, after := sorted(lines.Bytes()), sorted(again.Bytes()); !slices.Equal(before, after) {
			t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, ""), strings.Join(after, ""))
		}
		for id, cursor := range cursors {
			was, err := old.Get(ctx, id)
			is, freshErr := fresh.Get(ctx, id)
			if err := errors.Join(err, freshErr); err != nil {
				t.Fatal(err)
			}
			if is.State.Reason != was.State.Reason || is.State.Failures != was.State.Failures || !is.State.Since.Equal(was.State.Since) && was.State.Place == circulate.Parked {
				t.Errorf("%s was %+v and is %+v", id, was.State, is.State)
			}
			if parked := id == "paused" || id == "gone" || id == "once"; parked != (is.State.Place == circulate.Parked) {
				t.Errorf("%s is %s", id, is.State.Place)
			}
			// Its next check begins from the cursor that came with it.
			if err := freshRing.Account(id).Resume(ctx, circulate.Resumption{}); err != nil {
				t.Fatal(err)
			}
			if err := freshRing.Account(id).Nudge(ctx, circulate.Nudge{}); err != nil {
				t.Fatal(err)
			}
			if c := claimAll(t, freshRing)[id]; c == nil || !bytes.Equal(c.Cursor, cursor) || id == "skips" && (read(t, c.State).SkipBefore.IsZero() || !strings.HasSuffix(c.State, " i60000")) {
				t.Errorf("%s is claimed as %+v", id, c)
			}
		}
	})
}

func TestStateOfOneThatIsThere(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 1)
	if _, err := r.Create(ctx, Account{ID: "a", Kind: "plain"}); err != nil {
		t.Fatal(err)
	}
	returnClaim(t, ring, circulate.Return{Claim: claimAll(t, ring)["a"], Cursor: []byte("own")})
	line := `{"id":"a","kind":"plain","cadence":"every 9m","state":{"cursor":"other","parked":"paused"}}`
	if s, err := r.Import(ctx, strings.NewReader(line), noBadLines(t)); err != nil || s.Updated != 1 {
		t.Fatal(s, err)
	}
	if err := ring.Account("a").Nudge(ctx, circulate.Nudge{}); err != nil {
		t.Fatal(err)
	}
	if c := claimAll(t, ring)["a"]; c == nil || string(c.Cursor) != "own" {
		t.Errorf("%+v", c)
	}
	// A finished account that arrives parked is accepted, though its time is past.
	over := `{"id":"over","kind":"plain","cadence":"at 2001-01-01T00:00:00Z"`
	if s, err := r.Import(ctx, strings.NewReader(over+`,"state":{"parked":"finished: x"}}`), noBadLines(t)); err != nil || s.Created != 1 {
		t.Error(s, err)
	}
	if v, err := r.Get(ctx, "over"); err != nil || v.State.Place != circulate.Parked || v.State.Reason != "finished: x" {
		t.Errorf("%+v, %v", v.State, err)
	}
	if s, err := r.Import(ctx, strings.NewReader(strings.Replace(over, "over", "other", 1)+`,"state":{}}`), func(BadLine) error { return nil }); err != nil || s.Failed != 1 {
		t.Error(s, err)
	}
}

func TestBadStates(t *testing.T) {
	for state, fields := range map[string]string{
		`null`: "state", `[]`: "state", `"x"`: "state",
		`{"place":"parked","due":1}`:                                               "state.due state.place",
		`{"cursor":1,"failures":-1,"parked":"","parked_since":"then"}`:             "state.cursor state.failures state.parked state.parked_since",
		`{"cursor_base64":"?","cadence_state":"ix","failures":1.5}`:                "state.cadence_state state.cursor_base64 state.failures",
		fmt.Sprintf(`{"cursor":%q}`, strings.Repeat("x", maxCursor+1)):             "state.cursor",
		`{"parked_since":"2030-12-01T09:00:00Z","cursor":"a","cursor":"b"}`:        "state.cursor",
		`{"cadence_state":"` + strings.Repeat("i1 ", 200) + `","failures":"many"}`: "state.cadence_state state.failures",
	} {
		_, _, err := readLine([]byte(`{"id":"a","kind":"plain","state":`+state+`}`), testKinds{})
		var faults Faults
		if !errors.As(err, &faults) {
			t.Errorf("%.60s: %v", state, err)
			continue
		}
		var got []string
		for _, f := range faults {
			got = append(got, f.Field)
		}
		if slices.Sort(got); strings.Join(got, " ") != fields {
			t.Errorf("%.60s: faults of %q, want %q", state, got, fields)
		}
	}
	// A version that ignores revisions may have written this line.
	if a, _, err := readLine([]byte(`{"id":"a","kind":"plain","revision":[1,2,3]}`), testKinds{}); err != nil || a.ID != "a" {
		t.Errorf("with a revision: %+v, %v", a, err)
	}
	for _, line := range []string{`{"id":"a","kind":"plain","revision":1}`, `{"id":"a","kind":"plain","revision":null}`} {
		if _, _, err := readLine([]byte(line), testKinds{}); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
	if _, err := decode([]byte(`{"id":"a","kind":"plain","revision":[1,2,3]}`)); err == nil {
		t.Error("a record with a revision was taken")
	}
	if _, begin, err := readLine([]byte(`{"id":"a","kind":"plain","state":{}}`), testKinds{}); err != nil || begin == nil {
		t.Errorf("an empty state: %+v, %v", begin, err)
	}
}
