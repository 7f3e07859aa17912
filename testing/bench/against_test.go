package main

import (
	"math"
	"testing"
)

// Of equal programs the ratio is 1, although the first one of each pair is slower, and one of
// them is disturbed now and then. A program that is slower is found.
func TestRatioOfPairs(t *testing.T) {
	a := []float64{109, 100, 109, 100, 300, 100}
	b := []float64{100, 109, 100, 109, 100, 109}
	if r := ratioOfPairs(a, b); math.Abs(r-1) > 0.001 {
		t.Errorf("equal programs: got %.3f", r)
	}
	for i := range a {
		a[i] *= 1.05
	}
	if r := ratioOfPairs(a, b); math.Abs(r-1.05) > 0.001 {
		t.Errorf("5 %% slower: got %.3f", r)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 2, 4}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
	}
}
