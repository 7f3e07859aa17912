package wecomkf

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller/token"
)

// counting is a token.Store with metrics.
type counting struct {
	token.Store
	fetches *prometheus.CounterVec
	pauses  prometheus.Counter
}

// Counting returns tokens with metrics in a registry: how often a checker fetched a
// token, and how often it paused a corporation. No metric is labelled by corporation.
// If the registry is nil, the metrics are not exposed.
func Counting(tokens token.Store, registry prometheus.Registerer) token.Store {
	f := promauto.With(registry)
	c := &counting{tokens,
		f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "wecom_token_fetches_total",
			Help: "Access tokens of WeCom that this process fetched, by result: value, refused (the secret is, for an hour) or failed."}, []string{"result"}),
		f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "wecom_pauses_total",
			Help: "Answers of WeCom to this process that a corporation makes too many calls, each of which has it paused or meets that it is."}),
	}
	for _, result := range []credential.Outcome{credential.Fetched, credential.Refused, credential.Failed} {
		c.fetches.WithLabelValues(string(result)) // at zero, for the alert about the first one
	}
	return c
}

// Settle counts the outcome of a fetch, whether it is written or not.
func (c *counting) Settle(ctx context.Context, ref credential.Ref, fence int64, s credential.Settlement) (bool, error) {
	c.fetches.WithLabelValues(string(s.As)).Inc()
	return c.Store.Settle(ctx, ref, fence, s)
}

// PauseOwner counts each request for a pause.
func (c *counting) PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error) {
	c.pauses.Inc()
	return c.Store.PauseOwner(ctx, owner, reason, memory, steps...)
}
