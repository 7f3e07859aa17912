package keep

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/circulate"
)

// Metrics are the metrics of files. None is labelled by account.
type Metrics struct {
	files    *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	fetching prometheus.Gauge
	waiting  prometheus.Gauge
	expire   prometheus.Gauge
	failing  prometheus.Gauge
	full     prometheus.Gauge
	kept     *prometheus.GaugeVec
	keptSize *prometheus.GaugeVec
	stored   *prometheus.GaugeVec
	removed  prometheus.Counter
	ended    prometheus.Counter
	orphans  prometheus.Counter
}

// NewMetrics registers the metrics of files. With a nil registry they are not exported.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	name := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "rounds", Subsystem: "files", Name: name, Help: help}
	}
	gauge := func(n, help string) prometheus.Gauge { return f.NewGauge(prometheus.GaugeOpts(name(n, help))) }
	gauges := func(n, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts(name(n, help)), labels)
	}
	counter := func(n, help string) prometheus.Counter { return f.NewCounter(prometheus.CounterOpts(name(n, help))) }
	counters := func(n, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts(name(n, help)), labels)
	}
	return &Metrics{
		files:    counters("fetched_total", "Files that messages carry, by kind and outcome: kept, lost, put_off.", "kind", "outcome"),
		bytes:    counters("fetched_bytes_total", "Bytes of files that were kept, by kind.", "kind"),
		seconds:  f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Subsystem: "files", Name: "fetch_seconds", Help: "How long files took that were kept.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 16)}, []string{"kind"}),
		fetching: gauge("fetching", "Files that are fetched now."),
		waiting:  gauge("waiting", "Messages whose files are put off, in this process."),
		expire:   gauge("expire_seconds", "When the first file that is put off may be forgotten by its third party, in seconds from now; a day if none waits."),
		failing:  gauge("store_failing_seconds", "For how long the store of files has failed; 0 if it works."),
		full:     gauge("full_seconds", "For how long a quota of files has refused files; 0 if none does."),
		kept:     gauges("kept", "Files that are kept, by kind.", "kind"),
		keptSize: gauges("kept_bytes", "Bytes of files that are kept, by kind; equal ones count each time.", "kind"),
		stored:   gauges("stored_bytes", "Bytes in the store, by what they are: objects, or condemned, which are about to be removed.", "what"),
		removed:  counter("removed_total", "Objects that were removed from the store."),
		ended:    counter("ended_total", "Files that ended because their message is gone."),
		orphans:  counter("orphans_total", "Objects in the store that no file had."),
	}
}

// outcomes are the labels of what becomes of a fetch.
func outcomes() []string { return []string{outcomeKept, outcomeLost, outcomePutOff} }

const (
	outcomeKept   = "kept"
	outcomeLost   = "lost"
	outcomePutOff = "put_off"
)

// begin shows kinds at zero, for the alert about the first file that is lost.
func (m *Metrics) begin(kinds []string) {
	for _, kind := range kinds {
		for _, outcome := range outcomes() {
			m.files.WithLabelValues(kind, outcome)
		}
	}
	m.expire.Set(unknownEnd.Seconds())
}

func (m *Metrics) fetched(kind, outcome string, bytes int64, took time.Duration) {
	m.files.WithLabelValues(kind, outcome).Inc()
	if outcome == outcomeKept {
		m.bytes.WithLabelValues(kind).Add(float64(bytes))
		m.seconds.WithLabelValues(kind).Observe(took.Seconds())
	}
}

// Show shows how a Keeper stands.
func (m *Metrics) Show(s Standing, now time.Time) {
	m.waiting.Set(float64(s.Waiting))
	expire := unknownEnd
	if !s.Soonest.IsZero() {
		expire = s.Soonest.Sub(now)
	}
	m.expire.Set(expire.Seconds())
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return now.Sub(t).Seconds()
	}
	m.failing.Set(since(s.StoreSince))
	m.full.Set(since(s.FullSince))
}

// showTotals shows what the list has.
func (m *Metrics) showTotals(t circulate.FileTotals) {
	m.kept.Reset()
	m.keptSize.Reset()
	for kind, sum := range t.Kinds {
		m.kept.WithLabelValues(kind).Set(float64(sum.Files))
		m.keptSize.WithLabelValues(kind).Set(float64(sum.Bytes))
	}
	m.stored.WithLabelValues("objects").Set(float64(t.Objects.Bytes))
	m.stored.WithLabelValues("condemned").Set(float64(t.Condemned.Bytes))
}
