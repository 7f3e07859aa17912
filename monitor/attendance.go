package monitor

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/circulate"
)

// attendance watches which processes of the service exist, and counts processes that
// leave or go silent. Nothing depends on it: the sweep finds the claims of a dead poller.
type attendance struct {
	monitor *Monitor
	seen    map[circulate.Process]sighting
}

// sighting is the last report of a process, and when we first saw that report by our own
// clock. A process counts as silent only while this monitor has watched it.
type sighting struct {
	said, since time.Time
}

// look counts the processes that have left or gone silent. After a failed look no process
// counts as lost for a while: if we did not reach Redis, others may not have reached it
// either.
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
		return nil // even our own report is missing: Redis accepts none now
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
			a.mark(ctx, p)
		}
	}
	return nil
}

// mark has charts point to the end of a process.
func (a *attendance) mark(ctx context.Context, p circulate.Process) {
	m := a.monitor
	at, err := m.ring.Now(ctx, 0)
	if err == nil {
		err = activity.NewKeeper(m.ring).Mark(ctx, activity.Mark{At: at, Kind: activity.MarkDeath, Subject: p.Name})
	}
	if err != nil {
		m.log.Debug("charts do not show that a process has gone silent", "error", err)
	}
}

// showThere shows how many processes there are. A scrape at any moment sees
// every process that stays.
func (m *Metrics) showThere(there map[circulate.Process]time.Time) {
	counts := make(map[string]int)
	for p := range there {
		counts[p.Roles]++
	}
	for roles := range m.shown {
		if counts[roles] == 0 {
			m.there.DeleteLabelValues(roles)
		}
	}
	for roles, n := range counts {
		m.there.WithLabelValues(roles).Set(float64(n))
		m.gone.WithLabelValues(roles) // at zero, for the alert about the first lost one
	}
	m.shown = counts
}
