package poller

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/circulate"
)

// classMaintenance is the class of failures in a maintenance window.
const classMaintenance = "maintenance"

// maintained are the maintenance windows as the replica last read them, with each heartbeat. If they
// cannot be read, the ones that are known go on until they end; before the first answer there are none.
type maintained struct {
	shared maintenance.Windows
	log    *slog.Logger
	errors prometheus.Counter
	known  atomic.Pointer[[]maintenance.Window]
}

func newMaintained(ring *circulate.Ring, log *slog.Logger, m *Metrics) *maintained {
	return &maintained{shared: maintenance.Of(ring), log: log, errors: m.redisErrors.WithLabelValues("maintenance")}
}

// read reads the windows.
func (m *maintained) read(ctx context.Context) {
	all, err := m.shared.Stored(ctx)
	if err != nil {
		if ctx.Err() == nil {
			m.errors.Inc()
			m.log.Debug("the maintenance windows were not read", "error", err)
		}
		return
	}
	m.known.Store(&all)
}

// covers reports whether an account is in a window that is under way.
func (m *maintained) covers(r *record, now time.Time) bool {
	known := m.known.Load()
	if known == nil || len(*known) == 0 {
		return false
	}
	where := accounts.WhereConfig(r.account.Config)
	for i := range *known {
		if w := &(*known)[i]; w.Open(now) && w.Covers(&r.account, where, r.rateKey) {
			return true
		}
	}
	return false
}
