package poller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// taken takes the next shard and expects it to be want.
func (t *timetable) taken(tb testing.TB, now time.Time, want int) {
	tb.Helper()
	if shard, ok, wait := t.take(now, time.Minute); !ok || shard != want || wait != 0 {
		tb.Errorf("took %d, %v, wait %v; want %d", shard, ok, wait, want)
	}
}

// waits expects no shard to be ready, and the wait until the next one to be want.
func (t *timetable) waits(tb testing.TB, now time.Time, want time.Duration) {
	tb.Helper()
	if shard, ok, wait := t.take(now, time.Minute); ok || wait != want {
		tb.Errorf("took %d, %v, wait %v; want to wait %v", shard, ok, wait, want)
	}
}

func (t *timetable) signalled() bool {
	select {
	case <-t.sooner:
		return true
	default:
		return false
	}
}

func TestShardsAreTakenOneAfterTheOther(t *testing.T) {
	table := newTimetable(3, noon)
	for _, shard := range []int{0, 1, 2} {
		table.taken(t, noon, shard)
	}
	table.waits(t, noon, time.Minute) // all are busy
	for _, shard := range []int{2, 0, 1} {
		table.put(shard, noon)
	}
	for _, shard := range []int{0, 1, 2, 0, 1, 2, 0} {
		table.taken(t, noon, shard)
		table.put(shard, noon)
	}
	// A shard that is always ready does not keep the others waiting.
	table.taken(t, noon, 1)
	table.put(1, noon.Add(time.Second))
	for _, shard := range []int{2, 0, 2, 0} {
		table.taken(t, noon, shard)
		table.put(shard, noon)
	}
	for _, shard := range []int{1, 2, 0, 1} {
		table.taken(t, noon.Add(time.Second), shard)
		table.put(shard, noon)
	}
}

func TestNoShardBeforeItsTimeAndNoneTwiceAtOnce(t *testing.T) {
	table := newTimetable(3, noon)
	for shard := range 3 {
		table.taken(t, noon, shard)
	}
	table.put(0, noon.Add(30*time.Second))
	table.put(1, noon.Add(10*time.Second))
	table.put(2, noon.Add(time.Hour))
	table.waits(t, noon, 10*time.Second)
	table.waits(t, noon.Add(10*time.Second-1), 1)
	table.taken(t, noon.Add(10*time.Second), 1)
	table.waits(t, noon.Add(10*time.Second), 20*time.Second)
	table.put(1, noon.Add(time.Hour))
	table.taken(t, noon.Add(30*time.Second), 0)
	table.waits(t, noon.Add(40*time.Second), time.Minute) // idle is the longest wait
}

func TestBringMovesEarlierNeverLater(t *testing.T) {
	table := newTimetable(1, noon)
	table.taken(t, noon, 0)
	table.put(0, noon.Add(30*time.Second))
	table.signalled()
	table.bring(0, noon.Add(40*time.Second))
	if table.signalled() {
		t.Error("a later time woke somebody")
	}
	table.waits(t, noon, 30*time.Second)
	table.bring(0, noon.Add(5*time.Second))
	if !table.signalled() {
		t.Error("an earlier time woke nobody")
	}
	table.waits(t, noon, 5*time.Second)
	table.bring(0, noon.Add(-time.Hour))
	table.taken(t, noon, 0)
}

func TestBringOfABusyShardIsObeyedWhenItIsPutBack(t *testing.T) {
	table := newTimetable(2, noon)
	table.taken(t, noon, 0)
	table.taken(t, noon, 1)
	table.bring(0, noon.Add(5*time.Second))
	table.waits(t, noon.Add(time.Hour), time.Minute) // it is busy nevertheless
	table.put(0, noon.Add(30*time.Second))
	table.waits(t, noon, 5*time.Second)
	table.bring(1, noon.Add(50*time.Second))
	table.put(1, noon.Add(20*time.Second))
	table.taken(t, noon.Add(5*time.Second), 0)
	table.waits(t, noon.Add(5*time.Second), 15*time.Second)
	// A time to which a shard was brought forward counts only once.
	table.put(0, noon.Add(30*time.Second))
	table.waits(t, noon.Add(5*time.Second), 15*time.Second)
	table.taken(t, noon.Add(20*time.Second), 1)
	table.waits(t, noon.Add(20*time.Second), 10*time.Second)
}

// TestClaimersMissNoShard lets claimers wait as the pool's do, while shards are brought
// forward. Each shard is looked at when its time comes.
func TestClaimersMissNoShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 8
		table := newTimetable(shards, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		var looked [shards]atomic.Int64
		var inside [shards]atomic.Bool
		var claiming sync.WaitGroup
		for range 3 {
			claiming.Go(func() {
				for ctx.Err() == nil {
					shard, ok, wait := table.take(time.Now(), time.Hour)
					if !ok {
						timer := time.NewTimer(wait)
						select {
						case <-ctx.Done():
						case <-timer.C:
						case <-table.sooner:
						}
						timer.Stop()
						continue
					}
					if inside[shard].Swap(true) {
						t.Errorf("two claimers in shard %d", shard)
					}
					time.Sleep(time.Millisecond)
					looked[shard].Add(1)
					inside[shard].Store(false)
					table.put(shard, time.Now().Add(time.Hour))
				}
			})
		}
		time.Sleep(time.Second)
		for round := range int64(50) {
			for shard := range shards {
				table.bring(shard, time.Now())
				if shard%3 == 0 {
					time.Sleep(500 * time.Microsecond)
				}
			}
			time.Sleep(100 * time.Millisecond)
			for shard := range shards {
				if n := looked[shard].Load(); n < round+2 {
					t.Fatalf("round %d: shard %d was looked at %d times", round, shard, n)
				}
			}
		}
		cancel()
		claiming.Wait()
	})
}

