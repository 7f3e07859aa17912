package delivery

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// held are the messages of a shard that wait to be delivered again, or behind one
// that does. They stay pending in Redis; only their positions are kept here.
type held struct {
	accounts map[string]*heldAccount
	total    int
}

type heldAccount struct {
	queue []group.Pending // in the stream's order; Deliveries: which one the next is
	due   time.Time
	alone bool // its first message is delivered by itself: the batch that it was in panicked
}

func newHeld() held { return held{accounts: make(map[string]*heldAccount)} }

func (h *held) has(account string) bool { return h.accounts[account] != nil }

// add puts a message behind the others of its account, which has some.
func (h *held) add(account string, p group.Pending) {
	a := h.accounts[account]
	a.queue = append(a.queue, p)
	h.total++
}

// back puts messages of an account before those that it has, to be delivered again
// at a time.
func (h *held) back(account string, first []group.Pending, due time.Time, alone bool) {
	a := h.accounts[account]
	if a == nil {
		a = &heldAccount{}
		h.accounts[account] = a
	}
	a.queue = append(slices.Clip(first), a.queue...)
	a.due, a.alone = due, alone
	h.total += len(first)
}

// next is when the first account is due; zero if there is none.
func (h *held) next() (next time.Time) {
	for _, a := range h.accounts {
		if next.IsZero() || a.due.Before(next) {
			next = a.due
		}
	}
	return next
}

// all are the messages with how often each was delivered and failed.
func (h *held) all() []group.Pending {
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
	var due []string
	for name, a := range h.accounts {
		switch {
		case a.due.After(now):
		case a.alone:
			first := a.queue[0]
			a.queue, h.total = a.queue[1:], h.total-1
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
	for _, name := range accounts {
		a := h.accounts[name]
		switch {
		case a == nil || failed[name]:
		case len(a.queue) == 0:
			delete(h.accounts, name)
		default:
			a.due = now
		}
	}
}

// isAfter reports whether a position comes after another.
func isAfter(a, b string) bool { return circulate.ComparePositions(a, b) > 0 }

const backoffMax = 10 * time.Minute

// backoff is the default of Consumer.Backoff.
func backoff(deliveries int) time.Duration {
	d := min(backoffMax, time.Second<<(2*min(max(deliveries-1, 0), 5)))
	return d - time.Duration(rand.Int64N(int64(d/2)))
}
