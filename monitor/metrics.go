package monitor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/circulate"
)

// Metrics are what a monitor counts.
type Metrics struct {
	sweeps   *prometheus.CounterVec
	requeued *prometheus.CounterVec
	accounts *prometheus.GaugeVec
	messages prometheus.Gauge
	overdue  prometheus.Gauge
	trimmed  prometheus.Counter
	heldBack prometheus.Gauge

	quarantined  prometheus.Counter
	probed       prometheus.Counter
	staleness    *stalenessSummary
	scanSeconds  prometheus.Gauge
	lost         prometheus.Gauge
	duplicated   prometheus.Gauge
	findings     *prometheus.GaugeVec
	repairs      *prometheus.CounterVec
	audits       *prometheus.CounterVec
	auditSeconds prometheus.Gauge
}

// NewMetrics registers a monitor's metrics; a nil registry counts for nobody.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	m := &Metrics{
		sweeps: f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "sweeps_total",
			Help: "Sweeps over all shards, by outcome: ok or failed."}, []string{"outcome"}),
		requeued: f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "requeued_total",
			Help: "Entries taken out of processing_list, by reason: stale, orphaned, compensated, set_aside, unknown."}, []string{"reason"}),
		accounts: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Name: "accounts",
			Help: "Accounts by place: scheduled, waiting, claimed, parked."}, []string{"place"}),
		messages: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "stream_messages",
			Help: "Messages in the streams."}),
		overdue: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "overdue_seconds",
			Help: "How long the longest overdue account has waited to be claimed."}),
		trimmed: f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "messages_trimmed_total",
			Help: "Messages dropped because they were past their retention."}),
		heldBack: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "streams_held_back",
			Help: "Streams with messages past their retention that a consumer group has not dealt with."}),
		quarantined: f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "quarantined_total",
			Help: "Accounts parked because they were taken from replicas too often in a row."}),
		probed: f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "probed_total",
			Help: "Parked accounts that were tried again."}),
		staleness: newStalenessSummary(),
		scanSeconds: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "staleness_scan_seconds",
			Help: "How long the last scan for staleness took."}),
		lost: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "audit_lost",
			Help: "Accounts that the last audit found in no place. Must be 0."}),
		duplicated: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "audit_duplicated",
			Help: "Accounts that the last audit found in several places. Must be 0."}),
		findings: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Name: "audit_findings",
			Help: "What else the last audit found, by kind: orphan, garbage, no_record."}, []string{"kind"}),
		repairs: f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "audit_repairs_total",
			Help: "What audits put right, by kind."}, []string{"kind"}),
		audits: f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "audits_total",
			Help: "Audits of the whole ring, by outcome: ok, violated or failed."}, []string{"outcome"}),
		auditSeconds: f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: "audit_seconds",
			Help: "How long the last audit took."}),
	}
	if registry != nil {
		registry.MustRegister(m.staleness)
	}
	return m
}

func (m *Metrics) swept(s Swept, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.sweeps.WithLabelValues(outcome).Inc()
	m.quarantined.Add(float64(s.Quarantined))
	for reason, n := range map[string]int{
		"stale": s.Stale, "orphaned": s.Orphaned, "compensated": s.Compensated, "set_aside": s.SetAside, "unknown": s.Unknown,
	} {
		m.requeued.WithLabelValues(reason).Add(float64(n))
	}
}

func (m *Metrics) set(c circulate.Count) {
	for place, n := range map[circulate.Place]int{
		circulate.Scheduled: c.Scheduled, circulate.Waiting: c.Waiting, circulate.Claimed: c.Claimed, circulate.Parked: c.Parked,
	} {
		m.accounts.WithLabelValues(string(place)).Set(float64(n))
	}
	m.messages.Set(float64(c.Messages))
	m.overdue.Set(c.Overdue.Seconds())
}

// offDuty forgets what another monitor finds now.
func (m *Metrics) offDuty() {
	m.staleness.forget()
	m.lost.Set(0)
	m.duplicated.Set(0)
	m.findings.Reset()
}
