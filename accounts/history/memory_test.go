package history

import (
	"math"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/faketime"
)

// The growth of memory is judged by most of what is known: neither a restart nor the hours of a day
// bend it, and a day at least must be known.
func TestGrowthOfMemory(t *testing.T) {
	t.Parallel()
	series := func(n int, v func(i int) float64) (all []float64) {
		for i := range n {
			all = append(all, v(i))
		}
		return all
	}
	limit := func(v float64) func(n int) []float64 {
		return func(n int) []float64 { return series(n, func(int) float64 { return v }) }
	}
	grows := func(i int) float64 { return 1000 + 10*float64(i) } // 120 a day
	for name, c := range map[string]struct {
		used        []float64
		limit       []float64
		ok          bool
		perDay      float64
		within, off time.Duration
	}{
		"nothing":   {nil, nil, false, 0, 0, 0},
		"too short": {series(12, grows), limit(4000)(12), false, 0, 0, 0},
		"a day":     {series(13, grows), limit(4000)(13), true, 120, 24 * 24 * time.Hour, time.Hour},
		"no limit":  {series(20, grows), limit(math.NaN())(20), true, 120, 0, 0},
		"a restart": {series(84, func(i int) float64 {
			if i == 40 {
				return 10
			}
			return grows(i)
		}), limit(4000)(84), true, 120, time.Duration((4000.0 - 1830) / 120 * 24 * float64(time.Hour)), time.Hour},
		"gaps": {series(84, func(i int) float64 {
			if i%3 > 0 {
				return math.NaN()
			}
			return grows(i)
		}), limit(4000)(84), true, 120, time.Duration((4000.0 - 1810) / 120 * 24 * float64(time.Hour)), time.Hour},
		"waves":   {series(84, func(i int) float64 { return 1000 + 50*math.Sin(float64(i)*math.Pi/6) }), limit(4000)(84), true, 0, 0, 0},
		"falls":   {series(84, func(i int) float64 { return 2000 - 10*float64(i) }), limit(4000)(84), true, -120, 0, 0},
		"far off": {series(84, grows), limit(1e6)(84), true, 120, 0, 0},
		"full":    {series(84, grows), limit(1000)(84), true, 120, 0, 0},
	} {
		m, ok := growth(c.used, c.limit, growthStep)
		if ok != c.ok || math.Abs(m.PerDay-c.perDay) > 1e-6 || (m.Full-c.within).Abs() > c.off {
			t.Errorf("%s: %+v, %t", name, m, ok)
		}
	}
}

func TestMemoryIsReadFromSamples(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		k, r := NewKeeper(w.Ring), NewReader(w.Ring)
		if _, ok, err := r.Memory(w.Context()); ok || err != nil {
			t.Errorf("of nothing: %t, %v", ok, err)
		}
		for i := range 60 {
			now, err := w.Ring.Now(w.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			s := NewSample(now)
			s.Set(MemoryUsed, 1e9+1e7*float64(i))
			s.Set(MemoryLimit, 4e9)
			if err := k.Add(w.Context(), s); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		m, ok, err := r.Memory(w.Context())
		if err != nil || !ok || m.Over < 2*growthLeast || math.Abs(m.PerDay-2.4e8) > 2e6 || math.Abs(m.Limit-4e9) > 2e6 || m.Full < 9*24*time.Hour || m.Full > 11*24*time.Hour {
			t.Errorf("%+v, %t, %v", m, ok, err)
		}
	})
}
