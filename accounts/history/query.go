package history

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxPoints is the most points of a reply.
const MaxPoints = 500

// usualPoints is about how many points a query without a step returns.
const usualPoints = 360

// Query asks for figures between two times.
type Query struct {
	From time.Time // the zero time: Before
	To   time.Time // the zero time: Until
	// Before and Until are how long ago From and To are. Zero Before is an hour before To.
	Before, Until time.Duration
	// Step is the time that one point covers, in multiples of Every. Zero: a step that
	// makes a few hundred points.
	Step   time.Duration
	Fields []Field // none: all
}

// Curves are figures between two times.
type Curves struct {
	Now    time.Time
	From   time.Time // when the first point begins: the time asked for, cut to a multiple of Step
	Step   time.Duration
	Points int
	Curves []Curve // in the order of the query's fields
}

// Curve is one figure. Its values are the points' means. NaN is a missing one. Least and Most
// are nil for figures whose extremes do not matter; see Field.hasMin and Field.hasMax.
type Curve struct {
	Field             Field
	Mean, Least, Most []float64
}

// The errors of Look, besides Redis' own.
var (
	ErrFrom = errors.New("must be before to, and not more than 30 days ago")
	ErrStep = fmt.Errorf("must be a multiple of %v, and make at most %d points", Every, MaxPoints)
	ErrFine = fmt.Errorf("must be at least %v for times more than a day ago", Long)
)

// Look returns the figures that a query asks for. It returns ErrFrom, ErrStep or ErrFine for a
// query that it cannot answer.
func (r *Reader) Look(ctx context.Context, q Query) (Curves, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := r.refresh(ctx)
	if err != nil {
		return Curves{}, fmt.Errorf("history: %w", err)
	}
	if err := q.complete(now); err != nil {
		return Curves{}, err
	}
	c := Curves{Now: now, From: q.From, Step: q.Step, Points: int(q.To.Sub(q.From) / q.Step)}
	sums := make([][]gathering, len(q.Fields))
	for i := range sums {
		sums[i] = make([]gathering, c.Points)
	}
	// Brief samples are finer, and stored for a day. Long ones fill the gaps. The first of these
	// may have begun before the query does, and then counts for the first point.
	for at := q.From; at.Before(q.To); {
		whole := at.Truncate(Long)
		next := earlier(whole.Add(Long), q.To)
		if !q.gather(sums, &r.brief, at, next) && len(r.brief.between(whole, at)) == 0 {
			q.gather(sums, &r.long, whole, next)
		}
		at = next
	}
	for i, field := range q.Fields {
		c.Curves = append(c.Curves, curve(field, sums[i]))
	}
	return c, nil
}

// gather adds a series' samples between two times to the sums of the query's fields, point by
// point. It reports whether there were any.
func (q *Query) gather(sums [][]gathering, s *cache, from, to time.Time) (some bool) {
	for _, p := range s.between(from, to) {
		f, ok := decode(s.columns, p)
		if !ok {
			continue
		}
		some = true
		point := max(0, int(p.At.Sub(q.From)/q.Step))
		for i, field := range q.Fields {
			sums[i][point].add(f.all[field])
		}
	}
	return some
}

// complete fills in what the query leaves out, and rounds its times to steps.
func (q *Query) complete(now time.Time) error {
	if q.To.IsZero() {
		q.To = now.Add(-q.Until)
	}
	q.To = earlier(q.To, now)
	if q.From.IsZero() && q.Before > 0 {
		q.From = now.Add(-q.Before)
	} else if q.From.IsZero() {
		q.From = q.To.Add(-time.Hour)
	}
	if !q.From.Before(q.To) || q.From.Before(now.Add(-Most-time.Hour)) {
		return ErrFrom
	}
	if q.Step == 0 {
		q.Step = usualStep(q.To.Sub(q.From), now.Sub(q.From))
	}
	if q.Step < Every || q.Step%Every != 0 {
		return ErrStep
	}
	if q.Step < Long && now.Sub(q.From) > time.Duration(briefKept)*Every+Long {
		return ErrFine
	}
	// The last point may be of a time that has only begun.
	q.From, q.To = q.From.Truncate(q.Step), q.To.Add(q.Step-1).Truncate(q.Step)
	if q.To.Sub(q.From)/q.Step > MaxPoints {
		return ErrStep
	}
	if len(q.Fields) == 0 {
		q.Fields = Fields()
	}
	return nil
}

// usualStep returns a round step for a time that is this long and began this long ago.
func usualStep(over, ago time.Duration) time.Duration {
	for _, step := range []time.Duration{Every, 20 * time.Second, 30 * time.Second, time.Minute, Long, 4 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour} {
		if over/step <= usualPoints && (step >= Long || ago <= time.Duration(briefKept)*Every) {
			return step
		}
	}
	return 2 * time.Hour
}

func curve(f Field, sums []gathering) Curve {
	c := Curve{Field: f, Mean: make([]float64, len(sums))}
	if f.hasMin() {
		c.Least = make([]float64, len(sums))
	}
	if f.hasMax() {
		c.Most = make([]float64, len(sums))
	}
	for i := range sums {
		s := sums[i].spread()
		c.Mean[i] = s.mean
		if c.Least != nil {
			c.Least[i] = s.least
		}
		if c.Most != nil {
			c.Most[i] = s.most
		}
	}
	return c
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
