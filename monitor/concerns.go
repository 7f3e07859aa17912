package monitor

import (
	"context"
	"time"
)

// concernsLook is between two looks at what could lose data. Settings of Redis are
// changed while it runs, by people and by providers.
const concernsLook = time.Minute

// Concern is a setting or a state of a Redis that can lose what it has acknowledged.
type Concern struct {
	Node string // which server
	Code string // short and stable, for metrics
	Text string // for people: what it leads to and what to do
	Mild bool   // worth a word, and no warning
}

// concernKey tells concerns apart.
type concernKey struct{ node, code string }

// concernWatch tells what of Redis' settings and state could lose data: once when it
// begins, and once when it has ended.
type concernWatch struct {
	*Monitor
	known map[concernKey]bool
}

func (w *concernWatch) look(ctx context.Context) error {
	found, err := w.concerns(ctx)
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
		// Of a server that could not be asked nothing is known to have ended.
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
