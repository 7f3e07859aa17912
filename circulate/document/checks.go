package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MostChecks is how many checks of an account are stored.
	MostChecks = 20
	// MostWatched is how many accounts are looked at, at most. The one that was not looked at for the
	// longest makes room.
	MostWatched = 100
	// WatchLives is how long pollers report the checks of an account after somebody has looked at them,
	// and how long the last report is stored.
	WatchLives = 10 * time.Minute

	// MaxCheck is the most bytes of the document of a check.
	MaxCheck = 1 << 10

	watchAgain = WatchLives - time.Minute // a look that ends later is not prolonged
)

// Checks has documents about the latest checks of accounts that somebody looks at. A look asks pollers
// to report, and is forgotten after WatchLives. A report that is lost leaves a gap.
type Checks struct{ of Documents }

// Checks returns the latest checks.
func (d Documents) Checks() Checks { return Checks{d} }

// place returns the keys: watched ZSET, account -> until when pollers report, unix ms; and a LIST for
// each of the accounts, the latest check first.
func (c Checks) place(accounts ...string) place {
	names := []string{"watched", "zset"}
	for _, id := range accounts {
		names = append(names, "of:"+id, "list")
	}
	return c.of.place("checks", names...)
}

// Look returns what pollers reported of an account, the latest report first. It asks pollers to report
// from now on. First says that they had not been asked before.
func (c Checks) Look(ctx context.Context, account string) (texts [][]byte, first bool, err error) {
	at := c.place(account)
	now, replies, err := at.timed(ctx, "checks of an account",
		wire.Command{"ZSCORE", at.key(0), account}, wire.Command{"LRANGE", at.key(1), 0, MostChecks - 1})
	if err != nil {
		return nil, false, err
	}
	until, badUntil := redis.Float64(replies[0], nil)
	texts, badTexts := redis.ByteSlices(replies[1], nil)
	if first = errors.Is(badUntil, redis.ErrNil); first {
		badUntil = nil
	}
	if err := errors.Join(badUntil, badTexts); err != nil {
		return nil, false, fmt.Errorf("checks of an account: %w", err)
	}
	left := time.UnixMilli(int64(until)).Sub(now)
	first = first || left <= 0
	if first || left < watchAgain || left > WatchLives {
		_, err = at.do(ctx, "look at an account",
			wire.Command{"ZADD", at.key(0), now.Add(WatchLives).UnixMilli(), account},
			wire.Command{"ZREMRANGEBYSCORE", at.key(0), "-inf", now.UnixMilli()},
			wire.Command{"ZREMRANGEBYRANK", at.key(0), 0, -MostWatched - 1},
			wire.Command{"PEXPIRE", at.key(0), WatchLives.Milliseconds()})
	}
	return texts, first, err
}

// Watched returns the accounts whose checks pollers report. It costs one command.
func (c Checks) Watched(ctx context.Context) ([]string, error) {
	at := c.place()
	replies, err := at.do(ctx, "watched accounts", wire.Command{"ZREVRANGE", at.key(0), 0, MostWatched - 1})
	if err != nil {
		return nil, err
	}
	return redis.Strings(replies[0], nil)
}

// Report adds documents about checks, by account, the latest check last. Of an account the last
// MostChecks are stored.
func (c Checks) Report(ctx context.Context, all map[string][][]byte) error {
	faults := []error{wrongNumber("accounts", len(all), 1, MostWatched)}
	accounts := slices.Collect(maps.Keys(all))
	for _, id := range accounts {
		for _, text := range all[id] {
			faults = append(faults, wrongSize("check", len(text), 1, MaxCheck))
		}
	}
	if err := refused("report checks", faults...); err != nil {
		return err
	}
	at := c.place(accounts...)
	var commands []wire.Command
	for i, id := range accounts {
		key, push := at.key(i+1), wire.Command{"LPUSH", at.key(i + 1)}
		for _, text := range all[id][max(0, len(all[id])-MostChecks):] {
			push = append(push, text)
		}
		if len(push) > 2 {
			commands = append(commands, push, wire.Command{"LTRIM", key, 0, MostChecks - 1}, wire.Command{"PEXPIRE", key, WatchLives.Milliseconds()})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	_, err := at.do(ctx, "report checks", commands...)
	return err
}
