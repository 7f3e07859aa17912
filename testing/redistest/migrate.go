package redistest

import (
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Migration is a slot on its way from one master of a cluster to another, as
// redis-cli --cluster reshard does it, in steps that a test may stop at.
type Migration struct {
	cluster  *Cluster
	slot     int
	from, to *Server
}

// Migrate announces a slot's way to a master. Commands of keys that are not there,
// or no more, are redirected from now on.
func (c *Cluster) Migrate(tb testing.TB, slot int, to *Server) *Migration {
	tb.Helper()
	m := &Migration{cluster: c, slot: slot, from: c.Owner(tb, slot), to: to}
	c.do(tb, m.to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[m.from])
	c.do(tb, m.from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[m.to])
	return m
}

// MoveKeys moves up to n keys and reports how many.
func (m *Migration) MoveKeys(tb testing.TB, n int) int {
	tb.Helper()
	keys := must(tb, redis.Strings)(m.from.command("CLUSTER", "GETKEYSINSLOT", m.slot, n))
	for _, key := range keys {
		m.cluster.do(tb, m.from, "MIGRATE", "127.0.0.1", m.to.Port, key, 0, 5000)
	}
	return len(keys)
}

// Finish moves the other keys and ends the migration.
func (m *Migration) Finish(tb testing.TB) {
	tb.Helper()
	for m.MoveKeys(tb, 100) > 0 {
	}
	for _, s := range []*Server{m.to, m.from} {
		m.cluster.do(tb, s, "CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
	}
	for _, s := range m.cluster.Masters {
		if s != m.to && s != m.from {
			// It learns by gossip too, if it cannot be told.
			_, _ = s.command("CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
		}
	}
}
