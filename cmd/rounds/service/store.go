package service

import (
	"context"
	"log/slog"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/monitor"
)

// store is the Redis that keeps everything.
type store struct{ server connect.Server }

// tell logs what could lose data as the process starts. A monitor looks again and again.
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

// concerns are what could lose data, as a monitor takes them.
func (s *store) concerns(ctx context.Context) ([]monitor.Concern, error) {
	found, err := connect.Concerns(ctx, s.server)
	all := make([]monitor.Concern, len(found))
	for i, c := range found {
		all[i] = monitor.Concern{Node: c.Node, Code: string(c.Code), Text: c.Text, Mild: c.Code == connect.ConcernUnasked}
	}
	return all, err
}
