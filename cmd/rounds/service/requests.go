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
		route, began, reply := server.Route(r), time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { // a handler may end by a panic
			m.codes.WithLabelValues(strconv.Itoa(reply.status)).Inc()
			m.seconds.WithLabelValues(route, strconv.Itoa(reply.status/100)+"xx").Observe(time.Since(began).Seconds())
		}()
		server.ServeHTTP(reply, r)
	})
}

// statusWriter remembers the status of a reply.
type statusWriter struct {
	http.ResponseWriter
	status int
	begun  bool
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status that is sent to the caller.
func (w *statusWriter) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.status, w.begun = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the reply, or continues it.
func (w *statusWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}
