package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed staleness.lua
var stalenessLua string

var stalenessScript = wire.NewScript("staleness", stalenessLua)

// staleBuckets reach over 2^34 seconds, eight to each doubling.
const staleBuckets = 34*8 + 2

// Ages are how long ago accounts were last checked with complete success, in
// buckets: eight to each doubling, so that a quantile is at most nine hundredths
// too high.
type Ages struct {
	Now     time.Time // Redis' clock at the last page
	Scanned int       // accounts that are not parked
	Parked  int       // those that are, and are left out
	Max     time.Duration
	Stalest string // an account that has Max; empty where there is none

	buckets [staleBuckets]int
}

// Quantile is the age that a share of the accounts does not exceed; zero where
// there are none.
func (a *Ages) Quantile(share float64) time.Duration {
	rank := int(math.Ceil(share * float64(a.Scanned)))
	for b, n := range a.buckets {
		if rank -= n; rank <= 0 && n > 0 {
			return min(bucketEnd(b), a.Max)
		}
	}
	return a.Max
}

// Sum is about the sum of all ages, in seconds: those of a bucket count as its
// end. A million years would not fit into a Duration.
func (a *Ages) Sum() float64 {
	var sum float64
	for b, n := range a.buckets {
		sum += float64(n) * min(bucketEnd(b), a.Max).Seconds()
	}
	return sum
}

// bucketEnd is the highest age, in whole seconds, that a bucket takes.
func bucketEnd(b int) time.Duration {
	if b == 0 {
		return 0
	}
	return time.Duration(math.Ceil(math.Exp2(float64(b)/8)-1e-9)-1) * time.Second
}

// Add adds what another page found.
func (a *Ages) Add(page Ages) {
	if page.Now.After(a.Now) {
		a.Now = page.Now
	}
	a.Scanned += page.Scanned
	a.Parked += page.Parked
	if page.Stalest != "" && (a.Stalest == "" || page.Max > a.Max) {
		a.Max, a.Stalest = page.Max, page.Stalest
	}
	for b, n := range page.buckets {
		a.buckets[b] += n
	}
}

// StaleFilter says which accounts a scan for staleness tells one by one. The zero
// StaleFilter is none.
type StaleFilter struct {
	Kinds []string      // whose records name one of these kinds …
	From  time.Duration // … and that are so stale, in whole seconds
}

// Stale is an account that a scan for staleness tells. Its record may name one of
// the kinds asked for elsewhere than as its kind.
type Stale struct {
	ID     string
	Age    time.Duration // since a check last succeeded completely
	Parked time.Time     // since when it is parked; the zero time: it is not
	Reason string        // why it is
	Record []byte
}

// Staleness looks at about n of a shard's accounts, wherever they are, and returns
// the cursor to go on with, until that is ScanDone; it begins with an empty one.
// It costs Redis five commands, the ones inside the script among them, and two
// more where some are told. An account that is registered throughout is counted,
// in rare cases twice.
func (r *Ring) Staleness(ctx context.Context, shard int, cursor string, n int, tell StaleFilter) (Ages, []Stale, string, error) {
	if cursor == "" {
		cursor = ScanDone
	}
	k := &r.keys[shard]
	args := append([]any{cursor, n, int64(tell.From / time.Second)}, anyOf(tell.Kinds)...)
	answer, err := redis.Values(r.wire.Run(ctx, stalenessScript, shard, []string{k.tickets, k.parked, k.accounts, k.reasons}, args...))
	if err != nil {
		return Ages{}, nil, "", err
	}
	ages, told, next, err := readAges(answer)
	if err != nil {
		return Ages{}, nil, "", fmt.Errorf("staleness, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	return ages, told, next, nil
}

func readAges(answer []any) (Ages, []Stale, string, error) {
	var a Ages
	var now, most int64
	var next string
	var stalest []byte
	var told []any
	rest, err := redis.Scan(answer, &now, &next, &a.Parked, &most, &stalest, &told)
	if err != nil {
		return Ages{}, nil, "", err
	}
	stale, err := readStale(told)
	if err != nil {
		return Ages{}, nil, "", err
	}
	a.Now, a.Max, a.Stalest = time.UnixMilli(now), time.Duration(max(0, most))*time.Second, string(stalest)
	pairs, err := redis.Ints(rest, nil)
	if err != nil || len(pairs)%2 != 0 {
		return Ages{}, nil, "", errors.Join(wire.ErrReply, err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] < 0 {
			return Ages{}, nil, "", wire.ErrReply
		}
		a.buckets[min(pairs[i], staleBuckets-1)] += pairs[i+1]
		a.Scanned += pairs[i+1]
	}
	return a, stale, next, nil
}

func readStale(told []any) ([]Stale, error) {
	var all []Stale
	for len(told) > 0 {
		var s Stale
		var age int64
		var parked []byte
		rest, err := redis.Scan(told, &s.ID, &age, &parked, &s.Reason, &s.Record)
		if err != nil {
			return nil, err
		}
		if len(parked) > 0 {
			if s.Parked, err = score(parked); err != nil {
				return nil, err
			}
		}
		s.Age, told = time.Duration(age)*time.Second, rest
		all = append(all, s)
	}
	return all, nil
}

// KeepStaleness keeps what a whole scan found, opaque to the ring, for
// LastStaleness; the newest wins.
func (r *Ring) KeepStaleness(ctx context.Context, found []byte) error {
	key := stalenessKey(r.namespace)
	if _, err := r.wire.Pipeline(ctx, key, wire.Command{"SET", key, found}); err != nil {
		return fmt.Errorf("keep staleness: %w", err)
	}
	return nil
}

// LastStaleness is what the last whole scan found, nil where there was none.
func (r *Ring) LastStaleness(ctx context.Context) ([]byte, error) {
	key := stalenessKey(r.namespace)
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"GET", key})
	if err != nil {
		return nil, fmt.Errorf("last staleness: %w", err)
	}
	if replies[0] == nil {
		return nil, nil
	}
	return redis.Bytes(replies[0], nil)
}
