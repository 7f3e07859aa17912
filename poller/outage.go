package poller

import (
	"sync"
	"time"
)

const (
	outageWindow = 60 * time.Second
	outageBucket = 5 * time.Second
	outageHosts  = 3   // that must be out of reach
	outageShare  = 0.5 // of the checks that must fail by the network
	outageProbe  = 15 * time.Second
	hostsKept    = 1024 // of each bucket, and of an outage
)

// outage suspects our own network to be down: when at least half of the checks
// of the last minute failed by the network, at three hosts or more. While it does,
// no failure of that kind is held against an account, and each host is tried
// only now and then. It ends when at least half of the hosts that were tried last
// answered again.
type outage struct {
	mu      sync.Mutex
	buckets [int(outageWindow / outageBucket)]outageCount
	down    bool
	hosts   map[string]hostState // during an outage
}

type outageCount struct {
	began           time.Time
	checks, network int
	hosts           map[string]struct{} // out of reach
}

type hostState struct {
	tried    time.Time
	answered bool // the last try was
	known    bool // the last try has ended
}

func newOutage() *outage { return &outage{} }

// admits reports whether a check of a host may start. During an outage it is
// the one try of the host for a while.
func (o *outage) admits(host string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.down {
		return true
	}
	h, ok := o.hosts[host]
	if ok && now.Sub(h.tried) < outageProbe || !ok && len(o.hosts) >= hostsKept {
		return false
	}
	h.tried = now
	o.hosts[host] = h
	return true
}

// reached tells that a host answered, whatever it said.
func (o *outage) reached(host string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.down {
		o.bucket(now).checks++
		return
	}
	o.tried(host, true, now)
}

// unreached tells that a host could not be reached, and reports whether that is
// thought to be our own network's fault.
func (o *outage) unreached(host string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		o.tried(host, false, now)
		return o.down
	}
	b := o.bucket(now)
	b.checks++
	b.network++
	if b.hosts == nil {
		b.hosts = make(map[string]struct{})
	}
	if len(b.hosts) < hostsKept {
		b.hosts[host] = struct{}{}
	}
	o.down = o.suspicious(now)
	if o.down {
		o.hosts = make(map[string]hostState)
		for i := range o.buckets {
			for host := range o.buckets[i].hosts {
				o.tried(host, false, now)
			}
		}
	}
	return o.down
}

func (o *outage) suspicious(now time.Time) bool {
	checks, network, hosts := 0, 0, make(map[string]struct{})
	for i := range o.buckets {
		b := &o.buckets[i]
		if now.Sub(b.began) >= outageWindow {
			continue
		}
		checks += b.checks
		network += b.network
		for host := range b.hosts {
			if len(hosts) < outageHosts {
				hosts[host] = struct{}{}
			}
		}
	}
	return len(hosts) >= outageHosts && float64(network) >= outageShare*float64(checks)
}

// tried notes how a try of a host ended, and ends the outage when enough did
// well.
func (o *outage) tried(host string, answered bool, now time.Time) {
	h, ok := o.hosts[host]
	if !ok && len(o.hosts) >= hostsKept {
		return
	}
	if !ok {
		h.tried = now
	}
	h.answered, h.known = answered, true
	o.hosts[host] = h
	if !answered {
		return
	}
	known, well := 0, 0
	for _, h := range o.hosts {
		if h.known {
			known++
			if h.answered {
				well++
			}
		}
	}
	if 2*well >= known {
		o.down, o.hosts = false, nil
		clear(o.buckets[:]) // the minute begins anew
	}
}

// bucket is that of now, emptied of what is older than the window.
func (o *outage) bucket(now time.Time) *outageCount {
	began := now.Truncate(outageBucket)
	b := &o.buckets[int(began.UnixNano()/int64(outageBucket))%len(o.buckets)]
	if !b.began.Equal(began) {
		*b = outageCount{began: began}
	}
	return b
}

// suspected reports whether our own network seems to be down.
func (o *outage) suspected() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.down
}
