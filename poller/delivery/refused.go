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
func newRefusals(log *slog.Logger, c Consumer) *refusals.Record {
	if _, tells := c.Handler.(refusals.Teller); tells {
		log = slog.New(slog.DiscardHandler)
	}
	return refusals.New(log, refusals.Lines{
		First: "the handler fails to handle a message: the message is delivered again" + c.behind(),
		Still: "the handler still fails to handle messages",
		Again: "the handler handles messages again, and none waits any more",
		Over:  "no message waits for the handler any more",
		Count: "refused",
	}, calm)
}

// behind says in a log line what waits behind a message.
func (c Consumer) behind() string {
	if c.Unordered {
		return ""
	}
	return ", and later ones of its account wait behind it"
}

// newDeferrals returns the record of messages that a handler puts off.
func newDeferrals(log *slog.Logger, c Consumer) *refusals.Record {
	return refusals.New(log, refusals.Lines{
		First: "a message is put off until later" + c.behind(),
		Still: "messages are still put off until later",
		Again: "messages are handled again, and none is put off any more",
		Over:  "no message is put off any more",
		Count: "put_off",
	}, calm)
}

// attributesOf name a message in a log line.
func attributesOf(d Delivery) []any { return []any{"account", d.Account, "message", d.Message.ID} }

// watchRefusals notes when no message waits any more that the handler failed to handle or put off,
// and logs from time to time that some do.
func (g *member) watchRefusals() {
	failed, deferred := false, false
	g.mu.Lock()
	for _, s := range g.reading {
		f, d := s.held.reasons()
		failed, deferred = failed || f, deferred || d
	}
	g.mu.Unlock()
	watch := func(r *refusals.Record, waits bool) {
		why := r.Why()
		if !waits {
			r.End(heartbeat, g.takes.Load())
		}
		r.Remind([]any{"error", why})
	}
	watch(g.refused, failed)
	watch(g.deferred, deferred)
}

// why returns why messages wait: because the handler puts some of them off, or failed to handle some.
func (g *member) why() string {
	if why := cmp.Or(g.deferred.Why(), g.refused.Why()); why != nil {
		return why.Error()
	}
	return ""
}
