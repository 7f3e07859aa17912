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
	brief, long cache
	read        time.Time     // when it last asked, by this process' clock
	ahead       time.Duration // how far Redis' clock is ahead of that
}

// NewReader returns a reader of a ring's namespace. It reads nothing yet.
func NewReader(ring *circulate.Ring) *Reader {
	return &Reader{brief: cache{series: briefOf(ring), columns: briefColumns()}, long: cache{series: longOf(ring), columns: longColumns()}}
}

// cache has the points of a series that were read.
type cache struct {
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

func (c *cache) refresh(ctx context.Context) (now time.Time, err error) {
	tail, now, err := c.series.Last(ctx, 0, tailRead)
	if err != nil {
		return time.Time{}, err
	}
	fresh, known := c.behind(tail)
	if known && len(fresh) == 0 {
		return now, nil
	}
	if !known {
		// Newer points may arrive while pages are read. Then some points are read twice,
		// which the sorting by time mends.
		c.points, fresh = nil, tail
		for len(tail) > 0 {
			if tail, _, err = c.series.Last(ctx, len(fresh), min(pageRead, max(1, c.series.Most()-len(fresh)))); err != nil {
				return time.Time{}, err
			}
			fresh = slices.Concat(tail, fresh)
			if len(fresh) >= c.series.Most() {
				break
			}
		}
	}
	c.points = append(c.points, fresh...)
	if over := len(c.points) - c.series.Most(); over > 0 {
		c.points = slices.Clone(c.points[over:])
	}
	c.sort()
	return now, nil
}

// behind returns the points after the last known one, and whether the tail has that one.
func (c *cache) behind(tail []document.Point) ([]document.Point, bool) {
	if len(c.points) == 0 {
		return nil, false
	}
	last := c.points[len(c.points)-1]
	for i, p := range slices.Backward(tail) {
		if p.At.Equal(last.At) && bytes.Equal(p.Data, last.Data) {
			return tail[i+1:], true
		}
	}
	return nil, false
}

func (c *cache) sort() {
	inOrder := true
	for i := 1; i < len(c.points) && inOrder; i++ {
		inOrder = c.points[i].At.After(c.points[i-1].At)
	}
	if c.sorted = c.points; inOrder {
		return
	}
	all := slices.Clone(c.points)
	slices.SortStableFunc(all, func(a, b document.Point) int { return a.At.Compare(b.At) })
	n := 0
	for i, p := range all {
		if i+1 < len(all) && all[i+1].At.Equal(p.At) {
			continue
		}
		all[n] = p
		n++
	}
	c.sorted = all[:n]
}

// between returns the points from a time up to, but without, another.
func (c *cache) between(from, to time.Time) []document.Point {
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(c.sorted, t, func(p document.Point, t time.Time) int { return p.At.Compare(t) })
		return i
	}
	begin := at(from)
	return c.sorted[begin:max(begin, at(to))]
}
