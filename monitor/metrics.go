package monitor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/circulate"
)

// Metrics are a monitor's counters and gauges.
type Metrics struct {
	sweeps   *prometheus.CounterVec
	requeued *prometheus.CounterVec
	accounts *prometheus.GaugeVec
	messages dutyGauge
	overdue  dutyGauge
	catchUp  dutyGauge
	backup   dutyGauge
	byKind   dutyGauge
	recalled prometheus.Counter
	trimmed  prometheus.Counter
	early    prometheus.Counter
	memory   *prometheus.GaugeVec
	concerns *prometheus.GaugeVec
	silenced *prometheus.GaugeVec
	heldBack dutyGauge
	sends    *prometheus.GaugeVec
	ended    *prometheus.CounterVec

	dead, deadOldest dutyGauge
	deadDropped      prometheus.Counter

	duty   prometheus.Gauge
	groups groupMetrics
	left   *prometheus.CounterVec
	gone   *prometheus.CounterVec
	there  *prometheus.GaugeVec
	shown  map[string]int // values of there, by roles; only the attendance uses it

	clockSteps   *prometheus.CounterVec
	clockStep    prometheus.Gauge
	rescheduled  prometheus.Counter
	quarantined  prometheus.Counter
	probed       prometheus.Counter
	moved        prometheus.Counter
	staleness    *stalenessSummary
	headroom     *prometheus.GaugeVec
	headroomLow  *prometheus.GaugeVec
	failing      failingMetrics
	scanSeconds  dutyGauge
	lost         dutyGauge
	duplicated   dutyGauge
	unjudged     dutyGauge
	findings     *prometheus.GaugeVec
	repairs      *prometheus.CounterVec
	audits       *prometheus.CounterVec
	auditSeconds dutyGauge

	budget, budgetSpent, budgetPrice, budgetCeiling dutyGauge
}

// dutyGauge is a gauge of the monitor on duty. On other monitors it has no value at all,
// rather than zero or the last value.
type dutyGauge struct{ vec *prometheus.GaugeVec }

func (g dutyGauge) set(v float64) { g.vec.WithLabelValues().Set(v) }
func (g dutyGauge) forget()       { g.vec.Reset() }

