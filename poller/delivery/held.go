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

// held is the messages of a shard that wait to be delivered again, or that wait behind such a
// message. They stay pending in Redis; held has only their positions. Apart from hasten, only the
// session changes them. Others may look.
type held struct {
	mu       sync.Mutex
	accounts map[string]*heldAccount // by their lines; see lineOf
	total    int
	sum      *atomic.Int64 // accounts of all the consumer's sessions
}

type heldAccount struct {
	account string          // whose messages these are
	queue   []group.Pending // in the stream's order; Deliveries is the number of the next delivery
	due     time.Time
	alone   bool // its first message is delivered by itself: its batch panicked

	why     error          // the failure of the first message
	later   bool           // the first message was put off
	out     *group.Pending // the first message, while it is being delivered again
	outWith int            // the number of the account's messages being delivered, including that one
	hurried bool           // a retry was ordered while it was being delivered
}

func newHeld(sum *atomic.Int64) *held {
	return &held{accounts: make(map[string]*heldAccount), sum: sum}
}

// clear forgets everything.
func (h *held) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sum.Add(-int64(len(h.accounts)))
	h.accounts, h.total = make(map[string]*heldAccount), 0
}

func (h *held) has(line string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.accounts[line] != nil
}

// count returns the number of held messages.
func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// add puts a message behind the others of its line, which must have some.
func (h *held) add(line string, p group.Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[line]
	a.queue = append(a.queue, p)
	h.total++
}

// back puts messages of an account in front of its others, to be delivered again at a given time.
// why is the failure of the first one, and later says that it was put off.
func (h *held) back(line, account string, first []group.Pending, due time.Time, alone bool, why error, later bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[line]
	if a == nil {
		a = &heldAccount{account: account}
		h.accounts[line] = a
		h.sum.Add(1)
	}
	if a.hurried {
		due = time.Now()
	}
	a.queue = append(slices.Clip(first), a.queue...)
	a.due, a.alone = due, alone
	a.why, a.later, a.out, a.outWith, a.hurried = why, later, nil, 0, false
	h.total += len(first)
}

// next returns when the first account is due, or the zero time if there is none.
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

// all returns the messages with the numbers of their failed deliveries.
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

// others returns the messages of pending that are not held.
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

// takenMessage is a message that is being delivered again, and its account.
type takenMessage struct {
	group.Pending
	account string
}

// take removes up to n due messages from the queues and returns them in the stream's order. Their
// accounts stay, even if empty, until they are settled.
func (h *held) take(now time.Time, n int) (taken []takenMessage, accounts []string) {
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
			return []takenMessage{{first, name}}, []string{name}
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
		for _, p := range a.queue[:part] {
			taken = append(taken, takenMessage{p, name})
		}
		accounts = append(accounts, name)
		a.queue, h.total, n = a.queue[part:], h.total-part, n-part
	}
	slices.SortFunc(taken, func(x, y takenMessage) int { return circulate.ComparePositions(x.Position, y.Position) })
	return taken, accounts
}

// untake puts back messages that were taken and not delivered. They must be in the stream's order.
func (h *held) untake(taken []takenMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range slices.Backward(taken) {
		a := h.accounts[p.account]
		a.queue = append([]group.Pending{p.Pending}, a.queue...)
		a.outWith--
		h.total++
	}
}

// settled forgets accounts without messages, and makes the others due now. It must be called after
// accounts that failed again were put back.
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
			a.why, a.later, a.out, a.outWith, a.hurried = nil, false, nil, 0, false
		}
	}
}

// reasons reports whether a waiting message has failed before, and whether one has been put off.
func (h *held) reasons() (failed, deferred bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.accounts {
		failed = failed || a.out != nil && a.out.Deliveries > 1 || a.out == nil && len(a.queue) > 0 && a.queue[0].Deliveries > 1
		if deferred = deferred || a.later; failed && deferred {
			break
		}
	}
	return failed, deferred
}

// hasten makes the waiting messages of an account due at once, or of all accounts if account is
// empty. A message that is being delivered is retried at once if it fails. It returns the number of
// accounts.
func (h *held) hasten(account string, now time.Time) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.accounts {
		if account != "" && a.account != account {
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

// look adds the first message of each account, and counts the accounts and messages.
func (h *held) look(shard int, into *Standing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.accounts {
		into.Accounts++
		w := Waiting{Account: a.account, Shard: shard, Next: a.due, Behind: len(a.queue) - 1, Err: a.why}
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

// How often and when a message is delivered again unless a Consumer says otherwise. The guide and
// the package's doc say the same; a test compares them.
const (
	// MaxDeliveries is the default of Consumer.MaxDeliveries.
	MaxDeliveries = 8
	// FirstPause is how long a message waits after its first failed delivery. Each further
	// pause is four times as long.
	FirstPause = time.Second
	// LongestPause is the longest pause.
	LongestPause = 10 * time.Minute
)

// backoff is the default of Consumer.Backoff.
func backoff(deliveries int) time.Duration {
	d := min(LongestPause, FirstPause<<(2*min(max(deliveries-1, 0), 5)))
	return d - time.Duration(rand.Int64N(int64(d/2)))
}
