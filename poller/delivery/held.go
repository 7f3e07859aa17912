package delivery

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// held are the messages of a shard that wait to be delivered again, or behind one
// that does. They stay pending in Redis; only their positions are kept here. The
// session alone changes them, but for hasten; others may look.
type held struct {
	mu       sync.Mutex
	accounts map[string]*heldAccount
	total    int
	sum      *atomic.Int64 // accounts, of all the consumer's sessions
}

type heldAccount struct {
	queue []group.Pending // in the stream's order; Deliveries: which one the next is
	due   time.Time
	alone bool // its first message is delivered by itself: the batch that it was in panicked

	why     error          // what the first message failed with
	out     *group.Pending // the first message, while it is being delivered again
	outWith int            // how many of the account are, that one among them
	hurried bool           // somebody wants it tried at once, while it was being delivered
}

func newHeld(sum *atomic.Int64) *held {
	return &held{accounts: make(map[string]*heldAccount), sum: sum}
}

// clear forgets all.
func (h *held) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sum.Add(-int64(len(h.accounts)))
	h.accounts, h.total = make(map[string]*heldAccount), 0
}

func (h *held) has(account string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.accounts[account] != nil
}

// count is how many messages are held.
func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// add puts a message behind the others of its account, which has some.
func (h *held) add(account string, p group.Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[account]
	a.queue = append(a.queue, p)
	h.total++
}

// back puts messages of an account before those that it has, to be delivered again
// at a time, because of what the first of them failed with.
func (h *held) back(account string, first []group.Pending, due time.Time, alone bool, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[account]
	if a == nil {
		a = &heldAccount{}
		h.accounts[account] = a
		h.sum.Add(1)
	}
	if a.hurried {
		due = time.Now()
	}
	a.queue = append(slices.Clip(first), a.queue...)
	a.due, a.alone = due, alone
	a.why, a.out, a.outWith, a.hurried = why, nil, 0, false
	h.total += len(first)
}

// next is when the first account is due; zero if there is none.
func (h *held) next() (next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.accounts {
		if next.IsZero() || a.due.Before(next) {
			next = a.due
		}
	}
	return next
}

// all are the messages with how often each was delivered and failed.
func (h *held) all() []group.Pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]group.Pending, 0, h.total)
	for _, a := range h.accounts {
		for _, p := range a.queue {
			all = append(all, group.Pending{Position: p.Position, Deliveries: p.Deliveries - 1})
		}
	}
	return all
}

// others returns what of pending is not held.
func (h *held) others(pending []group.Pending) []group.Pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total == 0 {
		return pending
	}
	known := make(map[string]bool, h.total)
	for _, a := range h.accounts {
		for _, p := range a.queue {
			known[p.Position] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pending), func(p group.Pending) bool { return known[p.Position] })
}

// take takes up to n messages whose time has come out of the queues, in the
// stream's order. Their accounts stay, with nothing in them if need be, until
// they are settled.
func (h *held) take(now time.Time, n int) (taken []group.Pending, accounts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var due []string
	for name, a := range h.accounts {
		switch {
		case a.due.After(now):
		case a.alone:
			first := a.queue[0]
			a.queue, h.total = a.queue[1:], h.total-1
			a.out, a.outWith = &first, 1
			return []group.Pending{first}, []string{name}
		default:
			due = append(due, name)
		}
	}
	slices.SortFunc(due, func(x, y string) int { return h.accounts[x].due.Compare(h.accounts[y].due) })
	for _, name := range due {
		if n <= 0 {
			break
		}
		a := h.accounts[name]
		part := min(n, len(a.queue))
		first := a.queue[0]
		a.out, a.outWith = &first, part
		taken = append(taken, a.queue[:part]...)
		accounts = append(accounts, name)
		a.queue, h.total, n = a.queue[part:], h.total-part, n-part
	}
	slices.SortFunc(taken, func(x, y group.Pending) int { return circulate.ComparePositions(x.Position, y.Position) })
	return taken, accounts
}

// settled forgets accounts that have nothing left, and has the others go on now.
// Those that failed again have been put back before.
func (h *held) settled(accounts []string, failed map[string]bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range accounts {
		a := h.accounts[name]
		switch {
		case a == nil || failed[name]:
		case len(a.queue) == 0:
			delete(h.accounts, name)
			h.sum.Add(-1)
		default:
			a.due = now
			a.why, a.out, a.outWith, a.hurried = nil, nil, 0, false
		}
	}
}

// hasten has an account's messages delivered at once that wait to be delivered again;
// those of all accounts where it is empty. One that is being delivered is delivered at
// once again if it fails. It returns for how many accounts that holds.
func (h *held) hasten(account string, now time.Time) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, a := range h.accounts {
		if account != "" && name != account {
			continue
		}
		n++
		a.hurried = a.out != nil
		if a.due.After(now) {
			a.due = now
		}
	}
	return n
}

// look adds the first message of each account to those that wait, and counts.
func (h *held) look(shard int, into *Standing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, a := range h.accounts {
		into.Accounts++
		w := Waiting{Account: name, Shard: shard, Next: a.due, Behind: len(a.queue) - 1, Err: a.why}
		first := a.out
		if first != nil {
			w.Behind += a.outWith
		} else if len(a.queue) > 0 {
			first = &a.queue[0]
		} else {
			continue
		}
		into.Messages += 1 + w.Behind
		w.Position, w.Failed = first.Position, first.Deliveries-1
		into.First = append(into.First, w)
	}
}

// isAfter reports whether a position comes after another.
func isAfter(a, b string) bool { return circulate.ComparePositions(a, b) > 0 }

// How often and when a message is delivered again unless a Consumer says otherwise. The
// guide and the package's doc state the same; a test compares.
const (
	// MaxDeliveries is the default of Consumer.MaxDeliveries.
	MaxDeliveries = 8
	// FirstPause is how long a message waits after the first delivery that failed. Each
	// pause is four times the one before.
	FirstPause = time.Second
	// LongestPause is what no pause is longer than.
	LongestPause = 10 * time.Minute
)

// backoff is the default of Consumer.Backoff.
func backoff(deliveries int) time.Duration {
	d := min(LongestPause, FirstPause<<(2*min(max(deliveries-1, 0), 5)))
	return d - time.Duration(rand.Int64N(int64(d/2)))
}
