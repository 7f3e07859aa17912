package service

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
)

const leaveTimeout = time.Second // to say so

// attend says that the process is there, at once and then every interval, until ctx
// is done, and then that it leaves. What fails the next time makes good: nothing but
// a metric of the monitors depends on it.
func attend(ctx context.Context, ring *circulate.Ring, process circulate.Process, interval time.Duration) {
	roster := ring.Roster()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, max(interval, time.Second))
		_ = roster.Attend(try, process)
		cancel()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = roster.Leave(bye, process)
}

// redisMetrics are what a process knows of the Redis that it works with.
type redisMetrics struct {
	seconds prometheus.Histogram
	failed  prometheus.Counter
}

// newRedisMetrics registers them, and those that only some servers have.
func newRedisMetrics(registry prometheus.Registerer, server circulate.Server) redisMetrics {
	m := redisMetrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "rounds", Name: "redis_call_seconds",
			Help: "How long calls to Redis took, those that failed included.", Buckets: prometheus.ExponentialBuckets(0.00025, 2, 17)}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "redis_calls_failed_total",
			Help: "Calls that Redis did not serve: it could not be reached, did not answer in time, or refuses its clients."}),
	}
	registry.MustRegister(m.seconds, m.failed)
	if s, ok := server.(interface{ Redirected() int64 }); ok {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "rounds", Name: "redis_redirects_total",
			Help: "Commands that a node of a cluster refused because another serves their slot, or because it is on its way."},
			func() float64 { return float64(s.Redirected()) }))
	}
	if s, ok := server.(interface{ Silent() int64 }); ok {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "rounds", Name: "redis_sentinels_silent_total",
			Help: "Times that a sentinel could not be reached or told nothing; each is asked every second."},
			func() float64 { return float64(s.Silent()) }))
	}
	return m
}

func (m redisMetrics) observe(took time.Duration, err error) {
	m.seconds.Observe(took.Seconds())
	if circulate.Unavailable(err) && !errors.Is(err, context.Canceled) {
		m.failed.Inc()
	}
}
