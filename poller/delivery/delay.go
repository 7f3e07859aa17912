package delivery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// history is how old a message may be when it is found. Older ones are what a third party still had when
// an account was added: how late they are says nothing about this service.
const history = 24 * time.Hour

// delayBuckets are from a second, below which the clocks of third parties mean nothing, to a day.
func delayBuckets() []float64 {
	return []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400}
}

// noteDelays records how long after the third party's time the messages of a batch were acknowledged, by
// Redis' clock.
func (s *session) noteDelays(batch []Delivery, errs []error, now time.Time) {
	var delays prometheus.Observer
	var slow prometheus.Counter
	kind := ""
	for i := range batch {
		d := &batch[i]
		delay, known := delayOf(d, now)
		if outcome := outcomeOf(s.work, errs[i]); !known || outcome != outcomeOK && outcome != outcomeDone {
			continue
		}
		if delays == nil || d.Kind != kind {
			kind = d.Kind
			delays = s.meters.delay.WithLabelValues(s.Group, kind)
			if s.Objective > 0 { // at zero, so that the first slow one counts
				slow = s.meters.slow.WithLabelValues(s.Group, kind)
			}
		}
		delays.Observe(delay.Seconds())
		if slow != nil && delay > s.Objective {
			slow.Inc()
		}
	}
}

// delayOf returns how long before a time a message was created, by its third party's clock. It reports
// false for a message without a time or from history, and for an event or a dead letter that was
// replayed.
func delayOf(d *Delivery, now time.Time) (time.Duration, bool) {
	at := d.Message.Time
	if at.IsZero() || d.Event || d.Only != "" || writtenAt(d.Position).Sub(at) > history {
		return 0, false
	}
	return max(0, now.Sub(at)), true
}
