package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// printed returns the figures that a function prints, by name.
func printed(t *testing.T, print func(r reporter)) map[string]float64 {
	t.Helper()
	var out bytes.Buffer
	print(reporter{out: &out, json: true, commit: "c"})
	all := make(map[string]float64)
	for line := range strings.Lines(out.String()) {
		var f figure
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Commit != "c" {
			t.Fatalf("%q: %v", line, err)
		}
		all[f.Name] = f.Value
	}
	return all
}

// What is printed of known samples is what its name says.
func TestFiguresOfKnownSamples(t *testing.T) {
	var samples []float64
	for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(1000) {
		samples = append(samples, float64(n+1))
	}
	got := printed(t, func(r reporter) {
		r.quantile("x_p%.0f_ms", samples, 0.5, "ms")
		r.quantile("x_p%.0f_ms", samples, 0.99, "ms")
		r.quantile("one_p%.0f_s", samples[:1], 0.99, "s")
	})
	for name, want := range map[string]float64{"x_p50_ms": 501, "x_p99_ms": 991, "one_p99_s": samples[0]} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	got = printed(t, func(r reporter) {
		r.lateness("y_", []lateness{{0.001, 0.03}, {0.002, 0.05}, {0.004, 0.01}}, ", of a test")
	})
	if want := map[string]float64{"y_p50_lateness_ms": 2, "y_p99_lateness_ms": 30, "y_p99_lateness_worst_window_ms": 50}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lateness is printed as %v, want %v", got, want)
	}
}
