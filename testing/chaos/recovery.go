package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// fullShare is how much of the usual checks a second is full throughput, and
	// rateOver the time over which they are counted.
	fullShare = 0.9
	rateOver  = 2 * time.Second

	restWithin  = 20 * time.Second // in which accounts whose checks did not fail are checked again
	wholeWithin = time.Minute      // in which all are, after the end of the fault

	// overdue is by how much longer than usual an account must wait between two good
	// checks to count as interrupted.
	overdue = 1500 * time.Millisecond

	longestCadence = 2 * time.Second
)

// usual is how an account is checked when nothing is broken.
type usual struct {
	cadence time.Duration
	delay   time.Duration // that its answers always take
	host    *host
	rate    float64 // checks a second, as counted before the first fault
}

// wait is the longest time between two checks of it that is none too long.
func (u usual) wait() time.Duration { return u.cadence + u.delay + overdue }

// rate returns how many checks of some accounts began in a second, and usually do.
func (w *world) rate(ids []string) (is, usually float64) {
	for _, id := range ids {
		usually += w.usual[id].rate
	}
	return float64(w.third.begun(ids, time.Now().Add(-rateOver))) / rateOver.Seconds(), usually
}

// ailing are accounts that were put off: their last check failed because of a fault, and
// they wait out their backoff, half a minute at most after a first failure. Nobody
// hurries them.
type ailing struct {
	since map[string]*turn // whose end counts
	ended time.Time        // when the last fault did
	noted time.Time
}

const noteEvery = 300 * time.Millisecond

// note takes account of who is put off now, and of who was checked well again. An account
// that is not within wholeWithin is a violation.
func (a *ailing) note(t *turn) {
	a.ended = t.healed
	if time.Since(a.noted) > noteEvery {
		a.noted = time.Now()
		for _, id := range t.putOff() {
			if a.since[id] == nil {
				a.since[id] = t
				if t.hit != nil && !t.fault.control {
					t.hits(id)
				}
			}
		}
	}
	a.review(t.third)
}

// putOff returns the accounts that are due later than their cadence has it; none where
// Redis cannot be asked.
func (w *world) putOff() []string {
	from, err := w.reader()
	if err != nil {
		return nil
	}
	defer from.close()
	now := time.Now()
	var ids []string
	for shard := range shards {
		later, err := redis.Strings(from.shard(shard).Do("ZRANGEBYSCORE", key(shard, "schedule"), now.UnixMilli(), "+inf", "WITHSCORES"))
		if err != nil {
			continue
		}
		for i := 0; i+1 < len(later); i += 2 {
			due, err := strconv.ParseFloat(later[i+1], 64)
			if u, ok := w.usual[later[i]]; ok && err == nil && time.UnixMilli(int64(due)).After(now.Add(u.wait())) {
				ids = append(ids, later[i])
			}
		}
	}
	return ids
}

// review lets go of those that are well, and of those that are not within the time,
// though no fault came meanwhile.
func (a *ailing) review(third *third) {
	late := make(map[*turn][]string)
	for id, t := range a.since {
		switch {
		case len(third.unchecked([]string{id}, t.healed)) == 0:
			delete(a.since, id)
		case time.Since(t.healed) > wholeWithin && time.Since(a.ended) > restWithin:
			delete(a.since, id)
			late[t] = append(late[t], id)
		}
	}
	for t, ids := range late {
		slices.Sort(ids)
		t.fail(fmt.Sprintf("I6: not checked again %v after its end: %s%s", wholeWithin, strings.Join(ids[:min(5, len(ids))], " "), more(len(ids)-5)))
	}
}

// without returns those of some accounts that are well.
func (a *ailing) without(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return a.since[id] != nil })
}

// recovery is what a fault did to the accounts that it hit, as the third party saw it.
type recovery struct {
	hit         int
	interrupted int           // of these, how many waited too long for a good check
	longest     time.Duration // that any of them waited
	// When the last of the interrupted was checked well again; 0 where none was
	// interrupted.
	afterInjection time.Duration
	afterEnd       time.Duration // 0 as well where that was before the end
}

// recovered computes it from the times at which good checks of each account began, in
// order. An account that had waited too long already when the fault came is none that
// it hit.
func recovered(good map[string][]time.Time, hit []string, usual map[string]usual, injected, healed time.Time) recovery {
	var r recovery
	for _, id := range hit {
		times, most := good[id], usual[id].wait()
		last, _ := slices.BinarySearchFunc(times, injected, time.Time.Compare)
		if last > 0 && injected.Sub(times[last-1]) > most {
			continue
		}
		r.hit++
		interrupted := false
		for i := max(1, last); i < len(times) && times[i-1].Before(healed); i++ {
			waited := times[i].Sub(times[i-1])
			r.longest = max(r.longest, waited)
			if waited > most {
				interrupted = true
				r.afterInjection = max(r.afterInjection, times[i].Sub(injected))
				r.afterEnd = max(r.afterEnd, times[i].Sub(healed))
			}
		}
		if interrupted {
			r.interrupted++
		}
	}
	return r
}

// assess computes what each turn did.
func (w *world) assess(turns []*turn) {
	good := w.third.good()
	for _, t := range turns {
		hit := w.base
		if t.hit != nil {
			hit = slices.DeleteFunc(slices.Clone(w.base), func(id string) bool { return !t.hit[id] })
		}
		t.was = recovered(good, hit, w.usual, t.injected, t.healed)
	}
}
