package oauth

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/poller/token"
)

// Counting returns a store with metrics in a registry: how often this process asked providers for an
// access token, and how often one asked for a pause. No metric is labelled by account or provider.
func Counting(store token.Store, registry prometheus.Registerer) token.Store {
	f := promauto.With(registry)
	return token.Counting(store,
		f.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "oauth_token_fetches_total",
			Help: "Access tokens of signed-in mailboxes that this process asked for, by result: value, refused (the sign-in is) or failed."}, []string{"result"}),
		f.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "oauth_pauses_total",
			Help: "Answers of providers of sign-ins to this process that it asks too often, each of which pauses the provider's accounts or meets that they are."}))
}
