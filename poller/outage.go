package poller

import (
	"sync"
	"time"
)

const (
	outageWindow = 60 * time.Second // after which a try says nothing any more
	outageHosts  = 3                // that must be out of reach, and checks that must have failed
	outageProbe  = 15 * time.Second // between tries of a host that does not answer
	outageMemory = time.Hour        // for how long it counts that a host has answered
	hostsKept    = 16384
	hostsGlanced = 256 // from so many hosts on they are looked over once in outageGlance
	outageGlance = 50 * time.Millisecond
)

// outage suspects our own network to be down: when of the hosts that were tried
// in the last minute half and more are out of reach, three at least. Both ends
// have this one measure, and it counts hosts: a share of checks would say little,
// for a host that is out of reach is tried only now and then.
//
// While our network seems to be down no failure of that kind is held against an
// account. A host that answers has all its checks, whatever the others do.
//
// A host that is down by itself must not keep the suspicion alive. It counts to the
// three, and to nothing else: before an outage who has been out of reach for more
// than a minute, and during one who had not answered before it began.
type outage struct {
	mu      sync.Mutex
	hosts   map[string]*hostState
	glanced time.Time

	down      bool
	began     time.Time
	strangers bool      // nobody had answered before it began: everybody counts
	back      int       // hosts that have answered since, and not failed after that
	mixed     time.Time // since when there are any
}

func newOutage() *outage { return &outage{hosts: make(map[string]*hostState)} }

// admits reports whether a check of a host may start. During an outage a host
// that does not answer has one try for a while.
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
	if !h.tried.IsZero() && now.Sub(h.tried) < outageProbe {
		return false
	}
	h.tried = now
	return true
}

// reached tells that a host answered, whatever it said.
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
	if o.glance(now) && o.over(now) {
		o.end()
	}
}

// unreached tells that a host could not be reached, and reports whether that is
// thought to be our own network's fault.
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
	if !o.down && o.glance(now) && o.suspicious(now) {
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

// suspicious is the measure before an outage. That three checks must have failed
// keeps the one that breaks off at the only host that is alive from being enough.
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

// over is the same measure during one. What answered since it began, or just
// before, counts for as long as it does not fail; a failure only as long as it is
// new. Where a few hosts have answered for long and the others have not, it is the
// others that are down.
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

// witnessed reports whether a host had answered until the outage began, or nearly.
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

// end ends an outage. What failed during it says nothing of the next one.
func (o *outage) end() {
	o.down = false
	for _, h := range o.hosts {
		if !h.answers() {
			h.ended, h.inRow = time.Time{}, 0
		}
	}
}

// glance reports whether it is time to look all hosts over.
func (o *outage) glance(now time.Time) bool {
	if len(o.hosts) >= hostsGlanced && now.Sub(o.glanced) < outageGlance {
		return false
	}
	o.glanced = now
	return true
}
