// Package series keeps points of data by time, such as figures for charts, in capped lists of
// a namespace. It does not look into data. No account depends on a point, so a lost one only
// leaves a gap in a chart.
//
// The points of a series are in the order in which they were appended. That is the order of
// their times unless a clock went back.
package series

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MaxData is the most bytes that a point may have.
	MaxData = 256
	// MaxKept is the greatest number of points that Append may be told to keep.
	MaxKept = 100_000
	// MaxRead is the most points that one call of Last may ask for.
	MaxRead = 2000

	stampWidth = 4 // bytes of a point's time: seconds since 1970, until the year 2106
)

//go:embed append.lua
var appendLua string

var appendScript = wire.NewScript("append point", appendLua)

// Series is a series of a namespace. It is safe for concurrent use.
type Series struct {
	wire *wire.Wire
	name string
	kept int
}

// Of returns the series of that name of a ring's namespace, which keeps so many points.
func Of(ring *circulate.Ring, name string, kept int) Series { return Series{ring.Wire(), name, kept} }

// Kept returns how many points the series keeps.
func (s Series) Kept() int { return s.kept }

// Point is what a series has of one time.
type Point struct {
	At   time.Time // in whole seconds
	Data []byte
}

// key returns the Redis key of the LIST. It needs no hash tag, because no command uses it
// together with another key.
func (s Series) key() string { return s.wire.Namespace() + ":series:" + s.name }

// Append appends a point and drops the oldest ones above the number that is kept. It returns
// false, and changes nothing, if the last point is of the same second. So it is safe to
// repeat, and of several processes that append a point of one time the first wins. A Redis
// that is at its memory limit takes points all the same, because their number is bounded.
func (s Series) Append(ctx context.Context, p Point) (bool, error) {
	seconds := p.At.Unix()
	switch {
	case s.kept < 2 || s.kept > MaxKept:
		return false, fmt.Errorf("%w: append point: kept: must be 2 to %d, is %d", wire.ErrInput, MaxKept, s.kept)
	case len(p.Data) == 0 || len(p.Data) > MaxData:
		return false, fmt.Errorf("%w: append point: must have 1 to %d bytes, has %d", wire.ErrInput, MaxData, len(p.Data))
	case seconds < 0 || seconds > math.MaxUint32:
		return false, fmt.Errorf("%w: append point: no time of the years 1970 to 2105: %v", wire.ErrInput, p.At)
	}
	text := append(binary.BigEndian.AppendUint32(nil, uint32(seconds)), p.Data...)
	added, err := redis.Bool(wire.Mending(ctx, s.wire, s.typed(), func() (any, error) {
		return s.wire.Eval(ctx, appendScript, []string{s.key()}, []any{text, s.kept})
	}))
	if err != nil {
		return false, fmt.Errorf("append point: %w", err)
	}
	return added, nil
}

// Last returns the n newest points behind the skip newest ones, in the order in which they
// were appended, and the time by Redis' clock. Entries that are not points are left out, so
// only an empty reply says that there are no more.
func (s Series) Last(ctx context.Context, skip, n int) ([]Point, time.Time, error) {
	if n < 1 || n > MaxRead || skip < 0 || skip > MaxKept {
		return nil, time.Time{}, fmt.Errorf("%w: read points: must be 1 to %d behind at most %d, not %d behind %d", wire.ErrInput, MaxRead, MaxKept, n, skip)
	}
	key := s.key()
	replies, err := wire.Mending(ctx, s.wire, s.typed(), func() ([]any, error) {
		return s.wire.Pipeline(ctx, key, wire.Command{"LRANGE", key, -skip - n, -skip - 1}, wire.Command{"TIME"})
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read points: %w", err)
	}
	texts, err := redis.ByteSlices(replies[0], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read points: %w", err)
	}
	now, err := wire.Time(replies[1])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read points: %w", err)
	}
	points := make([]Point, 0, len(texts))
	for _, text := range texts {
		if len(text) > stampWidth {
			points = append(points, Point{time.Unix(int64(binary.BigEndian.Uint32(text)), 0), text[stampWidth:]})
		}
	}
	return points, now, nil
}

func (s Series) typed() []wire.Key { return []wire.Key{{s.key(), "list"}} }
