package service

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// exposition serves the metrics of the process and those of its roles. When the number of
// shards changes the roles begin again, and so do their counters, as after a restart.
type exposition struct {
	process *prometheus.Registry
	roles   atomic.Pointer[prometheus.Registry]
}

func newExposition() *exposition {
	e := &exposition{process: prometheus.NewRegistry()}
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
