package poller

import "time"

// hostState is what tries of a host came to.
type hostState struct {
	tried    time.Time // when a check was last let start although it did not answer
	ended    time.Time // when its last check did; zero: it says nothing
	first    time.Time // when it answered for the first time; zero: never
	answered time.Time // when it last did
	away     time.Time // since when it is out of reach; zero: it is not
	inRow    int       // checks that failed since then
	back     time.Time // the beginning of the outage in which it answers again; zero: in none
}

// isBack reports whether a host has answered since the outage began, and does.
func (o *outage) isBack(h *hostState) bool {
	return o.down && h.back.Equal(o.began)
}

// answers reports whether a host answered last.
func (h *hostState) answers() bool { return !h.answered.IsZero() && h.away.IsZero() }

// host returns what is known of a host. Where too many are known, one of them is
// forgotten for it.
func (o *outage) host(name string) *hostState {
	h := o.hosts[name]
	if h != nil {
		return h
	}
	if len(o.hosts) >= hostsKept {
		for other, of := range o.hosts {
			delete(o.hosts, other)
			if h = of; o.isBack(h) {
				o.back--
			}
			break
		}
		*h = hostState{}
	} else {
		h = new(hostState)
	}
	o.hosts[name] = h
	return h
}
