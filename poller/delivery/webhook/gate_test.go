package webhook

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An attempt that began before a long pause may end with a shorter one. The endpoint asked for
// the long one, so that one stays.
func TestShorterPauseDoesNotReplaceLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2, slog.New(slog.DiscardHandler), func(string) error { return nil }, prometheus.NewGauge(prometheus.GaugeOpts{Name: "state"}))
		g.throttle(time.Hour)
		for _, shorter := range []time.Duration{time.Minute, 0} {
			if left := g.throttle(shorter); left < time.Hour || g.wait() < time.Hour {
				t.Errorf("after a pause of %v that is asked for later, %v of an hour is left", shorter, g.wait())
			}
		}
		if left := g.throttle(2 * time.Hour); left < 2*time.Hour || g.wait() < 2*time.Hour {
			t.Errorf("a longer pause leaves %v", g.wait())
		}
	})
}
