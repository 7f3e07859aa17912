package monitor

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
)

// failingMetrics show how many accounts fail, by the last scan. Only the monitor on duty
// shows them.
type failingMetrics struct {
	accounts, newly, never, behind *prometheus.GaugeVec // by kind
	missed                         *prometheus.GaugeVec // by share
}

func newFailingMetrics(gauges func(name, help string, labels ...string) *prometheus.GaugeVec) failingMetrics {
	return failingMetrics{
		accounts: gauges("accounts_failing", "Accounts whose last check failed, whatever the cause, by kind. Parked ones are left out.", "kind"),
		newly:    gauges("accounts_newly_failing", "Accounts of rounds_accounts_failing whose first slot since a check last succeeded was within the last hour, by kind.", "kind"),
		never:    gauges("accounts_never_succeeded", "Accounts that were checked, but never with complete success, by kind. Parked ones are left out.", "kind"),
		behind:   gauges("accounts_behind", "Accounts for which three slots of their cadence or more have passed since a check last succeeded completely, by kind. Parked ones are left out.", "kind"),
		missed:   gauges("missed_slots", "The most slots of their cadences that have passed since accounts were last checked with complete success, by share of the accounts: 0.99, or 1 for all. Anything above a thousand shows as a thousand.", "share"),
	}
}

func (m failingMetrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.accounts, m.newly, m.never, m.behind, m.missed}
}

func (m failingMetrics) forget() {
	for _, g := range m.all() {
		g.Reset()
	}
}

// setFailing shows the result of a scan.
func (m *Metrics) setFailing(found accounts.Failing) {
	m.failing.forget()
	for _, k := range found.Kinds {
		m.failing.accounts.WithLabelValues(k.Kind).Set(float64(k.Accounts))
		m.failing.newly.WithLabelValues(k.Kind).Set(float64(k.Newly))
		m.failing.never.WithLabelValues(k.Kind).Set(float64(k.NeverSucceeded))
		m.failing.behind.WithLabelValues(k.Kind).Set(float64(k.Behind))
	}
	m.failing.missed.WithLabelValues("0.99").Set(float64(found.MissedP99))
	m.failing.missed.WithLabelValues("1").Set(float64(found.MissedMax))
}
