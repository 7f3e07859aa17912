package main

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestSoak is a short run with fewer accounts.
func TestSoak(t *testing.T) {
	redistest.LookPath(t)
	findings, err := run(t.Context(), t.TempDir(), plan{length: 20 * time.Second, accounts: 120, mailboxes: 40, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if !f.holds {
			t.Errorf("expected: %s; found: %s", f.expected, f.found)
			continue
		}
		t.Logf("%s: %s", f.expected, f.found)
	}
}
