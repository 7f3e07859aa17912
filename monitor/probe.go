package monitor

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	probePage     = 500                    // parked accounts looked at in a step
	probeStepRest = 200 * time.Millisecond // after each
)

// probePause is the shortest time between two walks over the parked accounts.
func (m *Monitor) probePause() time.Duration {
	return min(time.Minute, max(time.Second, m.config.ProbeInterval/10))
}

// probe walks over the accounts that have been parked for longer than the interval and
// tries them again, a bounded number a second.
func (m *Monitor) probe(ctx context.Context) error {
	probed := 0
	defer func() {
		if probed > 0 {
			m.log.Info("parked accounts are tried again", "accounts", probed)
		}
	}()
	for shard := range m.ring.Shards() {
		var behind circulate.ParkedAccount
		for more := true; more; {
			page, now, err := m.ring.ParkedPage(ctx, shard, behind, probePage)
			if err != nil {
				return err
			}
			more = len(page) == probePage
			var due []circulate.ParkedAccount
			for _, p := range page {
				if now.Sub(p.Since) <= m.config.ProbeInterval {
					more = false // all that follow were parked even later
					break
				}
				behind = p
				if problem.MayPass(p.Reason) {
					due = append(due, p)
				}
			}
			n, err := m.probeAll(ctx, shard, due)
			probed += n
			if err != nil {
				return err
			}
			rest(ctx, probeStepRest)
			if ctx.Err() != nil || !m.duty.held() {
				return nil
			}
		}
	}
	return nil
}

// probeAll tries accounts of one shard again, one second's worth at a time. Each is due
// after the one before.
func (m *Monitor) probeAll(ctx context.Context, shard int, due []circulate.ParkedAccount) (probed int, err error) {
	each := time.Duration(float64(time.Second) / m.config.ProbeRate)
	for len(due) > 0 && ctx.Err() == nil && m.duty.held() {
		n := min(len(due), max(1, int(m.config.ProbeRate)))
		now, err := m.ring.Now(ctx, shard)
		if err != nil {
			return probed, err
		}
		items := make([]circulate.Resumption, n)
		for i, p := range due[:n] {
			items[i] = circulate.Resumption{ID: p.ID, Due: now.Add(time.Duration(i) * each), Reason: p.Reason}
		}
		outcomes, err := m.ring.Probe(ctx, shard, items)
		if err != nil {
			return probed, err // perhaps of unknown outcome: the next walk looks again
		}
		for _, o := range outcomes {
			if o == circulate.BackAgain {
				probed++
				m.metrics.probed.Inc()
			}
		}
		due = due[n:]
		rest(ctx, time.Duration(n)*each)
	}
	return probed, nil
}