// NewMetrics registers a monitor's metrics. With a nil registry they are registered
// nowhere.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: "rounds", Name: name, Help: help})
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Name: name, Help: help}, labels)
	}
	onDuty := func(name, help string) dutyGauge { return dutyGauge{gauges(name, help)} }
	m := &Metrics{
		sweeps:      counters("sweeps_total", "Sweeps over all shards, by outcome: ok or failed.", "outcome"),
		requeued:    counters("requeued_total", "Entries taken out of processing_list, by reason: stale, orphaned, compensated, set_aside, unknown.", "reason"),
		accounts:    gauges("accounts", "Accounts by place: scheduled, waiting, claimed, parked.", "place"),
		messages:    onDuty("stream_messages", "Messages in the streams."),
		byKind:      onDuty("waiting_by_kind", "Accounts that wait for a replica that checks their kind, as others do not."),
		recalled:    counter("recalled_total", "Accounts that waited by a kind that no live replica checks, and now wait for any replica again."),
		overdue:     onDuty("overdue_seconds", "How long the longest overdue account has waited to be claimed."),
		catchUp:     onDuty("catch_up_seconds", "Estimate of how long it takes until no account is ten seconds late: 0 if none is, +Inf if the replicas make fewer checks than are asked for. Not shown if no checks are made."),
		backup:      onDuty("backup_age_seconds", "How long ago the last backup was sent whole. Not shown if none ever was."),
		trimmed:     counter("messages_trimmed_total", "Messages dropped because they were past their retention, or too many."),
		early:       counter("messages_trimmed_early_total", "Messages dropped before they were past their retention, because there were too many or they took too much memory."),
		memory:      gauges("redis_memory_ratio", "The part of its maxmemory that a Redis uses, by node. Not shown if it has none.", "node"),
		concerns:    gauges("redis_concerns", "1 if a setting or the state of a Redis could lose data, by node and concern: appendonly, append_fails, no_fsync, snapshot_fails, eviction, min_replicas, memory, unasked, and for a process with an embedded Redis unsaved, damaged, large.", "node", "concern"),
		silenced:    gauges("concern_silenced", "1 while somebody has silenced all concerns of a code, by the code. Alerts for the same reason do not fire meanwhile.", "concern"),
		heldBack:    onDuty("streams_held_back", "Streams with messages past their retention, or too many, that a consumer group has not dealt with."),
		sends:       gauges("sends", "Sends that have not ended, by state: queued, attempting, unknown.", "state"),
		ended:       counters("sends_ended_total", "Sends that ended without an answer, by state: expired, and unknown if their attempt lasted too long or its replica died.", "state"),
		dead:        onDuty("dead_letters", "Dead letters of all consumer groups."),
		deadOldest:  onDuty("dead_letter_oldest_seconds", "How long ago the oldest dead letter died, or arrived from a shard of before a change of their number."),
		deadDropped: counter("dead_letters_dropped_total", "Dead letters dropped because they were past their retention, or too many."),
		duty:        gauge("monitor_on_duty", "1 if this monitor does the work that needs only one, otherwise 0."),
		groups:      newGroupMetrics(gauges),
		clockSteps:  counters("redis_clock_steps_total", "Steps of Redis' clock of 10 seconds or more, by direction: ahead, back.", "direction"),
		clockStep:   gauge("redis_clock_step_seconds", "How far the last step of Redis' clock went; negative: back."),
		rescheduled: counter("rescheduled_total", "Accounts that were due too late after the clock went back, and were rescheduled."),
		left:        counters("processes_left_total", "Processes of the service that ended properly, by their roles. One monitor counts each.", "roles"),
		gone:        counters("processes_lost_total", "Processes of the service that went silent without leaving, because they were killed, frozen or cut off, by their roles. One monitor counts each.", "roles"),
		there:       gauges("processes", "Processes of the service that report themselves, by their roles.", "roles"),
		quarantined: counter("quarantined_total", "Accounts parked because they were taken from replicas too often in a row."),
		probed:      counter("probed_total", "Parked accounts that were tried again."),
		moved:       counter("accounts_moved_total", "Accounts moved to other shards while the number of shards changes."),
		staleness:   newStalenessSummary(),
		headroom:    gauges("headroom_seconds", "The least time until a third party forgets messages that no check has fetched, by kind. It covers accounts without a complete success for an hour.", "kind"),
		headroomLow: gauges("headroom_accounts", "Accounts whose third party will forget messages, by kind and the part of the retention time that is left: low (less than half), critical (less than a quarter), past (nothing).", "kind", "state"),
		failing:     newFailingMetrics(gauges),
		scanSeconds: onDuty("staleness_scan_seconds", "How long the last scan for staleness took."),
		lost:        onDuty("audit_lost", "Accounts that the last audit found in no place. Must be 0."),
		duplicated:  onDuty("audit_duplicated", "Accounts that the last audit found in several places. Must be 0."),
		unjudged: onDuty("audit_unjudged",
			"Accounts that the last audit could not judge, because their shard's lists moved too fast to be read."),
		findings:     gauges("audit_findings", "Other findings of the last audit, by kind: orphan, garbage, no_record, beyond, unowned, misplaced.", "kind"),
		repairs:      counters("audit_repairs_total", "Findings that audits repaired, by kind.", "kind"),
		audits:       counters("audits_total", "Audits of the whole ring, by outcome: ok, violated or failed.", "outcome"),
		auditSeconds: onDuty("audit_seconds", "How long the last audit took."),

		budget:        onDuty("budget_checks_per_second", "How many checks a second all adaptive accounts may spend. Not shown without a budget."),
		budgetSpent:   onDuty("budget_spent_per_second", "How many they spend, over about the last minute."),
		budgetPrice:   onDuty("budget_price_seconds", "The price by which the budget sets intervals: messages a second, times the square of the interval. 0: not known yet."),
		budgetCeiling: onDuty("budget_at_ceiling_ratio", "The part of these checks after which the interval is the longest that the account's cadence allows."),
	}
	if registry != nil {
		registry.MustRegister(m.staleness)
	}
	m.begin()
	return m
}

