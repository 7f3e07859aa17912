package monitor

import (
	"context"

	"github.com/rounds-dev/rounds/circulate"
)

// migrator migrates the namespace's data to this version's form, for the monitor on duty.
type migrator struct {
	*Monitor
	migration *circulate.Migrator
	last      circulate.State
}

func newMigrator(m *Monitor) *migrator {
	return &migrator{Monitor: m, migration: m.ring.Migrator(m.options.Steps)}
}

// turn continues for a moment, and logs when a migration begins and ends. Once all are over
// it does nothing.
func (m *migrator) turn(ctx context.Context) error {
	if m.last.Over {
		return nil
	}
	now, err := m.migration.Turn(ctx)
	if err != nil {
		return err
	}
	if now.Name != "" && now.Name != m.last.Name {
		m.log.Info("the namespace's data is being migrated", "migration", now.Name, "shards", now.Shards, "done", now.Done)
	}
	if m.last.Name != "" && now.Name != m.last.Name {
		m.log.Info("a migration is over", "migration", m.last.Name)
	}
	m.last = now
	return nil
}
