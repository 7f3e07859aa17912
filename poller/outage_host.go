package poller

import "time"

// hostState is the result of the tries of a host.
type hostState struct {
	tried    time.Time // when a check last started although the host did not answer
	ended    time.Time // when its last check ended; zero: that does not count
	first    time.Time // when it first answered; zero: never
	answered time.Time // when it last answered
	away     time.Time // since when it is out of reach; zero: it is not
	inRow    int       // checks that failed since then
	back     time.Time // the beginning of the outage in which it answers again; zero: in none
}

// isBack reports whether a host has answered since the outage began, and still does.
func (o *outage) isBack(h *hostState) bool {
	return o.down && h.back.Equal(o.began)
}

// answers reports whether a host answered its last check.
func (h *hostState) answers() bool { return !h.answered.IsZero() && h.away.IsZero() }

// host returns the state of a host. If there are too many hosts, it forgets one of them.
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
