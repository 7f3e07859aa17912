package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScheduleComesFromTheSeed(t *testing.T) {
	all := allFaults(true)
	names := func(seed uint64) []string {
		var names []string
		for _, f := range schedule(seed, onServer, all, 2) {
			names = append(names, f.name)
		}
		return names
	}
	if !slices.Equal(names(7), names(7)) || slices.Equal(names(7), names(8)) {
		t.Error("a schedule is not its seed's")
	}
	isControl := func(name string) bool { return name == controlName }
	drawn := names(7)
	controls := len(drawn) - len(slices.DeleteFunc(slices.Clone(drawn), isControl))
	if controls != 2*mostControls || !isControl(drawn[len(drawn)-1]) {
		t.Errorf("%d controls among %d turns", controls, len(drawn))
	}
	first := slices.DeleteFunc(drawn, isControl)[:len(all)]
	slices.Sort(first)
	if len(slices.Compact(first)) != len(all) {
		t.Error("a fault comes twice before others came once, or two have one name")
	}
	if only := schedule(7, onCluster, nil, 1); len(only) != 1 || only[0].on != onCluster {
		t.Errorf("without faults there are %d turns", len(only))
	}
}

func TestReportFailsOnViolations(t *testing.T) {
	f := &fault{name: "f", sign: sign{name: "m"}}
	turns := []*turn{{fault: f, injected: at(10)}, {fault: f, injected: at(20), faults: []string{"x"}}}
	r := summarize(turns, verdict{violations: []violation{{at(15), "y"}, {at(5), "z"}, {time.Time{}, "w"}}}, nil)
	var out strings.Builder
	if err := r.markdown(&out); err != nil {
		t.Fatal(err)
	}
	if r.failed() != 4 || len(r.Violations) != 2 || !strings.Contains(out.String(), "VIOLATED") {
		t.Errorf("got %d: %s", r.failed(), out.String())
	}
}

// TestSignThatMovesInAControlIsNone has a sign move both in a fault and in a control of
// the run, and another sign in the fault alone.
func TestSignThatMovesInAControlIsNone(t *testing.T) {
	noisy, clear := &fault{name: "noisy", sign: sign{name: "m"}}, &fault{name: "clear", sign: sign{name: "n"}}
	r := summarize([]*turn{{fault: noisy, seen: true}, {fault: clear, seen: true}, {fault: control(onServer), moved: []string{"m"}}}, verdict{}, nil)
	if r.failed() != 1 || len(r.Rows[1].Faults) != 1 || r.Rows[1].Seen != 0 || r.Rows[0].Seen != 1 {
		t.Errorf("%+v and %+v", r.Rows[0], r.Rows[1])
	}
}

func TestSum(t *testing.T) {
	const text = "# HELP a b\nrounds_a{x=\"1\",y=\"2\"} 3\nrounds_a{x=\"2\"} 4\nrounds_ab 5\nrounds_b 6e+00\n"
	if got := sum(text, "rounds_a", nil); got != 7 {
		t.Errorf("got %v", got)
	}
	if got := sum(text, "rounds_a", []string{`x="1"`}); got != 3 {
		t.Errorf("got %v", got)
	}
	if got := sum(text, "rounds_b", nil); got != 6 {
		t.Errorf("got %v", got)
	}
}

func TestSigns(t *testing.T) {
	shows := func(n string) page { return page{roleAPI, "rounds_a " + n + "\n"} }
	before := snapshot{pages: map[string]page{"api-0#0": shows("3")}}
	for _, c := range []struct {
		sign  sign
		now   map[string]page
		shown bool
	}{
		{counter(roleAPI, "rounds_a"), map[string]page{"api-0#0": shows("3")}, false},
		{counter(roleAPI, "rounds_a"), map[string]page{"api-0#0": shows("4")}, true},
		{counter(roleAPI, "rounds_a"), map[string]page{"api-0#0": shows("1")}, false},
		{counter(roleAPI, "rounds_a"), map[string]page{"api-0#1": shows("1")}, true},
		{counter(rolePoller, "rounds_a"), map[string]page{"api-0#0": shows("4")}, false},
		{counter("", "rounds_a"), map[string]page{"api-0#0": shows("4")}, true},
		{counter("", "rounds_a").times(2), map[string]page{"api-0#0": shows("4")}, false},
		{counter("", "rounds_a").times(2), map[string]page{"api-0#0": shows("4"), "api-1#0": shows("1")}, true},
		{counter("", "rounds_a"), nil, false},
	} {
		if got := c.sign.shown(before, snapshot{pages: c.now}); got != c.shown {
			t.Errorf("%s at %v: %v", c.sign.name, c.now, got)
		}
	}
}

// TestPageIsDrawnFromTheReport draws the page between the marks, from a saved report.
func TestPageIsDrawnFromTheReport(t *testing.T) {
	dir := t.TempDir()
	saved, into := filepath.Join(dir, "report.json"), filepath.Join(dir, "page.md")
	f := &fault{name: "broken", on: onServer, invariant: "I1", sign: sign{name: "rounds_m"}}
	r := &report{Seed: 42, Commit: "0123456789abcdef", Began: at(0), Machine: machine{Redis: "7.0.15"}}
	r.add(summarize([]*turn{
		{fault: f, done: true, seen: true, injected: at(0), healed: at(3000), was: recovery{hit: 7, interrupted: 5, longest: 4 * time.Second, afterInjection: 3500 * time.Millisecond, afterEnd: 500 * time.Millisecond}},
		{fault: control(onServer), done: true, was: recovery{hit: 9, longest: 2 * time.Second}},
	}, verdict{}, nil))
	if err := r.save(saved); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(into, []byte("before\n"+pageBegin+"old\n"+pageEnd+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	if err := draw(saved, "", &printed); err != nil {
		t.Fatal(err)
	}
	if err := draw(saved, into, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(into)
	if err != nil || string(text) != "before\n"+pageBegin+printed.String()+pageEnd+"after\n" {
		t.Fatalf("%s, %v", text, err)
	}
	for _, part := range []string{
		"Seed 42 at commit 0123456789ab, 1970-01-01", "No violation",
		"| broken | server | 1 | I1 | held | 3.0 s | 7 | 5 | 4.0 (2.0) s | 3.5 s | 0.5 s | `rounds_m` |",
		"| control | server | 1 | I1 I6 | held | 0.0 s | 9 | 0 | 2.0 (2.0) s | - | - | - |",
		"at 90 % of the usual rate",
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the page has no %q:\n%s", part, text)
		}
	}
	if err := draw(saved, saved, nil); err == nil {
		t.Error("a page was put where there is no place for it")
	}
}

// TestReadmeHasTheRun compares the page of testing/README.md with the report that is kept
// beside it: a whole run without violations.
func TestReadmeHasTheRun(t *testing.T) {
	const page = "../README.md"
	r, err := readReport("report.json")
	if err != nil {
		t.Fatal(err)
	}
	if r.Modified || r.Commit == "" || r.failed() > 0 {
		t.Errorf("the run was of commit %q, with changes %v, and has %d violations", r.Commit, r.Modified, r.failed())
	}
	kept, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	drawn := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(drawn, kept, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := draw("report.json", drawn, nil); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(drawn); err != nil || string(text) != string(kept) {
		t.Errorf("%s is not drawn from report.json: go run -C testing/chaos . --draw report.json --into ../README.md; %v", page, err)
	}
}
