package monitor

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The monitor on duty migrates every shard, tells when that begins and ends, and then rests.
func TestMonitorMigrates(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 3, Eras: 1})
	if err != nil {
		t.Fatal(err)
	}
	moved := make(map[int]int)
	step := circulate.Step{Name: "test", Needs: "v9.0.0", Move: func(_ context.Context, _ *circulate.Ring, shard int, cursor string) (string, error) {
		if moved[shard]++; cursor == "" {
			return "half", nil
		}
		return "", nil
	}}
	var log strings.Builder
	m, err := New(ring, Config{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Steps: []circulate.Step{step}})
	if err != nil {
		t.Fatal(err)
	}
	task := newMigrator(m)
	for range 6 {
		if err := task.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for shard := range 3 {
		if moved[shard] != 2 {
			t.Errorf("shard %d was moved %d times", shard, moved[shard])
		}
	}
	if said := log.String(); strings.Count(said, "migration=test") != 2 || !strings.Contains(said, "a migration is over") {
		t.Errorf("it says\n%s", said)
	}
	if era, name, _, err := ring.Migration().State(t.Context()); era != 1 || name != "" || err != nil {
		t.Errorf("era %d, %q, %v", era, name, err)
	}
}
