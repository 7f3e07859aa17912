package poller

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	crowdLeast = 32               // a pool with fewer places has no reserve
	crowdSpare = 4                // a quarter of the places is the reserve
	crowdFew   = 16               // with less than a sixteenth of the places a rate key has few
	crowdMixed = 10 * time.Minute // how long a pool remembers that it checks at several rate keys
	crowdWait  = 15 * time.Minute // the longest wait of an account
	crowdSoon  = 2 * time.Second  // the shortest
)

// crowds keep a part of the places free of crowds. If the accounts of a slow host have no limit, their
// checks would take all places, and everybody else would wait for the slow host. The last quarter of
// the places is therefore only for rate keys that have few checks under way. A pool whose accounts
// all share one rate key keeps no place free.
type crowds struct {
	reserved int // from so many checks on, the rest of the places is the reserve; 0: there is none
	few      int

	mu      sync.Mutex
	total   int
	running map[string]int // checks under way, by rate key
	seen    bool           // there was a check
	last    string         // the rate key of the last one
	mixed   time.Time      // when checks at two rate keys last followed each other
}

func newCrowds(places int) *crowds {
	c := &crowds{running: make(map[string]int), few: max(1, places/crowdFew)}
	if places >= crowdLeast {
		c.reserved = places - places/crowdSpare
	}
	return c
}

// enter counts a check at a rate key, unless that must leave the rest of the places to others. An
// empty key is shared with nobody.
func (c *crowds) enter(key string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen && key != c.last {
		c.mixed = now
	}
	c.seen, c.last = true, key
	if c.reserved > 0 && c.total >= c.reserved && c.running[key] >= c.few && !c.mixed.IsZero() && now.Sub(c.mixed) < crowdMixed {
		return false
	}
	c.total++
	if key != "" {
		c.running[key]++
	}
	return true
}

func (c *crowds) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if key == "" {
		return
	}
	if c.running[key]--; c.running[key] == 0 {
		delete(c.running, key)
	}
}

// uncrowded returns the flights that find a place. It puts off accounts of crowds, which is not a
// failure.
func (fs *flights) uncrowded(claimed []*flight) []*flight {
	now := time.Now()
	admitted := claimed[:0:len(claimed)]
	for _, f := range claimed {
		switch {
		case f.hold != nil || f.record.fault != "":
			admitted = append(admitted, f)
		case !fs.crowds.enter(f.record.shared(), now):
			f.turnAway(accounts.RuleCrowd, f.afterCrowd())
		default:
			f.inCrowd.Store(true)
			admitted = append(admitted, f)
		}
	}
	return admitted
}

// leaveCrowd ends the count of a check, once.
func (f *flight) leaveCrowd() {
	if f.inCrowd.CompareAndSwap(true, false) {
		f.flights.crowds.leave(f.record.shared())
	}
}

// afterCrowd returns when an account of a crowd comes back: after about its own interval, so that a
// crowd costs no more claims than it would at a fast host.
func (f *flight) afterCrowd() time.Time {
	wait := min(crowdWait, max(crowdSoon, f.record.cadence.Current(f.memory.Cadence)))
	return f.now().Add(wait/2 + rand.N(wait/2))
}
