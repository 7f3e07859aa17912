package main

import (
	"testing"
	"time"
)

// TestRecovered computes what a fault from 10 s to 13 s did to one account that is
// checked each second, from the times at which its good checks began.
func TestRecovered(t *testing.T) {
	for _, c := range []struct {
		name  string
		began []int // ms
		want  recovery
	}{
		{"nothing", []int{9500, 10500, 11500, 12500, 13500}, recovery{hit: 1, longest: time.Second}},
		{"stopped until its end", []int{8500, 9500, 13500, 14500}, recovery{hit: 1, interrupted: 1, longest: 4 * time.Second, afterInjection: 3500 * time.Millisecond, afterEnd: 500 * time.Millisecond}},
		{"back before its end", []int{9500, 12600, 13600}, recovery{hit: 1, interrupted: 1, longest: 3100 * time.Millisecond, afterInjection: 2600 * time.Millisecond}},
		{"a check was under way", []int{9500, 10100, 13500}, recovery{hit: 1, interrupted: 1, longest: 3400 * time.Millisecond, afterInjection: 3500 * time.Millisecond, afterEnd: 500 * time.Millisecond}},
		{"twice", []int{9500, 12600, 16000}, recovery{hit: 1, interrupted: 1, longest: 3400 * time.Millisecond, afterInjection: 6 * time.Second, afterEnd: 3 * time.Second}},
		{"stopped later", []int{9500, 10500, 11500, 12500, 13500, 20000}, recovery{hit: 1, longest: time.Second}},
		{"stopped already before", []int{6000, 13500}, recovery{}},
	} {
		var times []time.Time
		for _, ms := range c.began {
			times = append(times, at(ms))
		}
		usual := map[string]usual{"a": {cadence: time.Second}}
		if got := recovered(map[string][]time.Time{"a": times}, []string{"a"}, usual, at(10000), at(13000)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestAilingAreWaitedForAMinute drops accounts that are well again. It reports an account
// that is not well within a minute of the fault's end, unless another fault came in
// between.
func TestAilingAreWaitedForAMinute(t *testing.T) {
	now := time.Now()
	past := &turn{healed: now.Add(-wholeWithin - time.Second)}
	recent := &turn{healed: now.Add(-wholeWithin + time.Second)}
	third := &third{accounts: map[string]*checked{"well": {last: now}, "late": {last: now.Add(-2 * wholeWithin)}, "in time": {last: now.Add(-2 * wholeWithin)}}}
	a := ailing{since: map[string]ailment{"well": {of: past, noted: past.healed}, "late": {of: past, noted: past.healed}, "in time": {of: recent, noted: recent.healed}}, ended: now}
	a.review(third)
	if len(a.since) != 2 || len(past.faults) != 0 {
		t.Errorf("right after another fault: %v, %v", a.since, past.faults)
	}
	a.ended = now.Add(-restWithin - time.Second)
	a.review(third)
	if len(a.since) != 1 || len(past.faults) != 1 || len(recent.faults) != 0 {
		t.Errorf("later: %v, %v, %v", a.since, past.faults, recent.faults)
	}
}

// TestAilingAreWellOnlyAfterwards waits for an account that was checked well after the
// fault's end, then failed, and waits out its backoff since.
func TestAilingAreWellOnlyAfterwards(t *testing.T) {
	now := time.Now()
	recent := &turn{healed: now.Add(-3 * time.Second)}
	third := &third{accounts: map[string]*checked{"relapsed": {last: now.Add(-2 * time.Second)}}}
	a := ailing{since: map[string]ailment{"relapsed": {of: recent, noted: now.Add(-time.Second)}}, ended: recent.healed}
	a.review(third)
	if got := a.without([]string{"relapsed"}); len(got) != 0 {
		t.Errorf("without those that wait: %v", got)
	}
	third.accounts["relapsed"].last = now
	a.review(third)
	if got := a.without([]string{"relapsed"}); len(got) != 1 {
		t.Errorf("checked well again, without those that wait: %v", got)
	}
}
