package monitor

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// attendance watches which processes of the service there are, and counts those
// that are gone. Nothing depends on it: what a dead poller held is found by the
// sweep.
type attendance struct {
	monitor *Monitor
	seen    map[circulate.Process]sighting
}

// sighting is what a process said last, and when we first knew, by our own clock: a
// process is silent only if it was so under our eyes.
type sighting struct {
	said, since time.Time
}

// look counts the processes that have left or been lost. After a look that failed
// nobody is lost for a while: as we did not reach Redis, others may not have either.
func (a *attendance) look(ctx context.Context) error {
	m := a.monitor
	there, left, err := m.ring.Roster().Look(ctx)
	if err != nil {
		a.seen = nil
		m.metrics.there.Reset()
		return err
	}
	m.metrics.showThere(there)
	for _, p := range left {
		m.metrics.left.WithLabelValues(p.Roles).Inc()
	}
	now, news := time.Now(), false
	seen := make(map[circulate.Process]sighting, len(there))
	for p, said := range there {
		s, known := a.seen[p]
		if !known || !said.Equal(s.said) {
			s, news = sighting{said, now}, true
		}
		seen[p] = s
	}
	a.seen = seen
	if !news {
		return nil // not even from ourselves: Redis takes no such word now
	}
	for p, s := range seen {
		if now.Sub(s.since) <= m.config.DeadAfter {
			continue
		}
		told, err := m.ring.Roster().Forget(ctx, p)
		if err != nil {
			return err
		}
		m.metrics.there.WithLabelValues(p.Roles).Dec()
		if told {
			m.metrics.gone.WithLabelValues(p.Roles).Inc()
			m.log.Warn("a process has gone silent without leaving", "process", p.Name, "roles", p.Roles)
		}
	}
	return nil
}

// showThere shows how many processes there are.
func (m *Metrics) showThere(there map[circulate.Process]time.Time) {
	m.there.Reset()
	for p := range there {
		m.there.WithLabelValues(p.Roles).Inc()
	}
}
