package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/files/keep"
)

const leaveTimeout = time.Second // to report that it leaves

// presence is what a process reports while it runs.
type presence struct {
	process  circulate.Process
	report   accounts.ProcessReport       // without the settings
	settings func() settings.Settings     // the current ones
	lost     func() (int, time.Time)      // entries of the trail that Redis did not accept
	files    *atomic.Pointer[keep.Keeper] // fetches files; nil in it: this process does not
	pulse    *pulse
}

// stuckAfter is how long a loop may take beyond its turn before it counts as stuck. A turn of
// attend takes a heartbeat's interval at most, even while Redis is away.
const stuckAfter = 30 * time.Second

// pulse shows whether a loop still turns. The zero value belongs to a loop that does not run, which
// is not stuck.
type pulse struct{ until atomic.Pointer[time.Time] } // nil: it does not run

func (p *pulse) beat(turn time.Duration) {
	until := time.Now().Add(turn + stuckAfter) // monotonic: a clock that steps makes nobody stuck
	p.until.Store(&until)
}

func (p *pulse) stop() { p.until.Store(nil) }

// alive reports whether the loop turns, or does not run.
func (p *pulse) alive(context.Context) bool {
	until := p.until.Load()
	return until == nil || time.Now().Before(*until)
}

// newPresence makes the presence of this process, which has just started.
func newPresence(version string, current func() settings.Settings, lost func() (int, time.Time)) presence {
	host, err := os.Hostname()
	if err != nil {
		host = "" // it only helps people to find the process
	}
	return presence{
		circulate.Process{Name: circulate.NewReplica(), Roles: strings.Join(current().API.Roles, ",")},
		accounts.ProcessReport{Version: version, Host: host, Since: time.Now().UTC().Truncate(time.Second)}, current, lost, new(atomic.Pointer[keep.Keeper]), new(pulse),
	}
}

// about returns the process's report in the roster's form.
func (p presence) about() []byte {
	report := p.report
	report.Settings = p.settings().Compared()
	report.TrailLost, report.TrailLostAt = p.lost()
	if keeper := p.files.Load(); keeper != nil {
		report.Files = filesReport(keeper.Standing())
	}
	about, err := json.Marshal(report)
	if err != nil {
		return nil // the process is reported even so
	}
	return about
}

// attend reports the process at once and then every interval until ctx is done, and then reports
// that it leaves. It sends the process's description once, and again if that has changed or Redis
// has forgotten it. If a report fails, the next one replaces it, because only what operators see
// depends on it.
func (p presence) attend(ctx context.Context, ring *circulate.Ring, interval time.Duration) {
	roster := ring.Roster()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	defer p.pulse.stop()
	var told []byte
	for ctx.Err() == nil {
		p.pulse.beat(max(interval, time.Second))
		about := p.about()
		says := about
		if bytes.Equal(about, told) {
			says = nil
		}
		try, cancel := context.WithTimeout(ctx, max(interval, time.Second))
		known, err := roster.Attend(try, p.process, says)
		cancel()
		told = nil
		if known && err == nil {
			told = about
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = roster.Depart(bye, p.process)
}

// redisMetrics are what a process knows about the Redis that it works with.
type redisMetrics struct {
	seconds prometheus.Histogram
	failed  prometheus.Counter
}

// newRedisMetrics registers the metrics, including those that only some servers have.
func newRedisMetrics(registry prometheus.Registerer, server circulate.Server) redisMetrics {
	m := redisMetrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "rounds", Name: "redis_call_seconds",
			Help: "How long calls to Redis took, including those that failed.", Buckets: prometheus.ExponentialBuckets(0.00025, 2, 17)}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "redis_calls_failed_total",
			Help: "Calls that Redis did not serve: it could not be reached, did not answer in time, or refuses its clients."}),
	}
	registry.MustRegister(m.seconds, m.failed)
	if s, ok := server.(interface{ Redirected() int64 }); ok {
		counts(registry, "redis_redirects_total", "Commands that a node of a cluster refused because another serves their slot, or because it is on its way.", s.Redirected)
	}
	if s, ok := server.(interface{ Silent() int64 }); ok {
		counts(registry, "redis_sentinels_silent_total", "Times that a sentinel could not be reached or returned nothing; each is asked every second.", s.Silent)
	}
	return m
}

func (m redisMetrics) observe(took time.Duration, err error) {
	m.seconds.Observe(took.Seconds())
	if circulate.Unavailable(err) && !errors.Is(err, context.Canceled) {
		m.failed.Inc()
	}
}
