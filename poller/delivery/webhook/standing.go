package webhook

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
)

// recheck is how soon a replica notices what another replica, or a person, has decided.
const recheck = 15 * time.Second

// storeTimeout bounds a call of the store that must not depend on the attempt window.
const storeTimeout = 5 * time.Second

// Store remembers which endpoints are disabled, for all replicas and across restarts.
// circulate.Endpoints is one.
type Store interface {
	// Disabled reports whether an endpoint is disabled, since when, and why.
	Disabled(ctx context.Context, name string) (d circulate.DisabledEndpoint, ok bool, err error)
	// Disable disables an endpoint. If it is disabled already, it stays as it is.
	Disable(ctx context.Context, name, reason string) (circulate.DisabledEndpoint, error)
}

var _ Store = circulate.Endpoints{}

// standing is whether an endpoint may get messages, as far as this process knows.
type standing struct {
	endpoint string
	store    Store // nil: only this process remembers
	log      *slog.Logger
	gauge    prometheus.Gauge

	disabled atomic.Bool

	mu      sync.Mutex // also held during the store's calls: an older answer must not undo a newer fact
	known   bool
	at      time.Time // when the store was last asked
	unsaved string    // why the endpoint was disabled, while the store does not know it
}

// refresh asks the store if the last answer is old. It fails only if there was no answer yet: an
// endpoint that may be disabled gets nothing.
func (s *standing) refresh(ctx context.Context) error {
	if s.store == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known && time.Since(s.at) < recheck && s.unsaved == "" {
		return nil
	}
	if s.unsaved != "" {
		s.save(ctx)
		return nil
	}
	d, disabled, err := s.store.Disabled(ctx, s.endpoint)
	if err != nil {
		if s.known {
			return nil
		}
		return err
	}
	s.known, s.at = true, time.Now()
	s.set(disabled, d.Reason)
	return nil
}

// doubt makes refresh ask the store before the next delivery.
func (s *standing) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

// disable disables the endpoint at once, and in the store as soon as the store can be reached.
func (s *standing) disable(ctx context.Context, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disabled.Load() {
		return
	}
	s.known, s.at = true, time.Now()
	s.set(true, reason)
	if s.store != nil {
		s.unsaved = reason
		s.save(ctx)
	}
}

func (s *standing) save(ctx context.Context) {
	// The endpoint's answer must not get lost in a shutdown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if _, err := s.store.Disable(ctx, s.endpoint, s.unsaved); err != nil {
		s.log.Error("could not store that the webhook endpoint is disabled; trying again", "error", err)
		return
	}
	s.unsaved, s.at = "", time.Now()
}

func (s *standing) set(disabled bool, reason string) {
	was := s.disabled.Swap(disabled)
	switch {
	case disabled && !was:
		s.gauge.Set(1)
		s.log.Warn("webhook endpoint is disabled; its messages wait until it is enabled", "reason", reason)
	case was && !disabled:
		s.gauge.Set(0)
		s.log.Info("webhook endpoint is enabled")
	}
}
