package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

// The checker itself is tried on histories of which it is known what is wrong.
func TestOverlapping(t *testing.T) {
	history := func(second check) []check {
		return []check{second, {account: "b", began: at(0), ended: at(5000)}, {account: "a", began: at(1000), ended: at(2000)}}
	}
	for _, c := range []struct {
		name   string
		second check
		spans  []span
		faults int
		lawful int
	}{
		{"one after the other", check{account: "a", began: at(2000), ended: at(2500)}, nil, 0, 0},
		{"overlapping", check{account: "a", began: at(1999), ended: at(2500)}, nil, 1, 0},
		{"within", check{account: "a", began: at(1100), ended: at(1200)}, nil, 1, 0},
		{"with a straggler", check{account: "a", began: at(1100), ended: at(2500)}, []span{{from: at(0), to: at(1100)}}, 0, 1},
		{"with a straggler at another time", check{account: "a", began: at(1100), ended: at(2500)}, []span{{from: at(0), to: at(1000)}}, 1, 0},
		{"cut, and seen late", check{account: "a", began: at(900), ended: at(1100), cut: true}, nil, 0, 0},
		{"cut, but long before", check{account: "a", began: at(900), ended: at(1300), cut: true}, nil, 1, 0},
	} {
		faults, lawful := overlapping(history(c.second), c.spans)
		if len(faults) != c.faults || lawful != c.lawful {
			t.Errorf("%s: got %v and %d", c.name, faults, lawful)
		}
	}
}

func TestFollow(t *testing.T) {
	type ops = []operation
	op := func(kind string, outcome outcome, status, ended int) operation {
		return operation{kind: kind, account: "a", outcome: outcome, status: status, ended: at(ended)}
	}
	racing := op(register, done, 201, 2)
	racing.racing = true
	for _, c := range []struct {
		name  string
		ops   ops
		lost  []span
		want  standing
		fault bool
	}{
		{"registered", ops{op(register, done, 201, 1)}, nil, active, false},
		{"not for certain", ops{op(register, unknown, 0, 1)}, nil, absent | active, false},
		{"for certain not", ops{op(register, refused, 0, 1)}, nil, absent, false},
		{"paused", ops{op(register, done, 201, 1), op(pause, done, 200, 2)}, nil, paused, false},
		{"perhaps paused", ops{op(register, done, 201, 1), op(pause, unknown, 503, 2)}, nil, active | paused, false},
		{"resumed", ops{op(register, done, 201, 1), op(pause, unknown, 503, 2), op(resume, done, 200, 3)}, nil, active, false},
		{"nudged, though it may be paused", ops{op(register, done, 201, 1), op(pause, unknown, 503, 2), op(nudge, refused, 409, 3)}, nil, paused, false},
		{"deregistered", ops{op(register, done, 201, 1), op(deregister, done, 204, 2)}, nil, absent, false},
		{"perhaps deregistered", ops{op(register, done, 201, 1), op(deregister, unknown, 0, 2)}, nil, absent | active, false},
		{"seen to be gone", ops{op(register, done, 201, 1), op(deregister, unknown, 0, 2), op(pause, refused, 404, 3)}, nil, absent, false},
		{"registered twice", ops{op(register, done, 201, 1), op(register, done, 201, 2)}, nil, absent | active | paused, true},
		{"lost at once", ops{op(register, done, 201, 1), op(pause, refused, 404, 2)}, nil, absent | active | paused, true},
		{"raced", ops{op(register, done, 201, 1), racing, op(deregister, done, 204, 3)}, nil, absent, false},
		{"before what was lost", ops{op(register, done, 201, 1)}, []span{{from: at(2), to: at(3)}}, active, false},
		{"lost", ops{op(register, done, 201, 2)}, []span{{from: at(2), to: at(3)}}, absent | active, false},
		{"two lost", ops{op(register, done, 201, 1), op(pause, done, 200, 2), op(deregister, done, 204, 3)}, []span{{from: at(2), to: at(3)}}, absent | active | paused, false},
		{"seen to be lost too early", ops{op(register, done, 201, 2), op(pause, refused, 404, 3)}, []span{{from: at(2), to: at(3)}}, absent | active | paused, true},
		{"seen by another server", ops{op(register, done, 201, 2), op(pause, refused, 404, 3)}, []span{{at(2), at(3), true}}, absent | active, false},
		{"certain again, though torn before", ops{op(register, done, 201, 2), op(deregister, refused, 404, 4), op(pause, done, 200, 5)}, []span{{at(2), at(3), true}}, absent | active | paused, true},
		{"certain again", ops{op(register, done, 201, 2), op(deregister, done, 204, 4)}, []span{{from: at(2), to: at(3)}}, absent, false},
	} {
		f := follow(c.ops, c.lost)["a"]
		if f.standing != c.want || (f.violation != nil) != c.fault {
			t.Errorf("%s: got %v and %v, want %v", c.name, f.standing, f.violation, c.want)
		}
	}
}

func TestCensusFaults(t *testing.T) {
	for _, c := range []struct {
		places        []string
		reason        string
		running, lies bool
	}{
		{[]string{"schedule"}, "", false, false},
		{[]string{"parked"}, "paused", false, false},
		{[]string{"parked"}, "", false, true},
		{nil, "", true, true},
		{[]string{"message_queue", "message_queue"}, "", true, false},
		{[]string{"message_queue", "message_queue"}, "", false, true},
		{[]string{"processing_list", "message_queue"}, "", true, true},
		{[]string{"processing_list", "processing_list"}, "", true, true},
	} {
		found := census{places: map[string][]string{"a": c.places}, reasons: map[string]string{"a": c.reason}}.faults(c.running)
		if (len(found) > 0) != c.lies {
			t.Errorf("%v: got %v", c.places, found)
		}
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

func TestScheduleComesFromTheSeed(t *testing.T) {
	names := func(seed uint64) []string {
		var names []string
		for _, f := range schedule(seed, allFaults(true), 200) {
			names = append(names, f.name)
		}
		return names
	}
	if !slices.Equal(names(7), names(7)) || slices.Equal(names(7), names(8)) {
		t.Error("a schedule is not its seed's")
	}
	all := allFaults(true)
	first := names(7)[:len(all)]
	slices.Sort(first)
	if len(slices.Compact(first)) != len(all) {
		t.Error("a fault comes twice before others came once, or two have one name")
	}
}

func TestReportFailsOnViolations(t *testing.T) {
	f := &fault{name: "f", sign: sign{name: "m"}}
	turns := []*turn{{fault: f, injected: at(10)}, {fault: f, injected: at(20), faults: []string{"x"}}}
	r := summarize(turns, verdict{violations: []violation{{at(15), "y"}, {at(5), "z"}, {time.Time{}, "w"}}})
	var out strings.Builder
	if err := r.write(&out, false); err != nil {
		t.Fatal(err)
	}
	if r.failed() != 4 || len(r.Violations) != 2 || !strings.Contains(out.String(), "VIOLATED") {
		t.Errorf("got %d: %s", r.failed(), out.String())
	}
}
