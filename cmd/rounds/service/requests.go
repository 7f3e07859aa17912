package service

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// requestMetrics count the API's answers. Their labels are bounded by the number of
// routes and codes, whatever callers request.
type requestMetrics struct {
	codes   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newRequestMetrics(registry prometheus.Registerer) requestMetrics {
	m := requestMetrics{
		codes: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "api_requests_total",
			Help: "Requests that the API answered, by status code."}, []string{"code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rounds", Name: "api_request_seconds",
			Help:    "How long the API took to answer, by route and class of status code: 2xx, 3xx, 4xx or 5xx. Streams take as long as their callers follow them.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 2.5, 10}}, []string{"route", "class"}),
	}
	registry.MustRegister(m.codes, m.seconds)
	return m
}

// counting counts what a server answers.
func (m requestMetrics) counting(server *api.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, began, reply := server.Route(r), time.Now(), api.NewStatusWriter(w)
		defer func() { // a handler may end by a panic
			m.codes.WithLabelValues(strconv.Itoa(reply.Status())).Inc()
			m.seconds.WithLabelValues(route, strconv.Itoa(reply.Status()/100)+"xx").Observe(time.Since(began).Seconds())
		}()
		server.ServeHTTP(reply, r)
	})
}
