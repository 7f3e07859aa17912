package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// MaxPoints is the most points of a reply.
	MaxPoints = 120
	// mostPeriods bounds how many sheets a reply reads.
	mostPeriods = 512
	// settled is how long after a minute its sheet is whole.
	settled = 20 * time.Second
	// mostSum is how many names of a part are summed up over all points.
	mostSum = 1000
)

// Most is for how long sheets are stored.
const Most = 30 * 24 * time.Hour

// The errors of Look, besides Redis' own.
var (
	ErrFrom = errors.New("must be before to, and not more than 30 days ago")
	ErrStep = fmt.Errorf("must be a multiple of 1m within the last 3h, of 10m within the last 48h and of 2h before that, and make at most %d points", MaxPoints)
)

// Query asks what happened between two times.
type Query struct {
	From, To      time.Time     // the zero time: Before and Until
	Before, Until time.Duration // how long ago; zero Before is an hour before To
	Step          time.Duration // the time that a point covers; zero: one that makes some dozens of points
}

// Course is what happened between two times.
type Course struct {
	Now    time.Time
	From   time.Time // when the first point begins
	Step   time.Duration
	Points []*Sheet // by time; nil: nothing is known
	Sum    *Sheet   // of all points
}

// To returns when the last point ends.
func (c *Course) To() time.Time { return c.From.Add(time.Duration(len(c.Points)) * c.Step) }

// Reader reads sheets. It is safe for concurrent use.
type Reader struct{ periods document.Periods }

// NewReader returns a reader of a ring's namespace.
func NewReader(ring *circulate.Ring) Reader { return Reader{document.Of(ring).Activity()} }

// Look returns what happened. It returns ErrFrom or ErrStep for a query that it cannot answer.
func (r Reader) Look(ctx context.Context, q Query) (*Course, error) {
	now, err := r.periods.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("activity: %w", err)
	}
	level, err := q.complete(now)
	if err != nil {
		return nil, err
	}
	c := &Course{Now: now, From: q.From, Step: q.Step, Points: make([]*Sheet, q.To.Sub(q.From)/q.Step), Sum: &Sheet{}}
	first, end := level.Number(q.From), level.Number(q.To)
	for first < end {
		all := make([]document.Period, 0, document.MaxPeriodsAtOnce)
		for ; first < end && len(all) < document.MaxPeriodsAtOnce; first++ {
			all = append(all, document.Period{Level: level, Number: first})
		}
		if _, err := r.periods.Read(ctx, all); err != nil {
			return nil, fmt.Errorf("activity: %w", err)
		}
		for i := range all {
			c.add(&all[i])
		}
	}
	return c, nil
}

// add adds what a period's document has, if it can be read.
func (c *Course) add(p *document.Period) {
	if p.Version == 0 {
		return
	}
	s, err := Decode(p.Text)
	if err != nil {
		return // a gap: another version wrote it
	}
	point := &c.Points[p.Level.Begin(p.Number).Sub(c.From)/c.Step]
	if *point == nil {
		*point = &Sheet{}
	}
	(*point).Add(s)
	c.Sum.Add(s)
	var most [parts]int
	for i := range most {
		most[i] = mostSum
	}
	c.Sum.cut(most, mostSum)
}

// complete fills in what the query leaves out, rounds its times to steps, and returns the level
// that answers it.
func (q *Query) complete(now time.Time) (document.Level, error) {
	if q.To.IsZero() {
		q.To = now.Add(-q.Until)
	}
	latest := now.Add(-settled).Truncate(Every)
	if q.To.After(latest) {
		q.To = latest
	}
	if q.From.IsZero() && q.Before > 0 {
		q.From = now.Add(-q.Before)
	} else if q.From.IsZero() {
		q.From = q.To.Add(-time.Hour)
	}
	if !q.From.Before(now) || q.From.Before(now.Add(-Most-2*time.Hour)) || !q.From.Before(q.To.Add(Every)) {
		return document.Level{}, ErrFrom
	}
	over, ago := q.To.Sub(q.From), now.Sub(q.From)
	for _, l := range levels() {
		if ago > time.Duration(l.Kept-1)*l.Every {
			continue
		}
		step := q.Step
		if step == 0 {
			step = usualStep(l.Every, over)
		}
		if step%l.Every != 0 || over/l.Every > mostPeriods {
			continue
		}
		from, to := q.From.Truncate(step), q.To.Add(step-1).Truncate(step)
		if !from.Before(to) {
			to = from.Add(step)
		}
		if to.Sub(from)/step > MaxPoints {
			continue
		}
		q.From, q.To, q.Step = from, to, step
		return l, nil
	}
	return document.Level{}, ErrStep
}

// usualStep returns a round step of a level for a time that is this long.
func usualStep(every, over time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour} {
		if step >= every && step%every == 0 && over/step <= 90 {
			return step
		}
	}
	return 8 * time.Hour
}
