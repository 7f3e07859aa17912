package monitor

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
)

// A scrape at any moment sees every process that stays.
func TestProcessesThatStayAreAlwaysShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	stays := circulate.Process{Name: "a", Roles: "monitor"}
	both := map[circulate.Process]time.Time{stays: {}, {Name: "b", Roles: "poller"}: {}}
	one := map[circulate.Process]time.Time{stays: {}}
	m.showThere(both)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				m.showThere(one)
				m.showThere(both)
			}
		}
	}()
	for range 2000 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for _, f := range families {
			if f.GetName() == "rounds_processes" {
				for _, metric := range f.GetMetric() {
					if metric.GetLabel()[0].GetValue() == stays.Roles && metric.GetGauge().GetValue() == 1 {
						shown++
					}
				}
			}
		}
		if shown != 1 {
			t.Fatal("a process that is there is not shown")
		}
	}
	close(stop)
	<-done
}
