package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

// Metrics are the metrics of the sinks of a process, by the endpoint's name. None is labelled by
// account or URL.
type Metrics struct {
	deliveries *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	breaker    *prometheus.GaugeVec
	disabled   *prometheus.GaugeVec
}

// NewMetrics registers the metrics. With a nil registry they are not exported.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	gauge := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Name: name, Help: help}, []string{"endpoint"})
	}
	return &Metrics{
		deliveries: f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "webhook_deliveries_total",
			Help: "Messages handed to an endpoint's sink, by how that ended."}, []string{"endpoint", "outcome"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Name: "webhook_attempt_seconds",
			Help: "From request to answer or failure, of each attempt.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"endpoint"}),
		breaker:  gauge("webhook_breaker_state", "The endpoint's circuit breaker in this process: 0 closed, 1 half-open, 2 open."),
		disabled: gauge("webhook_disabled", "1 while the endpoint is disabled."),
	}
}

// Count counts a message that was handed to the sink of an endpoint that is no webhook.
func (m *Metrics) Count(endpoint string, outcome sink.Outcome) {
	m.deliveries.WithLabelValues(endpoint, string(outcome)).Inc()
}
