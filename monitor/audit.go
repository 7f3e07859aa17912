package monitor

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// auditPause follows each step of an audit, which costs Redis six commands and a
// millisecond. It keeps an idle ring idle. An audit of a million accounts takes close to
// two hours.
const auditPause = time.Second

var errOffDuty = errors.New("another monitor goes on")

// beyond judges accounts by their cadences alone, because nobody knows any more how far
// the clock went.
func beyond(f circulate.Far, now time.Time) (time.Time, bool) { return accounts.Beyond(f, now, 0) }

// audit checks the conservation law once, for every account, slowly.
func (m *Monitor) audit(ctx context.Context) error {
	began := time.Now()
	found, err := m.ring.Audit(ctx, circulate.AuditOptions{
		Repair:       m.config.AuditRepair,
		Registration: m.registration,
		Beyond:       beyond,
		Pause: func(ctx context.Context) error {
			rest(ctx, auditPause)
			if ctx.Err() == nil && !m.duty.held() {
				return errOffDuty
			}
			return ctx.Err()
		},
	})
	m.metrics.repaired(&found)
	if errors.Is(err, errOffDuty) || ctx.Err() != nil || !m.duty.held() {
		return nil // another monitor is on duty now, and the gauges are its own
	}
	m.metrics.audited(&found, time.Since(began), err)
	return err
}

// violations are the kinds of findings.
func violations() []circulate.Violation {
	return []circulate.Violation{circulate.Lost, circulate.Doubled, circulate.Orphan, circulate.NoRecord, circulate.Garbage, circulate.Beyond}
}

func (m *Metrics) repaired(a *circulate.Audited) {
	for _, kind := range violations() {
		_, repaired := a.Count(kind)
		m.repairs.WithLabelValues(string(kind)).Add(float64(repaired))
	}
}

// audited records the result of an audit. An audit that was broken off reports what it
// found, but not that the rest is well.
func (m *Metrics) audited(a *circulate.Audited, took time.Duration, err error) {
	for _, kind := range violations() {
		n, _ := a.Count(kind)
		if err != nil && n == 0 {
			continue
		}
		switch kind {
		case circulate.Lost:
			m.lost.set(float64(n))
		case circulate.Doubled:
			m.duplicated.set(float64(n))
		default:
			m.findings.WithLabelValues(string(kind)).Set(float64(n))
		}
	}
	m.unjudged.set(float64(a.Unjudged))
	outcome := "ok"
	switch {
	case err != nil:
		outcome = "failed"
	case len(a.Findings) > 0:
		outcome = "violated"
	}
	m.audits.WithLabelValues(outcome).Inc()
	if err == nil {
		m.auditSeconds.set(took.Seconds())
	}
}
