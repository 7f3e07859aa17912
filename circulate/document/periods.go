package document

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var periodPutScript = wire.NewScript("put periods", lua("period_put"))

const (
	// MaxPeriod is the most bytes of the document of a period. With its number and its version it
	// just fits one of the sizes in which Redis takes memory.
	MaxPeriod = 14_000
	// MaxPeriodsAtOnce is the most documents that one call reads or writes.
	MaxPeriodsAtOnce = 128
)

// Level is the periods of one length. The latest ones are stored.
type Level struct {
	Name  string // a letter
	Every time.Duration
	Kept  int
}

// Number returns the number of the period that a time belongs to: how many periods of its length
// were before it since 1970.
func (l Level) Number(at time.Time) int64 { return at.UnixMilli() / l.Every.Milliseconds() }

// Begin returns when a period begins.
func (l Level) Begin(number int64) time.Time {
	return time.UnixMilli(number * l.Every.Milliseconds())
}

// lives returns for how long the level's documents are stored.
func (l Level) lives() time.Duration { return l.Every * time.Duration(l.Kept) }

// Periods has a document for each of the latest periods of some lengths, such as what happened in
// each minute of the last hours and in each hour of the last days. The document of a period takes
// the place of one that is older by the number of those that are stored, so they never become more.
// All end when none has been written for as long as the longest level is stored.
type Periods struct{ place } // a HASH: as in put periods

// Activity returns what checks did, by period; see package accounts/activity.
func (d Documents) Activity() Periods { return Periods{d.single("activity", "hash")} }

// Period is the document of a period.
type Period struct {
	Level   Level
	Number  int64
	Version int64 // one more with each change; 0: there is none yet
	Text    []byte
}

func (p *Period) field() string {
	return p.Level.Name + ":" + strconv.FormatInt(p.Number%int64(p.Level.Kept), 10)
}

// Read sets Version and Text of each period to what is stored: 0 and nil if nothing is. It returns
// the time by Redis' clock.
func (p Periods) Read(ctx context.Context, all []Period) (time.Time, error) {
	if err := refused("read periods", wrongNumber("periods", len(all), 1, MaxPeriodsAtOnce)); err != nil {
		return time.Time{}, err
	}
	ask := wire.Command{"HMGET", p.key(0)}
	for i := range all {
		ask = append(ask, all[i].field())
	}
	now, replies, err := p.timed(ctx, "read periods", ask)
	if err != nil {
		return time.Time{}, err
	}
	values, err := redis.Values(replies[0], nil)
	if err != nil || len(values) != len(all) {
		return time.Time{}, fmt.Errorf("read periods: %w", errors.Join(wire.ErrReply, err))
	}
	for i, value := range values {
		text, _ := value.([]byte)
		all[i].Version, all[i].Text = 0, nil
		number, rest, _ := strings.Cut(string(text), "|")
		version, rest, ok := strings.Cut(rest, "|")
		n, err := strconv.ParseInt(version, 10, 64)
		if ok && err == nil && number == strconv.FormatInt(all[i].Number, 10) && len(rest) <= MaxPeriod {
			all[i].Version, all[i].Text = n, []byte(rest)
		}
	}
	return now, nil
}

// Put writes the documents of periods, each in place of the one with its version. It writes all or
// none, and returns ErrChanged if one of them has another version. It is safe to repeat.
func (p Periods) Put(ctx context.Context, all []Period) error {
	faults := []error{wrongNumber("periods", len(all), 1, MaxPeriodsAtOnce)}
	lives := time.Duration(0)
	for i := range all {
		lives = max(lives, all[i].Level.lives())
		faults = append(faults, wrongSize("text", len(all[i].Text), 1, MaxPeriod))
	}
	if err := refused("put periods", faults...); err != nil {
		return err
	}
	args := []any{lives.Milliseconds()}
	for i := range all {
		args = append(args, all[i].field(), all[i].Number, all[i].Version, all[i].Text)
	}
	done, err := redis.Bool(p.run(ctx, periodPutScript, 1, args...))
	if err != nil {
		return err
	}
	if !done {
		return ErrChanged
	}
	return nil
}
