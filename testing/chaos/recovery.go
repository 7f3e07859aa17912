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
	// fullShare is the part of the usual checks a second that counts as full throughput,
	// and rateOver the time over which they are counted.
	fullShare = 0.9
	rateOver  = 2 * time.Second

	restWithin  = 20 * time.Second // the time in which accounts whose checks did not fail are checked again
	wholeWithin = time.Minute      // the time in which all accounts are, after the end of the fault

	// overdue is by how much longer than usual an account must wait between two good
	// checks to count as interrupted.
	overdue = 1500 * time.Millisecond

	longestCadence = 2 * time.Second
)

// usual is how an account is checked when nothing is broken.
type usual struct {
	cadence time.Duration
	delay   time.Duration // the delay that its answers always have
	host    *host
	rate    float64 // checks a second, counted before the first fault
}

// wait returns the longest time between two of its checks that is not too long.
func (u usual) wait() time.Duration { return u.cadence + u.delay + overdue }

// rate returns how many checks of some accounts began in a second, and how many usually
// do.
func (w *world) rate(ids []string) (is, usually float64) {
	for _, id := range ids {
		usually += w.usual[id].rate
	}
	return float64(w.third.begun(ids, time.Now().Add(-rateOver))) / rateOver.Seconds(), usually
}

// ailing are accounts whose last check failed because of a fault. They wait out their
// backoff, which begins with their interval, or wait at their host. Nobody hurries them.
type ailing struct {
	since map[string]ailment
	ended time.Time // when the last fault ended
	noted time.Time
}

// ailment is when an account was first seen to wait out its backoff. A good check before
// that says nothing: the account may have failed after it.
type ailment struct {
	of    *turn // the turn whose end counts
	noted time.Time
}

const noteEvery = 300 * time.Millisecond

// note records which accounts wait out a backoff now, and which were checked well again.
// An account that was not checked well within wholeWithin is a violation.
func (a *ailing) note(t *turn) {
	a.ended = t.healed
	if time.Since(a.noted) > noteEvery {
		a.noted = time.Now()
		for _, id := range t.putOff() {
			if _, known := a.since[id]; !known {
				a.since[id] = ailment{of: t, noted: a.noted}
				if t.hit != nil && !t.fault.control {
					t.hits(id)
				}
			}
		}
	}
	a.review(t.third)
}

// putOff returns the accounts that are due later than their cadence says, or none if
// Redis does not answer.
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

// review drops the accounts that are well, and those that are not well in time although
// no other fault came meanwhile.
func (a *ailing) review(third *third) {
	late := make(map[*turn][]string)
	for id, it := range a.since {
		switch {
		case len(third.unchecked([]string{id}, it.noted)) == 0:
			delete(a.since, id)
		case time.Since(it.of.healed) > wholeWithin && time.Since(a.ended) > restWithin:
			delete(a.since, id)
			late[it.of] = append(late[it.of], id)
		}
	}
	for t, ids := range late {
		slices.Sort(ids)
		t.fail(fmt.Sprintf("I6: not checked again %v after its end: %s%s", wholeWithin, strings.Join(ids[:min(5, len(ids))], " "), more(len(ids)-5)))
	}
}

// without returns the accounts that are well.
func (a *ailing) without(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, ill := a.since[id]; return ill })
}

// recovery is what a fault did to the accounts that it hit, as the third party saw it.
type recovery struct {
	hit         int
	interrupted int           // how many of these waited too long for a good check
	longest     time.Duration // the longest that any of them waited
	// When the last interrupted account was checked well again; 0 if none was
	// interrupted.
	afterInjection time.Duration
	afterEnd       time.Duration // 0 as well if that was before the end
}

// recovered computes a recovery from the times at which good checks of each account
// began, in order. An account that had already waited too long when the fault came was
// not hit by it.
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
