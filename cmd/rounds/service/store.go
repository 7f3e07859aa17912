package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/monitor"
)

// dataKept is how long Redis' answer is reused.
const dataKept = 30 * time.Second

// store is the Redis that keeps everything.
type store struct {
	server connect.Server

	mu    sync.Mutex
	asked time.Time
	known api.Data
}

// data returns where everything is kept, and what could lose it. While Redis does not
// answer, it returns the last answer.
func (s *store) data(ctx context.Context) api.Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.IsZero() && time.Since(s.asked) < dataKept {
		return s.known
	}
	s.asked = time.Now()
	_, embedded := s.server.(*connect.Embedded)
	s.known.Store, s.known.Forgets = s.server.Name(), embedded
	found, err := connect.Concerns(ctx, s.server)
	if err != nil {
		return s.known
	}
	s.known.Concerns = nil
	for _, c := range found {
		s.known.Concerns = append(s.known.Concerns, api.RedisConcern{Node: c.Node, Concern: string(c.Code), Value: c.Value, Text: c.Text})
	}
	return s.known
}

// tell logs what could lose data when the process starts. A monitor keeps looking.
func (s *store) tell(ctx context.Context, log *slog.Logger) {
	concerns, err := connect.Concerns(ctx, s.server)
	if err != nil {
		log.Info("redis could not be asked what could lose data", "error", err)
	}
	for _, c := range concerns {
		if c.Code == connect.ConcernUnasked {
			log.Info(c.Text)
		} else {
			log.Warn(c.Text)
		}
	}
}

// concerns returns what could lose data, in the monitor's form.
func (s *store) concerns(ctx context.Context) ([]monitor.Concern, error) {
	found, err := connect.Concerns(ctx, s.server)
	all := make([]monitor.Concern, len(found))
	for i, c := range found {
		all[i] = monitor.Concern{Node: c.Node, Code: string(c.Code), Text: c.Text, Mild: c.Code == connect.ConcernUnasked}
	}
	return all, err
}
