package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Every is the time that the shortest sheets cover.
const Every = time.Minute

// levels are the lengths of sheets, the shortest first.
func levels() []document.Level {
	return []document.Level{{Name: "m", Every: Every, Kept: 180}, {Name: "t", Every: 10 * time.Minute, Kept: 288}, {Name: "h", Every: 2 * time.Hour, Kept: 360}}
}

// addTries is how often a sheet is added anew because another process was faster.
const addTries = 10

// Keeper adds sheets. Any number of processes may do so at once.
type Keeper struct{ periods document.Periods }

// NewKeeper returns a keeper of a ring's namespace.
func NewKeeper(ring *circulate.Ring) Keeper { return Keeper{document.Of(ring).Activity()} }

// addLate is how long ago the minute may be that a sheet is added to, by Redis' clock. It may not
// be to come, either: a clock that is ahead would take the place of other minutes.
const addLate = 5 * time.Minute

// Add adds what happened in the minute of a time, or in this one if that time is to come or is long
// ago. If its error is unknown, in the sense of
// circulate.Unknown, the sheet may have been added, and must not be added again.
func (k Keeper) Add(ctx context.Context, at time.Time, s *Sheet) error {
	if s.Empty() {
		return nil
	}
	for range addTries {
		all, err := k.sum(ctx, at, s)
		if err != nil {
			return err
		}
		if err = k.periods.Put(ctx, all); circulate.Unknown(err) && ctx.Err() == nil {
			err = k.periods.Put(ctx, all) // safe to repeat
		}
		if !errors.Is(err, document.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("add activity: %w", document.ErrChanged)
}

// Mark adds that something happened.
func (k Keeper) Mark(ctx context.Context, m Mark) error {
	return k.Add(ctx, m.At, &Sheet{Marks: []Mark{m}})
}

// sum returns the documents of all levels with the sheet added.
func (k Keeper) sum(ctx context.Context, at time.Time, s *Sheet) ([]document.Period, error) {
	all := periodsAt(at)
	now, err := k.periods.Read(ctx, all)
	if err == nil && (at.After(now) || now.Sub(at) > addLate) {
		all = periodsAt(now)
		_, err = k.periods.Read(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	for i := range all {
		sum := &Sheet{}
		if all[i].Version > 0 {
			switch before, err := Decode(all[i].Text); {
			case errors.Is(err, errFormat):
				return nil, err // a newer program writes it
			case err == nil:
				sum = before // otherwise it begins anew
			}
		}
		sum.Add(s)
		all[i].Text = sum.Encode()
	}
	return all, nil
}

// periodsAt returns the periods of all levels that a time belongs to.
func periodsAt(at time.Time) (all []document.Period) {
	for _, l := range levels() {
		all = append(all, document.Period{Level: l, Number: l.Number(at)})
	}
	return all
}
