package credential

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	noteScript = wire.NewScript("note credential", lua("note"))
	lookScript = wire.NewScript("look at credential", lua("look"))
)

const (
	indexMost = 10_000             // members of an index; the latest times stay
	indexKeep = 7 * 24 * time.Hour // since the last settling of a credential
	ownerMost = 512                // bytes of an owner that indexes have
	tailWidth = 32                 // of a credential's key, after its owner's tag

	// MostListed is the most entries that List and Paused may be asked for.
	MostListed = 200
)

// indexes returns the keys of two ZSETs for operators. One has credentials, as a part of
// the key and the owner -> when it was last settled. The other has paused owners, as the
// owner -> until when. Owners are in clear.
func (s Store) indexes() (settled, paused string) {
	tag := "{" + s.wire.Namespace() + ":credentials}:"
	return tag + "settled", tag + "paused"
}

// note puts a member into an index. If that fails, only operators miss it.
func (s Store) note(ctx context.Context, index, member string, at, keep time.Duration) {
	_, err := wire.Mending(ctx, s.wire, []wire.Key{{index, "zset"}}, func() (any, error) {
		return s.wire.Eval(ctx, noteScript, []string{index}, []any{member, at.Milliseconds(), keep.Milliseconds(), indexMost})
	})
	if err != nil {
		s.wire.Log().Debug("a credential is not listed for operators", "error", err)
	}
}

// noteSettled lists a settled credential.
func (s Store) noteSettled(ctx context.Context, ref Ref) {
	if len(ref.Owner) > ownerMost {
		return
	}
	key, _ := keysOf(s.wire.Namespace(), ref)
	settled, _ := s.indexes()
	s.note(ctx, settled, key[len(key)-tailWidth:]+ref.Owner, 0, indexKeep)
}

// notePaused lists a paused owner.
func (s Store) notePaused(ctx context.Context, owner string, d time.Duration) {
	if len(owner) > ownerMost {
		return
	}
	_, paused := s.indexes()
	s.note(ctx, paused, owner, d, 0)
}

// Listed is what is known about a credential, for operators. Times are by Redis' clock; a
// zero time means that the field does not apply now.
type Listed struct {
	Owner string
	ID    string // distinguishes the owner's credentials, and says nothing else

	Fetched time.Time // when fetching the value began
	Expires time.Time // of the value
	Refresh time.Time // when the value is due to be replaced

	Fetching time.Time // until when a caller may be fetching it
	Refused  time.Time // until when no replica tries again because the third party refuses the secret
	Failed   time.Time // the same after a fetch that failed
	Reason   string    // of Refused or Failed

	Paused      time.Time // until when the owner is left alone
	PauseReason string
}

// List returns credentials that were settled in the last week, the last settled first,
// the number that it went through, and the time by Redis' clock. It skips the first skip
// of them and all about which nothing is known any more. It returns at most most, and
// never a value.
func (s Store) List(ctx context.Context, skip, most int) (listed []Listed, passed int, now time.Time, err error) {
	if skip < 0 || most < 1 || most > MostListed {
		return nil, 0, now, fmt.Errorf("%w: list credentials: must be 1 to %d at once, not %d behind %d", wire.ErrInput, MostListed, most, skip)
	}
	settled, _ := s.indexes()
	members, now, err := s.index(ctx, settled, wire.Command{"ZREVRANGE", settled, skip, skip + most - 1})
	if err != nil || len(members) == 0 {
		return nil, 0, now, err
	}
	keys := make([][]string, 0, len(members))
	for _, m := range members {
		if len(m) <= tailWidth {
			continue // not ours
		}
		owner := m[tailWidth:]
		_, pause := keysOf(s.wire.Namespace(), Ref{Owner: owner})
		keys = append(keys, []string{s.keyAt(owner, m[:tailWidth]), pause})
		listed = append(listed, Listed{Owner: owner, ID: m[:8]})
	}
	listed, err = s.look(ctx, "list credentials", listed, keys)
	return listed, len(members), now, err
}

