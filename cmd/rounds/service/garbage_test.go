package service

import (
	"slices"
	"testing"
	"time"
)

// While very many checks are held, garbage is collected early, and less early while they connect. It
// does not change back and forth with each of them. What connecting took is given back.
func TestGarbage(t *testing.T) {
	const live = 100 << 20
	tests := map[string]struct {
		held  []int // each for five seconds
		rate  []int // allocated meanwhile, in MiB a second
		want  []int // percents that were set
		freed int
	}{
		"few held":                       {[]int{0, 999, 100}, []int{0, 50, 0}, nil, 0},
		"many held that wait":            {[]int{0, 1000, 20_000}, []int{0, 1, 5}, []int{15}, 1},
		"not back and forth":             {[]int{1000, 999, 1000, 500, 499, 600, 1000}, []int{0, 0, 0, 0, 0, 0, 0}, []int{15, 100, 15}, 2},
		"connecting from the beginning":  {[]int{0, 5000, 20_000, 20_000, 20_000, 20_000}, []int{50, 50, 50, 1, 1, 1}, []int{75, 15}, 1},
		"connecting later":               {[]int{20_000, 20_000, 30_000, 30_000}, []int{1, 1, 50, 1}, []int{15, 75}, 1},
		"connecting, and a while after":  {[]int{20_000, 30_000, 30_000, 30_000, 30_000}, []int{1, 50, 1, 1, 1}, []int{15, 75, 15}, 2},
		"connecting with pauses between": {[]int{20_000, 30_000, 30_000, 30_000, 30_000}, []int{1, 50, 1, 50, 1}, []int{15, 75}, 1},
		"fewer held while they connect":  {[]int{20_000, 20_000, 499, 499, 499}, []int{1, 50, 50, 1, 1}, []int{15, 75, 100}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []int
			freed := 0
			g := &garbage{percent: defaultGC, set: func(percent int) int { got = append(got, percent); return 0 }, free: func() { freed++ }}
			now := heap{at: time.Unix(1_000_000_000, 0), live: live}
			for i, held := range tt.held {
				for range 10 {
					now.at = now.at.Add(time.Second / 2)
					now.allocated += uint64(tt.rate[i]) << 19
					g.held(held, now)
				}
			}
			if !slices.Equal(got, tt.want) || freed != tt.freed {
				t.Errorf("set %v and freed %d times, want %v and %d", got, freed, tt.want, tt.freed)
			}
		})
	}
}

// The runtime's figures are read under the names that it gives them.
func TestReadHeap(t *testing.T) {
	before := readHeap(time.Now())
	kept := make([]byte, 8<<20)
	after := readHeap(time.Now())
	if before.live == 0 || after.allocated-before.allocated < uint64(len(kept)) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestHeldMemoryObeysGOGC(t *testing.T) {
	if HeldMemory(func(name string) (string, bool) { return "50", name == "GOGC" }) != nil {
		t.Error("GOGC is set, and would be overruled")
	}
	if HeldMemory(func(string) (string, bool) { return "", false }) == nil {
		t.Error("without GOGC, nothing is decided")
	}
}
