package main

import (
	"bytes"
	"os"
	"testing"
)

// The shipped dashboard is the one that this program writes.
func TestDashboardIsGenerated(t *testing.T) {
	want, err := encode(dashboardOf(rows()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("deployments/monitoring/dashboard.json is not what its program writes: go generate ./deployments/monitoring/board")
	}
}
