package history

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	freshFor  = time.Second // how long the last reading counts as new
	tailRead  = 8           // points that are read to find the new ones
	pageRead  = 1000        // points that are read at once if there are more new ones
	readFetch = 10 * time.Second
)

// Reader reads the samples of a namespace. It remembers what it has read, some 4 MiB, so that
// any number of viewers costs Redis a few commands a second at most. It is safe for
// concurrent use.
type Reader struct {
	mu          sync.Mutex
	brief, long kept
	read        time.Time     // when it last asked, by this process' clock
	ahead       time.Duration // how far Redis' clock is ahead of that
}

// NewReader returns a reader of a ring's namespace. It reads nothing yet.
func NewReader(ring *circulate.Ring) *Reader {
	return &Reader{brief: kept{series: briefOf(ring), columns: briefColumns()}, long: kept{series: longOf(ring), columns: longColumns()}}
}

// kept is the points of a series that were read.
type kept struct {
	series  document.Series
	columns []column
	points  []document.Point // as they were appended
	sorted  []document.Point // by time, one for each time: the last appended one
}

// refresh reads the new points, unless it did so a moment ago. It returns the time by
// Redis' clock.
func (r *Reader) refresh(ctx context.Context) (time.Time, error) {
	if !r.read.IsZero() && time.Since(r.read) < freshFor {
		return time.Now().Add(r.ahead), nil
	}
	// Others may wait for the same points: they should not fail because this caller went
	// away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readFetch)
	defer cancel()
	if _, err := r.long.refresh(ctx); err != nil {
		return time.Time{}, err
	}
	now, err := r.brief.refresh(ctx)
	if err != nil {
		return time.Time{}, err
	}
	r.read, r.ahead = time.Now(), time.Until(now)
	return now, nil
}

func (k *kept) refresh(ctx context.Context) (now time.Time, err error) {
	tail, now, err := k.series.Last(ctx, 0, tailRead)
	if err != nil {
		return time.Time{}, err
	}
	fresh, known := k.behind(tail)
	if known && len(fresh) == 0 {
		return now, nil
	}
	if !known {
		// Newer points may arrive while pages are read. Then some points are read twice,
		// which the sorting by time mends.
		k.points, fresh = nil, tail
		for len(tail) > 0 {
			if tail, _, err = k.series.Last(ctx, len(fresh), min(pageRead, max(1, k.series.Most()-len(fresh)))); err != nil {
				return time.Time{}, err
			}
			fresh = slices.Concat(tail, fresh)
			if len(fresh) >= k.series.Most() {
				break
			}
		}
	}
	k.points = append(k.points, fresh...)
	if over := len(k.points) - k.series.Most(); over > 0 {
		k.points = slices.Clone(k.points[over:])
	}
	k.sort()
	return now, nil
}

// behind returns the points after the last known one, and whether the tail has that one.
func (k *kept) behind(tail []document.Point) ([]document.Point, bool) {
	if len(k.points) == 0 {
		return nil, false
	}
	last := k.points[len(k.points)-1]
	for i, p := range slices.Backward(tail) {
		if p.At.Equal(last.At) && bytes.Equal(p.Data, last.Data) {
			return tail[i+1:], true
		}
	}
	return nil, false
}

func (k *kept) sort() {
	inOrder := true
	for i := 1; i < len(k.points) && inOrder; i++ {
		inOrder = k.points[i].At.After(k.points[i-1].At)
	}
	if k.sorted = k.points; inOrder {
		return
	}
	all := slices.Clone(k.points)
	slices.SortStableFunc(all, func(a, b document.Point) int { return a.At.Compare(b.At) })
	n := 0
	for i, p := range all {
		if i+1 < len(all) && all[i+1].At.Equal(p.At) {
			continue
		}
		all[n] = p
		n++
	}
	k.sorted = all[:n]
}

// between returns the points from a time up to, but without, another.
func (k *kept) between(from, to time.Time) []document.Point {
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(k.sorted, t, func(p document.Point, t time.Time) int { return p.At.Compare(t) })
		return i
	}
	begin := at(from)
	return k.sorted[begin:max(begin, at(to))]
}
