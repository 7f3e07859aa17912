package history

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	t.Parallel()
	noon := time.Unix(1_800_000_000, 0)
	totals := func(checks, failures, messages uint64, late ...uint64) *Totals {
		return &Totals{checks, failures, messages, late}
	}
	for _, c := range []struct {
		name   string
		before map[string]Beat
		now    map[string]Beat
		want   string // checks, messages, failing share, p50, p99
	}{
		{"nobody", nil, nil, "0 0 NaN NaN NaN"},
		{"known before", map[string]Beat{"a": {At: noon, Totals: totals(100, 10, 5, 50)}},
			map[string]Beat{"a": {At: noon.Add(10 * time.Second), Totals: totals(200, 35, 25, 140, 0, 10)}}, "10 2 0.25 0.001 0.002"},
		{"two", map[string]Beat{"a": {At: noon, Totals: totals(0, 0, 0)}, "b": {At: noon, Totals: totals(10, 0, 0, 7)}},
			map[string]Beat{"a": {At: noon.Add(10 * time.Second), Totals: totals(100, 0, 0, 0, 0, 100)}, "b": {At: noon.Add(5 * time.Second), Totals: totals(110, 60, 0, 108)}}, "30 0 0.4 0.001 0.002"},
		{"new", nil, map[string]Beat{"a": {At: noon, Totals: totals(1e6, 10, 5, 50), Checks: 4, Failures: 1, Messages: 2}}, "4 2 0.25 NaN NaN"},
		{"said nothing new", map[string]Beat{"a": {At: noon, Totals: totals(0, 0, 0), Checks: 4}}, map[string]Beat{"a": {At: noon, Totals: totals(0, 0, 0)}}, "4 0 0 NaN NaN"},
		{"an earlier version", map[string]Beat{"a": {At: noon}}, map[string]Beat{"a": {At: noon.Add(time.Second), Checks: 4, Messages: 1}}, "4 1 0 NaN NaN"},
		{"began anew", map[string]Beat{"a": {At: noon, Totals: totals(100, 0, 0)}}, map[string]Beat{"a": {At: noon.Add(time.Second), Totals: totals(1, 0, 0), Checks: 4}}, "4 0 0 NaN NaN"},
		{"lateness anew", map[string]Beat{"a": {At: noon, Totals: totals(1, 0, 0, 1, 1)}}, map[string]Beat{"a": {At: noon.Add(time.Second), Totals: totals(2, 0, 0, 9), Checks: 4}}, "4 0 0 NaN NaN"},
		{"the clock went back", map[string]Beat{"a": {At: noon, Totals: totals(1, 0, 0)}}, map[string]Beat{"a": {At: noon.Add(-time.Hour), Totals: totals(3, 0, 0), Checks: 4}}, "4 0 0 NaN NaN"},
		{"the clock went ahead", map[string]Beat{"a": {At: noon, Totals: totals(1, 0, 0)}}, map[string]Beat{"a": {At: noon.Add(time.Hour), Totals: totals(3, 0, 0), Checks: 4}}, "4 0 0 NaN NaN"},
		{"idle", map[string]Beat{"a": {At: noon, Totals: totals(1, 0, 0)}}, map[string]Beat{"a": {At: noon.Add(time.Second), Totals: totals(1, 0, 0)}}, "0 0 NaN NaN NaN"},
		{"nonsense", map[string]Beat{"a": {At: noon}}, map[string]Beat{"a": {At: noon.Add(time.Second), Checks: math.Inf(1), Messages: -1}}, "NaN NaN 0 NaN NaN"},
	} {
		var r Rates
		first, s := NewSample(noon), NewSample(noon)
		r.Set(&first, c.before)
		r.Set(&s, c.now)
		got := ""
		for _, f := range []Field{ChecksPerSecond, MessagesPerSecond, FailingShare, LatenessP50, LatenessP99} {
			got += fmt.Sprintf("%.4g ", s.values[f])
		}
		if got != c.want+" " {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	var l Lateness
	if l.Quantile(0.99) != 0 {
		t.Error("of nothing", l.Quantile(0.99))
	}
	for _, late := range []time.Duration{-time.Hour, 0, time.Millisecond, 2 * time.Millisecond, 365 * 24 * time.Hour} {
		l.Add(late)
	}
	if len(l) != latenessBuckets || l.Quantile(0.5) != 0.001 || math.Abs(l.Quantile(0.8)-0.002) > 1e-9 || l.Quantile(1) < 600_000 {
		t.Error(l, l.Quantile(0.5), l.Quantile(0.8), l.Quantile(1))
	}
	sum := Totals{1, 2, 3, Lateness{1}}.Plus(Totals{10, 20, 30, Lateness{1, 2}})
	if fmt.Sprint(sum) != "{11 22 33 [2 2]}" {
		t.Error(sum)
	}
}
