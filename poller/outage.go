package poller

import (
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller/egress"
)

const (
	outageWindow  = 60 * time.Second // how long the result of a try counts
	outageHosts   = 3                // the least hosts out of reach, and the least failed checks
	outageProbe   = 15 * time.Second // between two tries of a silent host in a long outage
	outageFirst   = 2 * time.Second  // the same when it begins
	outageMemory  = time.Hour        // how long an earlier answer of a host counts
	maxHosts      = 16384
	hostsReviewed = 256 // with this many hosts or more, they are reviewed only every reviewEvery
	reviewEvery   = 50 * time.Millisecond
)

// outage suspects that our own network is down if at least three hosts, and at least half of the
// hosts tried in the last minute, are out of reach. The same measure begins and ends an outage. It
// counts hosts and not checks, because a host that is out of reach is tried only now and then.
//
// While our network seems to be down, connection failures do not count against accounts. A host
// that answers gets all its checks, whatever the other hosts do.
//
// A host that is down by itself must not prolong the suspicion, so it counts only toward the three
// hosts. Before an outage, such a host is one that has been out of reach for more than a minute.
// During an outage, it is one that had not answered before the outage began.
type outage struct {
	mu       sync.Mutex
	hosts    map[string]*hostState
	reviewed time.Time

	down      bool
	began     time.Time
	strangers bool      // no host had answered before the outage began: all hosts count
	back      int       // hosts that have answered since without failing again
	mixed     time.Time // since when there are such hosts
}

// outages has an outage for each way out, and under the empty name one for calls by no such way. A
// proxy that reaches nothing is no outage of our own network, but one for the accounts that go by it.
type outages map[string]*outage

func newOutages(ways egress.Ways) outages {
	all := outages{"": newOutage()}
	for _, way := range ways.All() {
		all[way.Name] = newOutage()
	}
	return all
}

// suspected returns the ways whose network seems to be down, in alphabetical order. The empty name is
// our own.
func (all outages) suspected() (ways []string) {
	for way, o := range all {
		if o.suspected() {
			ways = append(ways, way)
		}
	}
	slices.Sort(ways)
	return ways
}

// outage returns the outage of the way by which the account's calls go.
func (f *flight) outage() *outage { return f.flights.outages[f.record.way] }

func newOutage() *outage { return &outage{hosts: make(map[string]*hostState)} }

// admits reports whether a check of a host may start. During an outage, a silent host gets one try
// now and then: the longer the outage lasts, the rarer.
func (o *outage) admits(host string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.down {
		return true
	}
	h := o.host(host)
	if h.answers() {
		return true
	}
	if !h.tried.IsZero() && now.Sub(h.tried) < min(outageProbe, max(outageFirst, now.Sub(o.began)/2)) {
		return false
	}
	h.tried = now
	return true
}

// reached notes that a host answered, whatever the answer.
func (o *outage) reached(host string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.host(host)
	if h.first.IsZero() {
		h.first = now
	}
	wasBack := o.isBack(h)
	h.ended, h.answered, h.away, h.inRow = now, now, time.Time{}, 0
	if !o.down {
		return
	}
	if !wasBack {
		if o.back == 0 {
			o.mixed = now
		}
		o.back++
		h.back = o.began
	}
	o.strangers = o.strangers && now.Sub(o.mixed) < outageWindow
	if o.review(now) && o.over(now) {
		o.end()
	}
}

// unreached notes that a host could not be reached, and reports whether our own network seems to be
// the cause.
func (o *outage) unreached(host string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.host(host)
	if o.isBack(h) {
		o.back--
		h.back = time.Time{}
	}
	if h.away.IsZero() {
		h.away, h.tried = now, now
	}
	h.ended = now
	h.inRow++
	if !o.down && o.review(now) && o.suspicious(now) {
		o.down, o.began, o.back = true, now, 0
		o.strangers = !o.anyWitness()
	}
	return o.down
}

// suspected reports whether our own network seems to be down.
func (o *outage) suspected() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}

// suspicious is the measure before an outage. It requires three failed checks, so that a single cut
// connection at the only living host does not suffice.
func (o *outage) suspicious(now time.Time) bool {
	away, out, well, checks := 0, 0, 0, 0
	for _, h := range o.hosts {
		switch {
		case h.ended.IsZero() || now.Sub(h.ended) >= outageWindow:
		case h.away.IsZero():
			well++
		default:
			away++
			if now.Sub(h.away) < outageWindow {
				out++
				checks += h.inRow
			}
		}
	}
	return away >= outageHosts && checks >= outageHosts && out >= well
}

// over is the same measure during an outage. An answer since the outage began, or just before,
// counts as long as the host does not fail. A failure counts only while it is new: if a few hosts
// have answered for a long time and the others have not, those others are down.
func (o *outage) over(now time.Time) bool {
	out, well := 0, 0
	for _, h := range o.hosts {
		switch {
		case h.answers():
			if h.answered.After(o.began.Add(-outageWindow)) {
				well++
			}
		case !h.ended.IsZero() && now.Sub(h.ended) < outageWindow && (o.strangers || o.witnessed(h)):
			out++
		}
	}
	return well >= out || now.Sub(o.mixed) >= outageMemory
}

// witnessed reports whether a host had answered until shortly before the outage began.
func (o *outage) witnessed(h *hostState) bool {
	return !h.first.IsZero() && h.first.Before(o.began) && o.began.Sub(h.away) < outageWindow
}

func (o *outage) anyWitness() bool {
	for _, h := range o.hosts {
		if o.began.Sub(h.answered) < outageMemory && (h.answers() || o.witnessed(h)) {
			return true
		}
	}
	return false
}

// end ends an outage. Failures during it do not count toward the next one.
func (o *outage) end() {
	o.down = false
	for _, h := range o.hosts {
		if !h.answers() {
			h.ended, h.inRow = time.Time{}, 0
		}
	}
}

// review reports whether it is time to count all hosts.
func (o *outage) review(now time.Time) bool {
	if len(o.hosts) >= hostsReviewed && now.Sub(o.reviewed) < reviewEvery {
		return false
	}
	o.reviewed = now
	return true
}

// hostState has the results of a host's tries.
type hostState struct {
	tried    time.Time // when a check last started although the host did not answer
	ended    time.Time // when its last check ended; zero: that check does not count
	first    time.Time // when it first answered; zero: never
	answered time.Time // when it last answered
	away     time.Time // since when it is out of reach; zero: it is not
	inRow    int       // checks that failed since then
	back     time.Time // the beginning of the outage in which it answers again; zero: none
}

// isBack reports whether a host has answered since the outage began, and still does.
func (o *outage) isBack(h *hostState) bool {
	return o.down && h.back.Equal(o.began)
}

// answers reports whether a host answered its last check.
func (h *hostState) answers() bool { return !h.answered.IsZero() && h.away.IsZero() }

// host returns the state of a host, which is new for an unknown one. If there are too many hosts, it
// forgets another.
func (o *outage) host(name string) *hostState {
	h := o.hosts[name]
	if h == nil {
		if len(o.hosts) >= maxHosts {
			o.forgetAny()
		}
		h = new(hostState)
		o.hosts[name] = h
	}
	return h
}

// forgetAny forgets one host.
func (o *outage) forgetAny() {
	for name, h := range o.hosts {
		if o.isBack(h) {
			o.back--
		}
		delete(o.hosts, name)
		return
	}
}
