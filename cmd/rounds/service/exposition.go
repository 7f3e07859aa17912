package service

import (
	"net/http"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// exposition serves the metrics of the process and of its roles. When the number of shards changes,
// the roles begin again, and so do their counters, as after a restart.
type exposition struct {
	process *prometheus.Registry
	roles   atomic.Pointer[prometheus.Registry]
}

// newExposition makes the exposition of a process of a version, built from a commit.
func newExposition(version, commit string) *exposition {
	e := &exposition{process: prometheus.NewRegistry()}
	showBuild(e.process, version, commit)
	e.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return e
}

// ServeHTTP serves the metrics.
func (e *exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	both := prometheus.Gatherers{e.process}
	if roles := e.roles.Load(); roles != nil {
		both = append(both, roles)
	}
	promhttp.HandlerFor(both, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// showBuild shows as a metric which program the process runs.
func showBuild(registry prometheus.Registerer, version, commit string) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "rounds", Name: "build_info",
		Help:        "1. The labels name the program: version, commit (empty: not known), Go's version and the platform.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": runtime.Version(), "goos": runtime.GOOS, "goarch": runtime.GOARCH},
	}, func() float64 { return 1 }))
}