func TestReplicasDivideTheShardsAmongThem(t *testing.T) {
	const shards = 64
	names := []string{"alice00000", "bob0000000", "carol00000", "dave000000"}
	of := func(alive []string) map[string][]int {
		parts := make(map[string][]int)
		for _, self := range alive {
			table := newTimetable(shards, noon)
			table.divide(self, slices.Clone(alive), noon)
			for shard, ours := range table.ours {
				if ours {
					parts[self] = append(parts[self], shard)
				}
			}
		}
		return parts
	}
	owner := func(parts map[string][]int) (owners [shards]string) {
		for name, part := range parts {
			for _, shard := range part {
				if owners[shard] != "" {
					t.Errorf("shard %d is %s's and %s's part", shard, owners[shard], name)
				}
				owners[shard] = name
			}
		}
		for shard, name := range owners {
			if name == "" {
				t.Errorf("shard %d is nobody's part", shard)
			}
		}
		return owners
	}
	all, fewer := of(names), of(names[:3])
	for name, part := range all {
		if len(part) < 4 || len(part) > 32 {
			t.Errorf("%s has %d of %d shards", name, len(part), shards)
		}
	}
	before, after := owner(all), owner(fewer)
	for shard := range shards {
		if before[shard] != after[shard] && before[shard] != "dave000000" {
			t.Errorf("shard %d went from %s to %s, and only dave is gone", shard, before[shard], after[shard])
		}
	}
	alone := newTimetable(shards, noon)
	alone.divide("alice00000", nil, noon) // not yet among those who are alive
	if slices.Contains(alone.ours, false) {
		t.Error("a replica that is alone has not all shards")
	}
	for _, chance := range []float64{0, 0.999} {
		if d := alone.patience(0, chance); d != 0 {
			t.Errorf("it waits %v for others", d)
		}
	}
}

// However many replicas there are, those to which a shard does not belong look at it, all together,
// a quarter as often as the one to which it belongs.
func TestOthersLookAtIdleShardsLessOften(t *testing.T) {
	names := []string{"alice00000", "bob0000000", "carol00000", "dave000000"}
	for n := 2; n <= len(names); n++ {
		for shard := range 8 {
			looks, owners := 0.0, 0
			for _, self := range names[:n] {
				table := newTimetable(8, noon)
				table.divide(self, slices.Clone(names[:n]), noon)
				if times := table.aloof(shard); times == 1 {
					owners++
				} else {
					looks += 1 / float64(times)
				}
			}
			if owners != 1 || looks < 0.24 || looks > 0.26 {
				t.Errorf("%d replicas: shard %d has %d of its own, and %.2f looks of others to one of its own", n, shard, owners, looks)
			}
		}
	}
}

// A replica that learns of others goes on looking at their shards when something is due there, and
// rarely where nothing is.
func TestShardThatIsNoLongerOursIsLookedAtWhenDue(t *testing.T) {
	table := newTimetable(16, noon)
	table.idle = time.Minute
	for shard := range 16 {
		table.taken(t, noon, shard)
		next := noon.Add(time.Minute)
		if shard%2 == 0 {
			next = noon.Add(time.Second)
		}
		table.put(shard, next)
	}
	table.divide("alice00000", []string{"alice00000", "bob0000000"}, noon)
	for shard, ours := range table.ours {
		want := noon.Add(time.Minute)
		switch {
		case shard%2 == 0:
			want = noon.Add(time.Second)
		case !ours:
			want = noon.Add(4 * time.Minute)
		}
		if !table.at[shard].Equal(want) {
			t.Errorf("shard %d, ours: %v, is looked at after %v, want %v", shard, ours, table.at[shard].Sub(noon), want.Sub(noon))
		}
	}
}

func TestShardThatBecomesOursIsLookedAtNow(t *testing.T) {
	table := newTimetable(16, noon)
	table.divide("alice00000", []string{"alice00000", "bob0000000"}, noon)
	for shard := range 16 {
		table.taken(t, noon, shard)
		table.put(shard, noon.Add(time.Hour))
	}
	var bobs []string
	for shard, ours := range table.ours {
		if !ours {
			bobs = append(bobs, fmt.Sprint(shard))
			if d := table.patience(shard, 0.5); d <= 0 || d > time.Second {
				t.Errorf("patience of %v with shard %d", d, shard)
			}
		}
	}
	table.signalled()
	table.divide("alice00000", []string{"alice00000"}, noon.Add(time.Second))
	if !table.signalled() {
		t.Error("nobody was woken")
	}
	var now []string
	for {
		shard, ok, _ := table.take(noon.Add(time.Second), time.Minute)
		if !ok {
			break
		}
		now = append(now, fmt.Sprint(shard))
	}
	slices.Sort(bobs)
	slices.Sort(now)
	if !slices.Equal(now, bobs) || len(bobs) == 0 {
		t.Errorf("shards %v are looked at, want bob's %v", now, bobs)
	}
}
