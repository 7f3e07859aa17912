package wecomkf

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/circulate/credential"
)

// counting is a Tokens with metrics.
type counting struct {
	Tokens
	fetches *prometheus.CounterVec
	pauses  prometheus.Counter
}

// Counting returns tokens with metrics in a registry: how often a checker fetched a
// token, and how often it paused a corporation. No metric is labelled by corporation.
// If the registry is nil, the metrics are not exposed.
func Counting(tokens Tokens, registry prometheus.Registerer) Tokens {
	f := promauto.With(registry)
	return &counting{tokens,
		f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "wecom_token_fetches_total",
			Help: "Access tokens of WeCom that this process fetched, by result: value, refused (the secret is, for an hour) or failed."}, []string{"result"}),
		f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "wecom_pauses_total",
			Help: "Answers of WeCom to this process that a corporation makes too many calls, each of which has it paused or meets that it is."}),
	}
}

// Settle counts the outcome of a fetch, whether it is written or not.
func (c *counting) Settle(ctx context.Context, ref credential.Ref, fence int64, s credential.Settlement) (bool, error) {
	c.fetches.WithLabelValues(string(s.As)).Inc()
	return c.Tokens.Settle(ctx, ref, fence, s)
}

// PauseOwner counts each request for a pause.
func (c *counting) PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error) {
	c.pauses.Inc()
	return c.Tokens.PauseOwner(ctx, owner, reason, memory, steps...)
}
