package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func exampleConstants() constants {
	c := assumed()
	c.redisCPU, c.replicaCPU, c.bytes, c.message, c.known, c.commands, c.idle = 24, 90, 500, 120, 400, 1.5, 10
	return c
}

func TestPlanFollowsTheFormulas(t *testing.T) {
	c := exampleConstants()
	for _, want := range []plan{
		{accounts: 1e6, masters: 1, shards: 64, cores: 3},      // 0.4 of a core; as many checks as were measured
		{accounts: 1e7, masters: 8, shards: 1024, cores: 25},   // 4 cores of Redis at half load each
		{accounts: 1e8, masters: 80, shards: 8192, cores: 250}, //
		{accounts: 1000, masters: 1, shards: 64, cores: 2},     // the smallest plan
	} {
		got := c.of(want.accounts)
		if got.masters != want.masters || got.shards != want.shards || got.cores != want.cores {
			t.Errorf("%.0f accounts: %d masters, %d shards, %d cores; want %d, %d, %d",
				want.accounts, got.masters, got.shards, got.cores, want.masters, want.shards, want.cores)
		}
	}
	p := c.of(6e6)
	near(t, "rate", p.rate, 100_000)
	near(t, "in flight", p.inFlight, 20_000)
	near(t, "memory", p.gib*gib, 1.5*6e6*(500+120*7))
	near(t, "commands", p.commands, 150_000+10*float64(p.cores))
	near(t, "cost", p.cost, 25*float64(2*p.masters+p.cores)+3.5*(2*p.gib+p.known))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Abs(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestPlanNamesWhatWasNotMeasured(t *testing.T) {
	dir := t.TempDir()
	r := newResults(options{}, &strings.Builder{})
	r.figure("durable_load_redis_cpu", 24, "µs")
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	err := printPlan(filepath.Join(dir, "measured.json"), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "bytes_per_account") || strings.Contains(err.Error(), "durable_load_redis_cpu") {
		t.Errorf("got %v", err)
	}
}

func TestPlanIsPrinted(t *testing.T) {
	dir := t.TempDir()
	r := newResults(options{commit: "abc"}, &strings.Builder{})
	for _, name := range []string{"durable_load_redis_cpu", "http_replica_cpu", "bytes_per_account", "bytes_per_message", "replica_bytes_per_account", "load_commands", "idle_commands_per_replica"} {
		r.figure(name, 30, "")
	}
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printPlan(filepath.Join(dir, "measured.json"), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"`durable_load_redis_cpu` | abc |", "| 1 million | 16667 | 2 |", "| 10 million |", "| 100 million | 1666667 | 100 |", "One master"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "measured.json")); err != nil {
		t.Error(err)
	}
}