// look adds what is known, given the keys of each credential. Those of which nothing is known
// are left out.
func (s Store) look(ctx context.Context, doing string, listed []Listed, keys [][]string) ([]Listed, error) {
	calls := make([]wire.Call, len(keys))
	for i := range keys {
		calls[i].Keys = keys[i]
	}
	found := listed[:0]
	for i, reply := range s.wire.EvalEach(ctx, lookScript, calls) {
		if wire.HasCode(reply.Err, "WRONGTYPE") {
			continue // the next Take sets it aside
		}
		known, err := false, reply.Err
		if err == nil {
			known, err = listed[i].read(reply.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		if known {
			found = append(found, listed[i])
		}
	}
	return found, nil
}

// read reads the reply of look.lua, and reports whether anything is known.
func (l *Listed) read(reply any) (bool, error) {
	values, err := redis.Strings(reply, nil)
	if err != nil || len(values) != 1 && len(values) != 11 {
		return false, errors.Join(wire.ErrReply, err)
	}
	if len(values) == 1 {
		return false, nil
	}
	now, _ := strconv.ParseInt(values[0], 10, 64)
	at := func(i int) time.Time {
		if ms, err := strconv.ParseInt(values[i], 10, 64); err == nil && ms > now && ms < now+2*longest.Milliseconds() {
			return time.UnixMilli(ms)
		}
		return time.Time{}
	}
	if l.Expires = at(3); values[1] == "1" && !l.Expires.IsZero() {
		if version, err := strconv.ParseInt(values[2], 10, 64); err == nil && version > 0 {
			l.Fetched = time.UnixMilli(min(version, now)) // a fence is never behind the clock
		}
		if refresh, err := strconv.ParseInt(values[4], 10, 64); err == nil && refresh > 0 {
			l.Refresh = time.UnixMilli(refresh)
		}
	} else {
		l.Expires = time.Time{}
	}
	l.Fetching, l.Refused, l.Failed, l.Paused = at(5), at(6), at(7), at(9)
	if !l.Refused.IsZero() || !l.Failed.IsZero() {
		l.Reason = values[8]
	}
	if !l.Paused.IsZero() {
		l.PauseReason = values[10]
	}
	return true, nil
}

// Pause is an owner that is paused because its third party asked for that.
type Pause struct {
	Owner  string
	Until  time.Time
	Reason string
}

// Paused returns paused owners, the longest pause first, how many more there are, and the
// time by Redis' clock.
func (s Store) Paused(ctx context.Context, most int) (pauses []Pause, more int, now time.Time, err error) {
	if most < 1 || most > MostListed {
		return nil, 0, now, fmt.Errorf("%w: list pauses: must be 1 to %d at once, not %d", wire.ErrInput, MostListed, most)
	}
	_, paused := s.indexes()
	owners, now, err := s.index(ctx, paused, wire.Command{"ZREVRANGE", paused, 0, most - 1})
	if err != nil || len(owners) == 0 {
		return nil, 0, now, err
	}
	listed, keys := make([]Listed, len(owners)), make([][]string, len(owners))
	for i, owner := range owners {
		_, pause := keysOf(s.wire.Namespace(), Ref{Owner: owner})
		listed[i].Owner, keys[i] = owner, []string{pause, pause}
	}
	if listed, err = s.look(ctx, "list pauses", listed, keys); err != nil {
		return nil, 0, now, err
	}
	for _, l := range listed {
		if !l.Paused.IsZero() {
			pauses = append(pauses, Pause{l.Owner, l.Paused, l.PauseReason})
		}
	}
	if len(owners) == most {
		replies, err := s.wire.Pipeline(ctx, paused, wire.Command{"ZCOUNT", paused, now.UnixMilli(), "+inf"})
		if err != nil {
			return nil, 0, now, fmt.Errorf("list pauses: %w", err)
		}
		all, err := redis.Int(replies[0], nil)
		if err != nil {
			return nil, 0, now, fmt.Errorf("list pauses: %w", err)
		}
		more = max(0, all-most)
	}
	return pauses, more, now, nil
}

// index reads members of an index, and the time.
func (s Store) index(ctx context.Context, key string, read wire.Command) ([]string, time.Time, error) {
	replies, err := wire.Mending(ctx, s.wire, []wire.Key{{key, "zset"}}, func() ([]any, error) {
		return s.wire.Pipeline(ctx, key, wire.Command{"TIME"}, read)
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list credentials: %w", err)
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return nil, now, err
	}
	members, err := redis.Strings(replies[1], nil)
	return members, now, err
}
