package monitor

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
)

// stalenessSummary shows the last scan as a summary. Its quantiles are of the last scan;
// its count and sum are over all scans of this process. A monitor that does not scan
// shows nothing, rather than old values.
type stalenessSummary struct {
	desc *prometheus.Desc

	mu        sync.Mutex
	quantiles map[float64]float64 // nil: nothing is shown
	count     uint64
	sum       float64
}

func newStalenessSummary() *stalenessSummary {
	return &stalenessSummary{desc: prometheus.NewDesc("rounds_staleness_seconds",
		"How long ago accounts were last checked with complete success, as of the last scan.", nil, nil)}
}

// Describe and Collect implement prometheus.Collector.
func (s *stalenessSummary) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect shows the last scan.
func (s *stalenessSummary) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quantiles != nil {
		to <- prometheus.MustNewConstSummary(s.desc, s.count, s.sum, s.quantiles)
	}
}

func (s *stalenessSummary) set(ages *circulate.Ages) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += uint64(ages.Scanned)
	s.sum += ages.Sum()
	s.quantiles = map[float64]float64{0.5: ages.Quantile(0.5).Seconds(), 0.99: ages.Quantile(0.99).Seconds(), 1: ages.Max.Seconds()}
}

func (s *stalenessSummary) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quantiles = nil
}
