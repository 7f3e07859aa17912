package history

import (
	"context"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// Every is the time between two samples.
	Every = 10 * time.Second
	// Long is the time that a long-lived entry covers.
	Long = 2 * time.Minute
	// Most is how long the oldest entries live.
	Most = 30 * 24 * time.Hour

	briefKept = int(24 * time.Hour / Every)
	longKept  = int(Most / Long)
)

func briefOf(ring *circulate.Ring) document.Series { return document.Of(ring).Series("10s", briefKept) }
func longOf(ring *circulate.Ring) document.Series  { return document.Of(ring).Series("2m", longKept) }

// Keeper adds samples. It is not safe for concurrent use. Several keepers of a namespace,
// as when monitors take over from each other, do no harm.
type Keeper struct {
	brief, long document.Series
	summed      time.Time // the two minutes of the last sample; zero: none since the start
}

// NewKeeper returns a keeper of a ring's namespace.
func NewKeeper(ring *circulate.Ring) *Keeper {
	return &Keeper{brief: briefOf(ring), long: longOf(ring)}
}

// Add stores a sample. Its time is cut to ten seconds. If there is a sample for these
// already, Add leaves that one. After the last sample of two minutes, Add stores their
// sum for a month. It sums the samples in Redis, because another process may have added
// some of them. It is safe to repeat.
func (k *Keeper) Add(ctx context.Context, s Sample) error {
	f := figures{at: s.At.Truncate(Every)}
	for i, v := range s.values {
		f.all[i] = spread{mean: v}
	}
	if _, err := k.brief.Append(ctx, encode(briefColumns(), &f)); err != nil {
		return err
	}
	now := s.At.Truncate(Long)
	if now.Equal(k.summed) {
		return nil
	}
	if err := k.sum(ctx, now); err != nil {
		return err
	}
	k.summed = now
	return nil
}

// sum stores the sum of the last two sampled minutes before now's.
func (k *Keeper) sum(ctx context.Context, now time.Time) error {
	points, _, err := k.brief.Last(ctx, 0, int(2*Long/Every))
	if err != nil {
		return err
	}
	var at time.Time
	var all [fields]gathering
	seen := make(map[time.Time]bool) // a later one replaces the one before
	for _, p := range slices.Backward(points) {
		of := p.At.Truncate(Long)
		if at.IsZero() && !of.Equal(now) {
			at = of
		}
		f, ok := decode(briefColumns(), p)
		if at.IsZero() || !of.Equal(at) || seen[p.At] || !ok {
			continue
		}
		seen[p.At] = true
		for i := range all {
			all[i].add(f.all[i])
		}
	}
	if len(seen) == 0 {
		return nil
	}
	long := figures{at: at}
	for i := range all {
		long.all[i] = all[i].spread()
	}
	_, err = k.long.Append(ctx, encode(longColumns(), &long))
	return err
}
