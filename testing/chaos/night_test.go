//go:build night

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestADoubledSendIsFound runs a service that queues the attempts of a dead replica again. Pollers
// are killed while sends are under way, at least the second time, and some of these then arrive twice.
func TestADoubledSendIsFound(t *testing.T) {
	redistest.LookPath(t)
	dir := t.TempDir()
	var progress strings.Builder
	r, err := unleash(t.Context(), options{
		length: 20 * time.Second, seed: 1, on: []topology{onServer}, faults: []string{"pollers-kill-all"}, rounds: 2, accounts: 40, dir: dir, log: &progress,
		binary: broken(t, dir, "a dead replica's attempt is queued again"),
	})
	t.Log(progress.String())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, text := range slices.Concat(r.Violations, r.Rows[0].Faults) {
		if strings.HasPrefix(text, "sends: ") && strings.Contains(text, "arrived 2 times") {
			found++
		}
	}
	if found == 0 {
		t.Errorf("of %d violations none is of a send that arrived twice: %+v", r.failed(), r.Sends)
	}
}
