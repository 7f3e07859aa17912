package delivery

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery/internal/refusals"
)

// calm is the time since a handler last failed after which the log says at once that it fails again.
const calm = time.Minute

// newRefusals returns the record of messages that a handler fails to handle. If the handler logs
// them itself, the record is silent.
func newRefusals(log *slog.Logger, handler Handler) *refusals.Record {
	if _, tells := handler.(refusals.Teller); tells {
		log = slog.New(slog.DiscardHandler)
	}
	return refusals.New(log, refusals.Lines{
		First: "the handler fails to handle a message: the message is delivered again, and later ones of its account wait behind it",
		Still: "the handler still fails to handle messages",
		Again: "the handler handles messages again, and none waits any more",
		Over:  "no message waits for the handler any more",
		Count: "refused",
	}, calm)
}

// attributesOf name a message in a log line.
func attributesOf(d Delivery) []any { return []any{"account", d.Account, "message", d.Message.ID} }

// watchRefusals notes when no message waits any more that the handler failed to handle. While some
// do, it logs that from time to time.
func (g *member) watchRefusals() {
	why := g.refused.Why()
	if why == nil {
		return
	}
	g.mu.Lock()
	waits := false
	for _, s := range g.reading {
		waits = waits || s.held.failed()
	}
	g.mu.Unlock()
	if !waits {
		g.refused.End(heartbeat, g.takes.Load())
	}
	g.refused.Remind([]any{"error", why})
}

// why returns why messages wait: because the handler puts all of them off, or failed to handle
// some.
func (g *member) why() string {
	failed := ""
	if err := g.refused.Why(); err != nil {
		failed = err.Error()
	}
	return cmp.Or(g.deferred.why(), failed)
}
