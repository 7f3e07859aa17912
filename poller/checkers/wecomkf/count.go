package wecomkf

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/poller/token"
)

// Counting returns tokens with metrics in a registry: how often a checker fetched a
// token, and how often it paused a corporation. No metric is labelled by corporation.
// If the registry is nil, the metrics are not exposed.
func Counting(tokens token.Store, registry prometheus.Registerer) token.Store {
	f := promauto.With(registry)
	return token.Counting(tokens,
		f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "wecom_token_fetches_total",
			Help: "Access tokens of WeCom that this process fetched, by result: value, refused (the secret is, for an hour) or failed."}, []string{"result"}),
		f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "wecom_pauses_total",
			Help: "Answers of WeCom to this process that a corporation makes too many calls, each of which has it paused or meets that it is."}))
}
