package monitor

import (
	"context"
	"time"
)

// concernsLook is the time between two looks for settings and states that could lose
// data. People and providers change Redis' settings while it runs.
const concernsLook = time.Minute

// Concern is a setting or a state of a Redis that can lose acknowledged writes.
type Concern struct {
	Node string // the server's address
	Code string // short and stable, for metrics
	Text string // for people: the consequence and the remedy
	Mild bool   // worth a note, but no warning
}

// concernKey identifies a concern.
type concernKey struct{ node, code string }

// concernWatch logs settings and states of Redis that could lose data: once when each
// begins and once when it ends.
type concernWatch struct {
	*Monitor
	known map[concernKey]bool
}

// look logs which concerns began and ended since the last look.
func (w *concernWatch) look(ctx context.Context) error {
	found, err := w.options.Concerns(ctx)
	if !w.duty.held() {
		return nil
	}
	now := make(map[concernKey]bool, len(found))
	for _, c := range found {
		key := concernKey{c.Node, c.Code}
		now[key] = true
		w.metrics.concerns.WithLabelValues(c.Node, c.Code).Set(1)
		switch {
		case w.known[key]:
		case c.Mild:
			w.log.Info(c.Text)
		default:
			w.log.Warn(c.Text, "concern", c.Code)
		}
	}
	if err != nil {
		// If a server could not be asked, none of its concerns is known to have ended.
		for key := range w.known {
			now[key] = true
		}
		w.known = now
		return err
	}
	for key := range w.known {
		if !now[key] {
			w.metrics.concerns.DeleteLabelValues(key.node, key.code)
			w.log.Info("a concern about Redis has ended", "redis", key.node, "concern", key.code)
		}
	}
	w.known = now
	return nil
}
