package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// printed returns the figures that a function prints, by name.
func printed(t *testing.T, print func(r reporter)) map[string]float64 {
	t.Helper()
	var out bytes.Buffer
	print(reporter{out: &out, json: true, commit: "c"})
	all := make(map[string]float64)
	for line := range strings.Lines(out.String()) {
		var f figure
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Commit != "c" {
			t.Fatalf("%q: %v", line, err)
		}
		all[f.Name] = f.Value
	}
	return all
}

// What is printed of known samples is what its name says.
func TestFiguresOfKnownSamples(t *testing.T) {
	var samples []float64
	for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(1000) {
		samples = append(samples, float64(n+1))
	}
	got := printed(t, func(r reporter) {
		r.quantile("x_p%.0f_ms", samples, 0.5, "ms")
		r.quantile("x_p%.0f_ms", samples, 0.99, "ms")
		r.quantile("one_p%.0f_s", samples[:1], 0.99, "s")
	})
	for name, want := range map[string]float64{"x_p50_ms": 501, "x_p99_ms": 991, "one_p99_s": samples[0]} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	got = printed(t, func(r reporter) {
		r.lateness("y_", []lateness{{0.001, 0.03}, {0.002, 0.05}, {0.004, 0.01}}, ", of a test")
	})
	if want := map[string]float64{"y_p50_lateness_ms": 2, "y_p99_lateness_ms": 30, "y_p99_lateness_worst_window_ms": 50}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lateness is printed as %v, want %v", got, want)
	}
}

// What benchmarks of sinks print becomes figures, by their names or the packages'.
func TestFiguresOfSinks(t *testing.T) {
	got := printed(t, func(r reporter) {
		b := &sinksBench{report: r}
		for of, text := range map[string]string{
			"./poller/delivery/ndjson": "goos: linux\nBenchmarkHandle-2 \t 10\t 5 ns/op\t 300 messages/s\nBenchmarkHandle-2 \t 10\t 5 ns/op\t 100 messages/s\nBenchmarkHandle-2 \t 10\t 5 ns/op\t 200 messages/s\nPASS\n",
			".":                        "BenchmarkHandleKafka-2 \t 10\t 5 ns/op\t 1.5 messages/s\nBenchmarkHandleNATS \t 10\t 5 ns/op\t 2 messages/s\n",
		} {
			if err := b.print(of, []byte(text)); err != nil {
				t.Error(err)
			}
		}
		if err := b.print(".", []byte("PASS\n")); err == nil {
			t.Error("nothing was measured, and nothing says so")
		}
	})
	want := map[string]float64{"sink_ndjson_messages_per_second": 200, "sink_kafka_messages_per_second": 1.5, "sink_nats_messages_per_second": 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
