package monitor

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
)

// A pause follows each step of an audit, which costs Redis four commands and about a
// millisecond. An audit is spread over half of the time until the next one, but with the
// longest pause at most. That keeps an idle ring idle. If the time does not suffice, an
// audit of up to a million accounts uses the short pause: a million accounts take
// auditLong, at four thousandths of Redis' time. Audits of more accounts take as long,
// down to the shortest pause, at which an audit uses about a hundredth of Redis' time. In
// a small ring each step finds next to nothing, so the whole audit takes some seconds,
// and is repeated soon after accounts come or go: a person who registers the first ones
// looks at it.
const (
	auditPauseSmall = 20 * time.Millisecond
	auditPauseLeast = 100 * time.Millisecond
	auditPauseShort = 400 * time.Millisecond
	auditPauseMost  = time.Second

	auditLong  = 40 * time.Minute
	auditSmall = 10_000 // accounts
	auditSoon  = time.Minute

	// auditAgain is how long an audit waits before it tries Redis again.
	auditAgain = 5 * time.Second
)

var errOffDuty = errors.New("another monitor goes on")

// beyond judges accounts by their cadences alone, because it is no longer known how far
// the clock went.
func beyond(f circulate.Far, now time.Time) (time.Time, bool) { return accounts.Beyond(f, now, 0) }

// auditPause returns the pause after each step of an audit of that many accounts.
func auditPause(accounts, shards int, interval time.Duration) time.Duration {
	if accounts <= auditSmall {
		return auditPauseSmall
	}
	steps := time.Duration(max(1, circulate.AuditSteps(accounts, shards)))
	least := min(auditPauseShort, max(auditPauseLeast, auditLong/steps))
	return min(auditPauseMost, max(least, interval/2/steps))
}

// audits does audits, one after the other, while this monitor is on duty.
func (m *Monitor) audits(ctx context.Context) {
	for m.duty.await(ctx) {
		began := time.Now()
		turn(ctx, m.log, "audit", m.audit)
		counted := m.registered.Load()
		rest(ctx, dutyRest)
		for ctx.Err() == nil {
			left := m.config.AuditInterval - time.Since(began)
			if left <= 0 {
				break
			}
			if now := m.registered.Load(); now != counted && now <= auditSmall && time.Since(began) >= auditSoon {
				break
			}
			rest(ctx, min(left, auditSoon))
		}
	}
}

// audit checks the conservation law once, for every account, slowly. It goes on with
// another monitor's unfinished audit, and after an outage of Redis with its own.
func (m *Monitor) audit(ctx context.Context) error {
	for {
		err := m.auditOn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, errOffDuty) && !circulate.Unavailable(err) {
			return err
		}
		rest(ctx, auditAgain)
		if !m.duty.await(ctx) {
			return nil
		}
	}
}

// auditOn goes on with an unfinished audit, or begins one, until it is complete, it fails, or
// another monitor is on duty. If Redis is away, the audit stays unfinished.
func (m *Monitor) auditOn(ctx context.Context) error {
	run, err := concern.Resume(ctx, m.ring, m.config.AuditInterval)
	if err != nil {
		return err
	}
	o := circulate.AuditOptions{
		Repair:       m.config.AuditRepair,
		Registration: m.options.Registration,
		Beyond:       beyond,
		Pause: func(ctx context.Context) error {
			rest(ctx, auditPause(int(m.registered.Load()), m.ring.Shards(), m.config.AuditInterval))
			if ctx.Err() == nil && !m.duty.held() {
				return errOffDuty
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if run.Resumed() {
				m.log.Info("an audit goes on where it stopped", "shards_audited", run.Audited, "shards", run.Shards)
			}
			return run.Report(ctx)
		},
	}
	for run.Audited < run.Shards {
		one, err := m.ring.AuditShard(ctx, run.Audited, o)
		m.metrics.repaired(&one)
		switch {
		case errors.Is(err, errOffDuty) || ctx.Err() != nil:
			return err // another monitor is on duty now, and shows the gauges
		case circulate.Unavailable(err):
			m.log.Warn("an audit waits until Redis serves again", "shards_audited", run.Audited, "shards", run.Shards, "error", err)
			if kept := run.Wait(ctx, &one); kept != nil {
				m.log.Debug("the state of a waiting audit was not stored", "error", kept)
			}
			return err
		case err != nil:
			m.log.Warn("an audit broke off", "shards_audited", run.Audited, "shards", run.Shards, "error", err)
			run.Partly(&one)
			m.metrics.audited(&run.AuditResult, err)
			if kept := run.BreakOff(ctx, err); kept != nil {
				m.log.Debug("the state of an audit that broke off was not stored", "error", kept)
			}
			return err
		}
		run.Shard(&one)
	}
	if n := int(m.registered.Load()); n > 0 && m.ring.Sources() > 0 {
		run.Accounts = min(run.Accounts, n) // one that moved meanwhile was found in its old shard and in its new one
	}
	if err := run.Complete(ctx); err != nil {
		return err
	}
	m.metrics.audited(&run.AuditResult, nil)
	return nil
}

func (m *Metrics) repaired(a *circulate.Audited) {
	for _, kind := range circulate.Violations() {
		_, repaired := a.Count(kind)
		m.repairs.WithLabelValues(string(kind)).Add(float64(repaired))
	}
}

// audited records the result of an audit. An audit that broke off reports its findings,
// but not that the rest is well.
func (m *Metrics) audited(a *concern.AuditResult, err error) {
	for _, kind := range circulate.Violations() {
		n, _ := a.Found(kind)
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
	case len(a.Kinds) > 0:
		outcome = "violated"
	}
	m.audits.WithLabelValues(outcome).Inc()
	if err == nil {
		m.auditSeconds.set(a.Took().Seconds())
	}
}
