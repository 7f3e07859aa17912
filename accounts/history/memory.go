package history

import (
	"context"
	"math"
	"slices"
	"time"
)

const (
	// growthOver is the time by which the growth of memory is judged, and growthLeast the least time
	// that must be known of it: memory rises and falls with the hours of a day.
	growthOver  = 7 * 24 * time.Hour
	growthLeast = 24 * time.Hour
	growthStep  = 2 * time.Hour
	// growthSeen is the least growth within that time that counts, as a part of what is used.
	growthSeen = 0.01
	// fullShown is the longest forecast that is shown: a later one would say nothing.
	fullShown = 365 * 24 * time.Hour
)

// Memory is how Redis' memory, of all nodes together, grows.
type Memory struct {
	Used, Limit float64       // bytes; Limit 0: a node has none
	PerDay      float64       // bytes, by which it grows; negative: it falls; 0: neither is known
	Over        time.Duration // the time by which that was judged
	Full        time.Duration // until the limit is reached at this rate; 0: not within a year
}

// Memory judges how Redis' memory has grown within the last week. It returns false if too little is
// known: a day, at least.
func (r *Reader) Memory(ctx context.Context) (Memory, bool, error) {
	c, err := r.Look(ctx, Query{Before: growthOver, Step: growthStep, Fields: []Field{MemoryUsed, MemoryLimit}})
	if err != nil {
		return Memory{}, false, err
	}
	m, ok := growth(c.Curves[0].Mean, c.Curves[1].Mean, c.Step)
	return m, ok, nil
}

// growth judges means of equal steps. The rate is the median of the rates between any two of them
// (Theil and Sen), which a restart of Redis or a large import does not bend.
func growth(used, limit []float64, step time.Duration) (Memory, bool) {
	var at []int
	for i, v := range used {
		if !math.IsNaN(v) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return Memory{}, false
	}
	last := at[len(at)-1]
	m := Memory{Used: used[last], Over: time.Duration(last-at[0]) * step}
	if v := limit[last]; v > 0 {
		m.Limit = v
	}
	if m.Over < growthLeast || m.Used <= 0 {
		return Memory{}, false
	}
	var rates []float64
	for i, a := range at {
		for _, b := range at[i+1:] {
			rates = append(rates, (used[b]-used[a])/float64(b-a))
		}
	}
	slices.Sort(rates)
	perStep := rates[len(rates)/2]
	if math.Abs(perStep)*float64(last-at[0]) < growthSeen*m.Used {
		return m, true
	}
	m.PerDay = perStep * float64(24*time.Hour/step)
	if perStep > 0 && m.Limit > m.Used {
		if steps := (m.Limit - m.Used) / perStep; steps < float64(fullShown/step) {
			m.Full = time.Duration(steps * float64(step))
		}
	}
	return m, true
}
