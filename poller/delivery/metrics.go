package delivery

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// Metrics are the metrics of consumers, by group. None is labelled by account. Lag, pending and
// dead letters count only the shards that the process reads: their sums over all processes are the
// group's.
type Metrics struct {
	handled       *prometheus.CounterVec
	latency       *prometheus.HistogramVec
	delay         *prometheus.HistogramVec
	slow          *prometheus.CounterVec
	redisErrors   *prometheus.CounterVec
	panics        *prometheus.CounterVec
	takenOver     *prometheus.CounterVec
	lost          *prometheus.CounterVec
	stuck         *prometheus.GaugeVec
	aside         *prometheus.GaugeVec
	givenUp       *prometheus.CounterVec
	shards        *prometheus.GaugeVec
	lag           *prometheus.GaugeVec
	oldestUnread  *prometheus.GaugeVec
	pending       *prometheus.GaugeVec
	oldestPending *prometheus.GaugeVec
	dead          *prometheus.GaugeVec
}

// NewMetrics registers the metrics of consumers. With a nil registry they are not exported.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	f := promauto.With(registry)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Subsystem: "delivery", Name: name, Help: help}, append([]string{"group"}, labels...))
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Subsystem: "delivery", Name: name, Help: help}, []string{"group"})
	}
	return &Metrics{
		handled: counters("handled_total", "Deliveries by outcome: "+strings.Join(outcomes(), ", ")+".", "outcome"),
		latency: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Subsystem: "delivery", Name: "latency_seconds",
			Help: "From commit to handler, of first deliveries.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 22)}, []string{"group"}),
		delay: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Name: "detection_delay_seconds",
			Help: "From the third party's time of a message to its acknowledgement, by group and kind.", Buckets: delayBuckets()}, []string{"group", "kind"}),
		slow: f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "detection_slow_total",
			Help: "Messages that were acknowledged later than ROUNDS_DETECTION_OBJECTIVE after the third party's time, by group and kind."}, []string{"group", "kind"}),
		redisErrors:   counters("redis_errors_total", "Steps that failed, by step.", "step"),
		panics:        counters("handler_panics_total", "Batches in which the handler panicked."),
		takenOver:     counters("taken_over_total", "Pending messages taken over from another consumer, or after an unknown outcome."),
		lost:          counters("leases_lost_total", "Shards lost to another consumer, or because Redis was away too long."),
		stuck:         gauges("handlers_stuck", "Handlers that do not return although their context is done."),
		aside:         gauges("aside", "1 while the process has left the group because a handler hangs in each of its slots."),
		givenUp:       counters("shards_given_up_total", "Times that a shard was given up because a handler did not return."),
		shards:        gauges("shards", "Shards that this process reads."),
		lag:           gauges("lag", "Messages not read."),
		oldestUnread:  gauges("oldest_unread_seconds", "The age of the oldest message that is not read."),
		pending:       gauges("pending", "Messages read and not acknowledged."),
		oldestPending: gauges("oldest_pending_seconds", "For how long the oldest message that is not acknowledged has been there."),
		dead:          gauges("dead_letters", "Dead letters in the shards, of all groups."),
	}
}

// meters are one group's.
type meters struct {
	*Metrics
	group     string
	latency   prometheus.Observer
	panics    prometheus.Counter
	takenOver prometheus.Counter
	lost      prometheus.Counter
	stuck     prometheus.Gauge
	aside     prometheus.Gauge
	givenUp   prometheus.Counter
	shards    prometheus.Gauge
}

func (m *Metrics) of(group string) meters {
	for _, outcome := range outcomes() { // at zero, for the alert about the first one
		m.handled.WithLabelValues(group, outcome)
	}
	return meters{
		Metrics: m, group: group,
		latency: m.latency.WithLabelValues(group), panics: m.panics.WithLabelValues(group),
		takenOver: m.takenOver.WithLabelValues(group), lost: m.lost.WithLabelValues(group),
		stuck: m.stuck.WithLabelValues(group), aside: m.aside.WithLabelValues(group),
		givenUp: m.givenUp.WithLabelValues(group), shards: m.shards.WithLabelValues(group),
	}
}

// set shows how far the group has got.
func (m *meters) set(sum circulate.GroupState) {
	m.lag.WithLabelValues(m.group).Set(float64(sum.Lag))
	m.pending.WithLabelValues(m.group).Set(float64(sum.Pending))
	m.dead.WithLabelValues(m.group).Set(float64(sum.Dead))
	m.oldestUnread.WithLabelValues(m.group).Set(sum.OldestUnread.Seconds())
	m.oldestPending.WithLabelValues(m.group).Set(sum.OldestPending.Seconds())
}

// clear stops showing shards that are no longer read here.
func (m *meters) clear() {
	m.shards.Set(0)
	m.aside.Set(0)
	m.set(circulate.GroupState{})
}

// measure looks now and then how far the group has got in the shards that are read
// here, until ctx is done. All groups of a process look at the same times, so that one
// call serves them all.
func (g *member) measure(ctx context.Context) {
	for sleep(ctx, untilNext(measureEvery, 0)) {
		if sum, err := g.survey(ctx); err != nil {
			g.failed("group state", err)
		} else if ctx.Err() == nil {
			g.meters.set(sum)
		}
	}
}

// survey adds up how far the group has got in the shards that are read here.
func (g *member) survey(ctx context.Context) (sum circulate.GroupState, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureEvery)
	defer cancel()
	var mu sync.Mutex
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for shard := range g.Ring.Shards() {
		if !g.isRead(shard) {
			continue
		}
		asking.Go(func() error {
			state, err := group.Of(g.Ring).Survey(ctx, shard, g.Group)
			if errors.Is(err, circulate.ErrNoGroup) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Lag += state.Lag
			sum.Pending += state.Pending
			sum.Dead += state.Dead
			sum.OldestUnread = max(sum.OldestUnread, state.OldestUnread)
			sum.OldestPending = max(sum.OldestPending, state.OldestPending)
			return err
		})
	}
	err = asking.Wait()
	return sum, err
}
