package poller

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/circulate"
)

// Metrics are the metrics of a pool. None is labelled by account.
type Metrics struct {
	checks       *prometheus.CounterVec
	failures     *prometheus.CounterVec
	warnings     *prometheus.CounterVec
	moved        *prometheus.CounterVec
	checkSeconds *prometheus.HistogramVec
	lateness     prometheus.Histogram
	messages     *prometheus.CounterVec
	parked       *prometheus.CounterVec
	panics       *prometheus.CounterVec
	abandoned    prometheus.Counter
	claims       prometheus.Counter
	claimed      prometheus.Counter
	void         prometheus.Counter
	passedBy     prometheus.Counter
	returns      *prometheus.CounterVec
	released     prometheus.Counter
	redisErrors  *prometheus.CounterVec
	heartbeats   *prometheus.CounterVec
	running      prometheus.Gauge
	held         prometheus.Gauge
	hanging      prometheus.Gauge
	putOff       *prometheus.CounterVec
	reclaimed    prometheus.Counter
	limited      *prometheus.CounterVec
	outage       prometheus.Gauge
	short        prometheus.Gauge
	woken        prometheus.Counter
	wakeupsLost  prometheus.Counter
	passedOver   *prometheus.CounterVec
	repeated     *prometheus.CounterVec
	overruns     *prometheus.CounterVec
	failing      *prometheus.GaugeVec
	sends        *prometheus.CounterVec
	sendSeconds  *prometheus.HistogramVec
}

// outcomeWords are the outcomes of attempts as metrics name them.
var outcomeWords = map[circulate.SendOutcome]string{
	circulate.AttemptAccepted: "accepted", circulate.AttemptRejected: "rejected", circulate.AttemptUnknown: "unknown",
	circulate.AttemptAgain: "again", circulate.AttemptUnsent: "unsent", circulate.AttemptNotBegun: "put_off",
}

// NewMetrics registers a pool's metrics. With a nil registry they are not exported.
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
	m := &Metrics{
		checks: counters("checks_total", "Checks that ended, by kind and outcome: ok or the kind of the failure.", "kind", "outcome"),
		failures: counters("check_failures_total", "Checks that failed, by kind and class: dns, connect, tls, timeout, proxy, http_4xx, http_5xx, auth, gone, config, cursor_invalid, rate_limited, parse, hung, panic, other.",
			"kind", "class"),
		warnings: counters("check_warnings_total", "Checks that succeeded though something was wrong with the answer, by kind and code: malformed, moved.", "kind", "code"),
		moved:    counters("moves_total", "Permanent moves that third parties announced, by kind and outcome: followed, changed (somebody changed the record meanwhile), failed, dropped (too many at once, or a second move within a day).", "kind", "outcome"),
		failing: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Name: "checks_failing",
			Help: "Checks that failed within the last minute, by kind, code and host (or another rate key), for the 20 most frequent."}, []string{"kind", "code", "host"}),
		checkSeconds: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Name: "check_seconds",
			Help: "From claim to result, all pages.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"kind"}),
		lateness: f.NewHistogram(prometheus.HistogramOpts{Namespace: "rounds", Name: "lateness_seconds",
			Help: "How much later than due checks started.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 22)}),
		sends: counters("sends_attempted_total", "Attempts of sends, by kind and outcome: accepted, rejected, unknown, again (refused for now), unsent (no byte left), put_off (not begun), fenced (it was no longer this replica's, or could not be written).", "kind", "outcome"),
		sendSeconds: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Name: "send_seconds",
			Help: "How long calls of sends took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"kind"}),
		messages:    counters("messages_found_total", "Messages written to the streams, by kind.", "kind"),
		passedOver:  counters("messages_passed_over_total", "Messages dropped because their accounts were resumed from now, by kind.", "kind"),
		repeated:    counters("messages_repeated_total", "Messages that a third party gave again and that were not written again, because their accounts remember them, by kind.", "kind"),
		overruns:    counters("memory_overruns_total", "Times that an account forgot messages before their time, because it found too many, by kind.", "kind"),
		parked:      counters("parked_total", "Accounts parked by a check's outcome, by kind.", "kind"),
		panics:      counters("checker_panics_total", "Checks that panicked, by kind.", "kind"),
		abandoned:   counter("checks_abandoned_total", "Checks that exceeded their time and were abandoned."),
		claims:      counter("claims_total", "Looks at a shard for accounts to claim."),
		claimed:     counter("claimed_total", "Accounts claimed."),
		passedBy:    counter("passed_by_total", "Accounts passed by at a claim because only other replicas check their kind."),
		void:        counter("void_entries_total", "Entries dropped at a claim because their ticket was not current."),
		returns:     counters("returns_total", "Accounts returned, by outcome: written, fenced, unknown, given_up.", "outcome"),
		released:    counter("released_total", "Accounts returned unchecked."),
		redisErrors: counters("redis_errors_total", "Steps that failed, by step.", "step"),
		heartbeats:  counters("heartbeats_total", "Heartbeats, by outcome: ok or failed.", "outcome"),
		woken:       counter("wakeups_total", "Wake-ups: an account became due earlier than was known."),
		wakeupsLost: counter("wakeups_lost_total", "Times that the subscription to wake-ups was lost."),
		putOff:      counters("put_back_total", "Claimed accounts that went back to the schedule unchecked, by reason: outage, down, isolation, limit, limit_unanswered, redis-memory, share, crowd, handed_over, held_full, secret_changed, unknown_kind, unknown_cadence, unknown_field.", "reason"),
		limited:     counters("limit_denials_total", "Times that a limit denied a claimed account its check until later, by kind.", "kind"),
		reclaimed:   counter("reclaimed_total", "Accounts that the replica held without knowing it, after a lost reply, and returned."),
		outage:      gauge("outage_suspected", "1 while this replica's own network, or the network behind one of its ways out, seems to be down and failures do not count against accounts."),
		short:       gauge("redis_memory_short", "1 while this replica takes no messages because a Redis has used its memory up to the mark."),
		running:     gauge("checks_running", "Checks under way."),
		held:        gauge("checks_held", "Checks that a third party holds until something comes, or that wait for their next call. They count toward ROUNDS_HELD_CHECKS and are not among those under way."),
		hanging:     gauge("checks_hanging", "Abandoned checks whose checker has not returned."),
	}
	// Counters start at zero for alerts: a counter that appears at one has not increased.
	for _, outcome := range []string{"written", "fenced", "unknown", "given_up"} {
		m.returns.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"ok", "failed"} {
		m.heartbeats.WithLabelValues(outcome)
	}
	return m
}
