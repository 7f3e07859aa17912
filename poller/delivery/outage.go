package delivery

import (
	"sync"
	"time"
)

// probePatience is how long a session waits for the outcome of another session's probe before it
// looks again.
const probePatience = time.Second

// outages are the targets that a consumer's handler found away, by the names in [Later]. The
// sessions share them, so that one message of the process finds out whether a target is back.
type outages struct {
	mu   sync.Mutex
	away map[string]*outage
}

type outage struct {
	until   time.Time // no probe before this time
	probing bool      // a session has a message on its way
}

// begin notes that a target is away, or still is.
func (o *outages) begin(target string, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away == nil {
		o.away = make(map[string]*outage)
	}
	if o.away[target] == nil {
		o.away[target] = &outage{}
	}
	o.away[target].until = until
}

// next returns when a session may probe a target, unless the target is back.
func (o *outages) next(target string) (at time.Time, away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch one := o.away[target]; {
	case one == nil:
		return time.Time{}, false
	case one.probing:
		return latest(one.until, time.Now().Add(probePatience)), true
	default:
		return one.until, true
	}
}

// probe reports whether the caller should probe a target. If so, the caller must call done
// afterwards.
func (o *outages) probe(target string) (done func(), may bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.away[target]
	if one == nil || one.probing || time.Now().Before(one.until) {
		return nil, false
	}
	one.probing = true
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		one.probing = false
	}, true
}

// end notes that a target is back.
func (o *outages) end(target string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.away, target)
}

// hasten lets all targets be probed at once.
func (o *outages) hasten() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range o.away {
		one.until = time.Now()
	}
}

// due returns when the session delivers a held message again. It is the zero time if the session
// holds none.
func (s *session) due() time.Time {
	next := s.held.next()
	if s.away == "" {
		return next
	}
	at, away := s.outages.next(s.away)
	if !away || next.IsZero() { // a session that holds nothing finds out by reading
		s.away = ""
		return s.held.next()
	}
	return latest(next, at)
}

// judge notes what a batch says about the handler's target: that it is away for a while, or that it
// is there, because a message got that far.
func (s *session) judge(target string, until time.Time, there bool) {
	switch {
	case target != "":
		s.away = target
		s.outages.begin(target, until)
	case there && s.away != "":
		s.back(s.away)
		s.away = ""
	}
}

// back lets everything go on that waits for a target.
func (g *member) back(target string) {
	g.outages.end(target)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.reading {
		s.hasten()
	}
}

// hasten has the session look at once for due messages.
func (s *session) hasten() {
	select {
	case s.hurry <- struct{}{}:
	default: // the session already knows
	}
}
