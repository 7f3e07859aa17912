package token

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate/credential"
)

// counting is a Store with metrics.
type counting struct {
	Store
	fetches *prometheus.CounterVec
	pauses  prometheus.Counter
}

// Counting returns a store that counts fetches by their result (value, refused or failed), which is
// the only label, and the requests for pauses.
func Counting(store Store, fetches *prometheus.CounterVec, pauses prometheus.Counter) Store {
	for _, result := range []credential.Outcome{credential.Fetched, credential.Refused, credential.Failed} {
		fetches.WithLabelValues(string(result)) // at zero, for alerts about the first one
	}
	return &counting{store, fetches, pauses}
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
