package redistest

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Migration is a slot on its way from one master of a cluster to another. It does what
// redis-cli --cluster reshard does, in steps between which a test may stop.
type Migration struct {
	cluster  *Cluster
	slot     int
	from, to *Server
}

// Migrate is BeginMigration in a test.
func (c *Cluster) Migrate(tb testing.TB, slot int, to *Server) *Migration {
	tb.Helper()
	m, err := c.BeginMigration(slot, to)
	must(tb, err)
	return m
}

// ownerSettles is how long a node may take to learn whose slot it is, right after another move.
const ownerSettles = 5 * time.Second

// BeginMigration begins to move a slot to a master. From then on, commands for keys that
// are not there, or no longer, are redirected.
func (c *Cluster) BeginMigration(slot int, to *Server) (*Migration, error) {
	for until := time.Now().Add(ownerSettles); ; {
		m, err := c.beginMigration(slot, to)
		if err == nil || !strings.Contains(err.Error(), "not the owner of hash slot") || time.Now().After(until) {
			return m, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *Cluster) beginMigration(slot int, to *Server) (*Migration, error) {
	from, err := c.Serving(slot)
	if err != nil {
		return nil, err
	}
	m := &Migration{cluster: c, slot: slot, from: from, to: to}
	if _, err := m.to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[m.from]); err != nil {
		return nil, err
	}
	_, err = m.from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[m.to])
	return m, err
}

// MoveKeys is Move in a test.
func (m *Migration) MoveKeys(tb testing.TB, n int) int {
	tb.Helper()
	moved, err := m.Move(n)
	must(tb, err)
	return moved
}

// Move moves up to n keys and reports how many.
func (m *Migration) Move(n int) (int, error) {
	keys, err := redis.Strings(m.from.command("CLUSTER", "GETKEYSINSLOT", m.slot, n))
	if err != nil {
		return 0, err
	}
	for i, key := range keys {
		if _, err := m.from.command("MIGRATE", "127.0.0.1", m.to.Port, key, 0, 5000); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

// Finish is End in a test.
func (m *Migration) Finish(tb testing.TB) {
	tb.Helper()
	must(tb, m.End())
}

// End moves the other keys and ends the migration.
func (m *Migration) End() error {
	for {
		moved, err := m.Move(100)
		if err != nil {
			return err
		}
		if moved == 0 {
			break
		}
	}
	if err := m.cluster.awaitEpochs(m.to); err != nil {
		return err
	}
	for _, s := range []*Server{m.to, m.from} {
		if _, err := s.command("CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to]); err != nil {
			return err
		}
	}
	for _, s := range m.cluster.Servers() {
		if s != m.to && s != m.from {
			// The node learns it by gossip too, if it cannot be told.
			_, _ = s.command("CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
		}
	}
	return nil
}
