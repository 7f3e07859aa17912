package keep

import (
	"sync"
	"time"
)

// Standing is how a Keeper stands.
type Standing struct {
	Waiting int       // messages with files that are put off
	Soonest time.Time // when the first of these files may be forgotten; zero: none waits
	Account string    // whose file that is

	StoreSince time.Time // since when the store has failed; zero: it works
	StoreWhy   string
	FullSince  time.Time // since when a quota refuses files; zero: none does
}

// Standing returns how the Keeper stands.
func (k *Keeper) Standing() Standing {
	var s Standing
	s.Waiting, s.Soonest, s.Account = k.waiting.sum(time.Now())
	k.trouble.mu.Lock()
	defer k.trouble.mu.Unlock()
	s.StoreSince, s.StoreWhy = k.trouble.storeSince, k.trouble.storeWhy
	s.FullSince = k.trouble.fullSince
	return s
}

// staleAfter is after how long a message that was put off is no longer this process's: it is asked
// again within longPause.
const staleAfter = 3 * longPause

// waiting are messages whose files are put off.
type waiting struct {
	mu  sync.Mutex
	all map[[2]string]wait // by position and account
}

type wait struct{ until, noted time.Time }

func (w *waiting) add(position, account string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[[2]string]wait)
	}
	w.all[[2]string{position, account}] = wait{until, time.Now()}
}

func (w *waiting) remove(position, account string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, [2]string{position, account})
}

func (w *waiting) sum(now time.Time) (n int, soonest time.Time, account string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, one := range w.all {
		if now.Sub(one.noted) > staleAfter {
			delete(w.all, key)
			continue
		}
		if n++; soonest.IsZero() || one.until.Before(soonest) {
			soonest, account = one.until, key[1]
		}
	}
	return n, soonest, account
}

// trouble is what stops all fetching.
type trouble struct {
	mu         sync.Mutex
	storeSince time.Time
	storeWhy   string
	fullSince  time.Time
}

// store notes what the store answered; nil: it works.
func (t *trouble) store(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begins(&t.storeSince, err != nil)
	if t.storeWhy = ""; err != nil {
		t.storeWhy = err.Error()
	}
}

// full notes whether a quota refuses files.
func (t *trouble) full(is bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begins(&t.fullSince, is)
}

// begins notes since when something is so; zero: it is not.
func begins(since *time.Time, is bool) {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = time.Now()
	}
}