// begin shows at zero the counters that alerts watch: a counter that first appears at one
// has not increased.
func (m *Metrics) begin() {
	for _, outcome := range []string{"ok", "failed"} {
		m.sweeps.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "violated", "failed"} {
		m.audits.WithLabelValues(outcome)
	}
	for _, direction := range []string{"ahead", "back"} {
		m.clockSteps.WithLabelValues(direction)
	}
}

func (m *Metrics) swept(s Swept, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.sweeps.WithLabelValues(outcome).Inc()
	m.quarantined.Add(float64(s.Quarantined))
	m.ended.WithLabelValues(circulate.SendExpired.String()).Add(float64(s.Expired))
	m.ended.WithLabelValues(circulate.SendUnknown.String()).Add(float64(s.Doubtful))
	for reason, n := range map[string]int{
		"stale": s.Stale, "orphaned": s.Orphaned, "compensated": s.Compensated, "set_aside": s.SetAside, "unknown": s.Unknown,
	} {
		m.requeued.WithLabelValues(reason).Add(float64(n))
	}
}

// stepped counts a step of Redis' clock.
func (m *Metrics) stepped(seconds float64) {
	direction := "ahead"
	if seconds < 0 {
		direction = "back"
	}
	m.clockSteps.WithLabelValues(direction).Inc()
	m.clockStep.Set(seconds)
}

func (m *Metrics) set(c circulate.Count) {
	for place, n := range map[circulate.Place]int{
		circulate.Scheduled: c.Scheduled, circulate.Waiting: c.Waiting, circulate.Claimed: c.Claimed, circulate.Parked: c.Parked,
	} {
		m.accounts.WithLabelValues(string(place)).Set(float64(n))
	}
	m.messages.set(float64(c.Messages))
	m.overdue.set(c.Overdue.Seconds())
	m.byKind.set(float64(c.ByKind))
}

// showBudget shows the state of the budget.
func (m *Metrics) showBudget(s budget.Standing) {
	m.budget.set(s.Budget)
	m.budgetSpent.set(s.Spent)
	m.budgetPrice.set(s.Price)
	m.budgetCeiling.set(s.Ceiling)
}

func (m *Metrics) forgetBudget() {
	for _, g := range []dutyGauge{m.budget, m.budgetSpent, m.budgetPrice, m.budgetCeiling} {
		g.forget()
	}
}

func (m *Metrics) setSends(c circulate.SendCount) {
	for state, n := range map[circulate.SendState]int{
		circulate.SendQueued: c.Queued, circulate.SendAttempting: c.Attempting, circulate.SendUnknown: c.Unknown,
	} {
		m.sends.WithLabelValues(state.String()).Set(float64(n))
	}
}

// setHeadroom shows the result of a scan. The states do not overlap.
func (m *Metrics) setHeadroom(found []accounts.Headroom) {
	m.headroom.Reset()
	m.headroomLow.Reset()
	for _, h := range found {
		m.headroom.WithLabelValues(h.Kind).Set(h.Least)
		m.headroomLow.WithLabelValues(h.Kind, "low").Set(float64(h.Low - h.Critical))
		m.headroomLow.WithLabelValues(h.Kind, "critical").Set(float64(h.Critical - h.Past))
		m.headroomLow.WithLabelValues(h.Kind, "past").Set(float64(h.Past))
	}
}

// offDuty drops the values that another monitor shows now.
func (m *Metrics) offDuty() {
	m.duty.Set(0)
	m.staleness.forget()
	m.groups.forget()
	m.accounts.Reset()
	m.sends.Reset()
	m.memory.Reset()
	m.concerns.Reset()
	m.silenced.Reset()
	m.findings.Reset()
	m.headroom.Reset()
	m.headroomLow.Reset()
	m.failing.forget()
	m.forgetBudget()
	for _, g := range []dutyGauge{m.messages, m.overdue, m.catchUp, m.backup, m.byKind, m.heldBack, m.dead, m.deadOldest, m.scanSeconds, m.lost, m.duplicated, m.unjudged, m.auditSeconds} {
		g.forget()
	}
}
