package document

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var seriesAppendScript = wire.NewScript("append point", lua("series_append"))

const (
	// MaxPoint is the most bytes of data that a point may have.
	MaxPoint = 256
	// MaxPoints is the greatest number of points that a series may retain.
	MaxPoints = 100_000
	// MaxPointsRead is the most points that one call of Last may ask for.
	MaxPointsRead = 2000

	secondsWidth = 4 // bytes of a point's time: seconds since 1970, until the year 2106
)

// Series has points of data by time, such as figures for charts. A lost point only leaves a
// gap in a chart. The points are in the order in which they were appended. That is the order
// of their times unless a clock went back. It is safe for concurrent use.
type Series struct {
	place // a LIST
	most  int
}

// Series returns the series with a name, which retains at most that many points.
func (d Documents) Series(name string, most int) Series {
	return Series{d.single("series:"+name, "list"), most}
}

// Most returns how many points the series retains.
func (s Series) Most() int { return s.most }

// Point is what a series has of one time.
type Point struct {
	At   time.Time // in whole seconds
	Data []byte
}

// Append appends a point and drops the oldest points above the number that the series
// retains. It returns false, and changes nothing, if the last point is of the same
// second. So it is safe to repeat, and if several processes append a point of one time
// the first wins. A Redis at its memory limit accepts points all the same, because their
// number is bounded.
func (s Series) Append(ctx context.Context, p Point) (bool, error) {
	seconds := p.At.Unix()
	var wrongTime error
	if seconds < 0 || seconds > math.MaxUint32 {
		wrongTime = fmt.Errorf("no time of the years 1970 to 2105: %v", p.At)
	}
	if err := refused("append point", wrongNumber("most", s.most, 2, MaxPoints), wrongSize("data", len(p.Data), 1, MaxPoint), wrongTime); err != nil {
		return false, err
	}
	text := append(binary.BigEndian.AppendUint32(nil, uint32(seconds)), p.Data...)
	return redis.Bool(s.run(ctx, seriesAppendScript, 1, text, s.most))
}

// Last returns the n newest points behind the skip newest ones, in the order in which they
// were appended, and the time by Redis' clock. Entries that are not points are left out, so
// only an empty reply says that there are no more.
func (s Series) Last(ctx context.Context, skip, n int) ([]Point, time.Time, error) {
	if err := refused("read points", wrongNumber("at once", n, 1, MaxPointsRead), wrongNumber("skip", skip, 0, MaxPoints)); err != nil {
		return nil, time.Time{}, err
	}
	now, replies, err := s.timed(ctx, "read points", wire.Command{"LRANGE", s.key(0), -skip - n, -skip - 1})
	if err != nil {
		return nil, time.Time{}, err
	}
	texts, err := redis.ByteSlices(replies[0], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read points: %w", err)
	}
	points := make([]Point, 0, len(texts))
	for _, text := range texts {
		if len(text) > secondsWidth {
			points = append(points, Point{time.Unix(int64(binary.BigEndian.Uint32(text)), 0), text[secondsWidth:]})
		}
	}
	return points, now, nil
}
