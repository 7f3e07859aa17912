package circulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var stalenessScript = wire.NewScript("staleness", lua("staleness"))

// staleBuckets cover 2^34 seconds, eight to each doubling.
const staleBuckets = 34*8 + 2

// Ages are how long ago accounts were last checked with complete success, in buckets.
// Eight buckets make a doubling, so a quantile is at most 9 % too high.
type Ages struct {
	Now     time.Time // Redis' clock at the last page
	Scanned int       // accounts that are not parked
	Parked  int       // parked accounts, which are left out
	Max     time.Duration
	Stalest string // an account that has Max; empty if there is none

	buckets [staleBuckets]int
}

// Quantile returns the age that a share of the accounts does not exceed, or zero if there
// are no accounts.
func (a *Ages) Quantile(share float64) time.Duration {
	rank := int(math.Ceil(share * float64(a.Scanned)))
	for b, n := range a.buckets {
		if rank -= n; rank <= 0 && n > 0 {
			return min(bucketEnd(b), a.Max)
		}
	}
	return a.Max
}

// Sum returns about the sum of all ages, in seconds. Each age counts as the end of its
// bucket. The sum is no Duration, which could not hold a million years.
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

// bucketBegin is the lowest age, in whole seconds, that a bucket takes.
func bucketBegin(b int) time.Duration {
	if b == 0 {
		return 0
	}
	return bucketEnd(b-1) + time.Second
}

// Add adds the ages of another page.
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

// StaleFilter selects the accounts that a scan reports in addition to the ages of all.
// The zero StaleFilter selects none.
type StaleFilter struct {
	Kinds []string      // reported one by one: accounts whose records name one of these kinds …
	From  time.Duration // … and that are at least this stale, in whole seconds

	// Accounts at least this stale, in whole seconds, are reported in groups by kind and
	// cadence. So are accounts whose last check failed: its mark is neither MarkOK nor in
	// Sound. Zero: no groups are reported.
	Slow  time.Duration
	Sound []Mark

	// Excused are marks too: an account whose last check ended with one of them is in no group.
	Excused []Mark
}

// args returns the script's arguments.
func (f StaleFilter) args() []any {
	var slow any = ""
	if f.Slow > 0 {
		slow = int64(f.Slow / time.Second)
	}
	sound, excused := []byte{byte(MarkOK)}, []byte{}
	for _, mark := range f.Sound {
		sound = append(sound, byte(mark))
	}
	for _, mark := range f.Excused {
		excused = append(excused, byte(mark))
	}
	return append([]any{int64(f.From / time.Second), slow, sound, excused}, anyOf(f.Kinds)...)
}

// Stale is an account that a scan reports by itself. Its record may name one of the
// requested kinds in another place than its kind.
type Stale struct {
	ID     string
	Age    time.Duration // since a check last succeeded completely
	Parked time.Time     // since when it is parked; zero: it is not
	Reason string        // why it is parked
	Record []byte
}

// SlowGroup summarizes a page's accounts of one kind and cadence. None of them is parked.
type SlowGroup struct {
	Kind    string // empty if the records cannot be read
	Cadence string // as in the records
	Stalest string // the id of the stalest account
	Counts  []SlowCount
}

// SlowCount is how many accounts of a SlowGroup are alike in age and state.
type SlowCount struct {
	Age            time.Duration // at least, and less than a tenth more
	Failing        bool          // their last check failed
	NeverSucceeded bool          // they were checked, but no check ever succeeded completely
	Accounts       int
}

// StalePage is the result of one step of a scan for staleness.
type StalePage struct {
	Ages
	Told []Stale
	Slow []SlowGroup
	Read int    // bytes of the records that the step read
	Next string // the cursor to go on with; ScanDone at the end
}

// Staleness looks at about n of a shard's accounts, wherever they are. The scan begins
// with an empty cursor and ends when the next one is ScanDone. A step costs Redis five
// commands, including the commands inside the script, one more if it reports accounts,
// and one for each parked account that it reports. An account that is registered
// throughout is counted once, in rare cases twice.
func (r *Ring) Staleness(ctx context.Context, shard int, cursor string, n int, tell StaleFilter) (StalePage, error) {
	if cursor == "" {
		cursor = ScanDone
	}
	k := &r.keys[shard]
	args := append([]any{cursor, n}, tell.args()...)
	answer, err := redis.Values(r.wire.Run(ctx, stalenessScript, shard, []string{k.tickets, k.parked, k.accounts, k.reasons}, args...))
	if err != nil {
		return StalePage{}, err
	}
	page, err := readStalePage(answer)
	if err != nil {
		return StalePage{}, fmt.Errorf("staleness, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	return page, nil
}

func readStalePage(answer []any) (StalePage, error) {
	var p StalePage
	var now, most int64
	var stalest []byte
	var told, slow []any
	rest, err := redis.Scan(answer, &now, &p.Next, &p.Parked, &most, &stalest, &told, &slow, &p.Read)
	if err != nil {
		return StalePage{}, err
	}
	if p.Told, err = readStale(told); err != nil {
		return StalePage{}, err
	}
	if p.Slow, err = readSlow(slow); err != nil {
		return StalePage{}, err
	}
	p.Now, p.Max, p.Stalest = time.UnixMilli(now), time.Duration(max(0, most))*time.Second, string(stalest)
	pairs, err := redis.Ints(rest, nil)
	if err != nil || len(pairs)%2 != 0 {
		return StalePage{}, errors.Join(wire.ErrReply, err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] < 0 {
			return StalePage{}, wire.ErrReply
		}
		p.buckets[min(pairs[i], staleBuckets-1)] += pairs[i+1]
		p.Scanned += pairs[i+1]
	}
	return p, nil
}

func readSlow(told []any) ([]SlowGroup, error) {
	var all []SlowGroup
	for len(told) > 0 {
		var g SlowGroup
		var counts []any
		rest, err := redis.Scan(told, &g.Kind, &g.Cadence, &g.Stalest, &counts)
		if err != nil {
			return nil, err
		}
		pairs, err := redis.Ints(counts, nil)
		if err != nil || len(pairs)%2 != 0 {
			return nil, errors.Join(wire.ErrReply, err)
		}
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] < 0 {
				return nil, wire.ErrReply
			}
			g.Counts = append(g.Counts, SlowCount{
				Age: bucketBegin(pairs[i] / 4), Failing: pairs[i]&1 > 0, NeverSucceeded: pairs[i]&2 > 0, Accounts: pairs[i+1],
			})
		}
		all, told = append(all, g), rest
	}
	return all, nil
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

// KeepStaleness stores the result of a whole scan, for LastStaleness. The result is
// opaque to the ring; the newest wins.
func (r *Ring) KeepStaleness(ctx context.Context, found []byte) error {
	return r.store(ctx, "keep staleness", stalenessKey(r.namespace), found)
}

// LastStaleness returns what KeepStaleness stored last, or nil.
func (r *Ring) LastStaleness(ctx context.Context) ([]byte, error) {
	return r.stored(ctx, "last staleness", stalenessKey(r.namespace))
}

// store stores something for the whole namespace.
func (r *Ring) store(ctx context.Context, doing, key string, found []byte) error {
	if _, err := r.wire.Pipeline(ctx, key, wire.Command{"SET", key, found}); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// stored returns what store stored last, or nil.
func (r *Ring) stored(ctx context.Context, doing, key string) ([]byte, error) {
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"GET", key})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return wire.BytesAt(replies, 0), nil
}
