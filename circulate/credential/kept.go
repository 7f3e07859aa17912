package credential

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Kept is a credential with its value, for backups.
type Kept struct {
	Owner   string
	ID      string // stands for its name: 32 hexadecimal digits
	Value   []byte // as it was settled
	Expires time.Time
	Refresh time.Time // when it is due to be replaced
}

// Values returns credentials that have a value, of those that List lists, and how many of
// those it passed. It passes over skip of them, and returns at most most.
func (s Store) Values(ctx context.Context, skip, most int) (kept []Kept, passed int, err error) {
	if skip < 0 || most < 1 || most > MostListed {
		return nil, 0, fmt.Errorf("%w: values of credentials: must be 1 to %d at once, not %d behind %d", wire.ErrInput, MostListed, most, skip)
	}
	settled, _ := s.indexes()
	members, now, err := s.index(ctx, settled, wire.Command{"ZREVRANGE", settled, skip, skip + most - 1})
	if err != nil {
		return nil, 0, err
	}
	for _, m := range members {
		if len(m) <= tailWidth {
			continue // not ours
		}
		one := Kept{ID: m[:tailWidth], Owner: m[tailWidth:]}
		key := s.keyAt(one.Owner, one.ID)
		replies, err := s.wire.Pipeline(ctx, key, wire.Command{"HMGET", key, "value", "expires", "refresh"})
		if wire.HasCode(err, "WRONGTYPE") {
			continue // who takes it next sets it aside
		}
		if err != nil {
			return nil, 0, fmt.Errorf("values of credentials: %w", err)
		}
		fields, err := redis.ByteSlices(replies[0], nil)
		if err != nil || len(fields) != 3 {
			return nil, 0, fmt.Errorf("values of credentials: %w", errors.Join(wire.ErrReply, err))
		}
		expires, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil || len(fields[0]) == 0 || expires <= now.UnixMilli() {
			continue
		}
		refresh, _ := strconv.ParseInt(string(fields[2]), 10, 64)
		one.Value, one.Expires, one.Refresh = fields[0], time.UnixMilli(expires), time.UnixMilli(refresh)
		kept = append(kept, one)
	}
	return kept, len(members), nil
}

// Restore stores a credential of a backup in place of what is known of it, and returns false
// if it has expired. Nobody may be using the namespace.
func (s Store) Restore(ctx context.Context, k Kept) (bool, error) {
	errs := []error{Ref{Owner: k.Owner, Name: "-"}.validate()}
	if _, err := hex.DecodeString(k.ID); err != nil || len(k.ID) != tailWidth {
		errs = append(errs, fmt.Errorf("id: must have %d hexadecimal digits", tailWidth))
	}
	if len(k.Value) == 0 || len(k.Value) > MaxValue {
		errs = append(errs, fmt.Errorf("value: must have 1 to %d bytes, has %d", MaxValue, len(k.Value)))
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("%w: restore credential: %w", wire.ErrInput, err)
	}
	key := s.keyAt(k.Owner, k.ID)
	replies, err := s.wire.Pipeline(ctx, key, wire.Command{"TIME"})
	if err != nil {
		return false, fmt.Errorf("restore credential: %w", err)
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return false, err
	}
	left := k.Expires.Sub(now)
	if left < time.Millisecond || left > longest {
		return false, nil
	}
	// Fences are never behind the clock, so the next one is above this one.
	at := now.UnixMilli()
	_, err = s.wire.Pipeline(ctx, key,
		wire.Command{"HSET", key, "value", k.Value, "version", at, "fence", at, "expires", k.Expires.UnixMilli(), "refresh", k.Refresh.UnixMilli(), "seen", at},
		wire.Command{"PEXPIRE", key, (left + linger).Milliseconds()})
	if err != nil {
		return false, fmt.Errorf("restore credential: %w", err)
	}
	if len(k.Owner) <= ownerMost {
		settled, _ := s.indexes()
		s.note(ctx, settled, k.ID+k.Owner, 0, indexKeep)
	}
	return true, nil
}

// linger is how long a credential is remembered after it expired, as settle has it.
const linger = time.Hour

// keyAt returns the Redis key of an owner's credential.
func (s Store) keyAt(owner, id string) string {
	_, pause := keysOf(s.wire.Namespace(), Ref{Owner: owner})
	return pause[:len(pause)-len("pause")] + id
}
