package service

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/processes"
)

// The process shows the metrics of the program's own kind, and logs its lines.
func TestKindsMetricsAndLogAreTheProcess(t *testing.T) {
	variables := map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0"}
	s, err := read(variables)
	if err != nil {
		t.Fatal(err)
	}
	kind := func(tools Tools) (poller.Checker, error) {
		lofts := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pigeon_lofts", Help: "Lofts."})
		lofts.Set(7)
		tools.Log.Info("pigeons are ready")
		return pigeons{}, tools.Metrics.Register(lofts)
	}
	var log processes.Output
	addr := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, s, Options{
			Lookup: lookupIn(variables), Log: slog.New(slog.NewTextHandler(&log, nil)),
			Kinds: []Kind{kind}, Serving: func(a string) { addr <- a },
		})
	}()
	base := "http://" + <-addr
	processes.AwaitStatus(t, base+"/readyz", 200)
	if _, metrics := processes.Get(t, base+"/metrics", ""); !strings.Contains(metrics, "pigeon_lofts 7") {
		t.Error("its metric is not shown")
	}
	if !strings.Contains(log.String(), "pigeons are ready") {
		t.Error("its log is not the process'")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
