package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/monitor"
)

const (
	dataKept     = 30 * time.Second // how long Redis' answer is reused
	surveyWithin = 10 * time.Second // for all servers together
)

// store is the Redis that stores everything.
type store struct {
	server connect.Server

	mu    sync.Mutex
	asked time.Time
	known api.Data
	nodes []connect.Node
}

// data returns where everything is stored, and what could lose it. While Redis does not
// answer, it returns the last answer.
func (s *store) data(ctx context.Context) api.Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask(ctx)
	return s.known
}

// servers returns where everything is stored, and the servers that store it, including those that
// cannot be reached now.
func (s *store) servers(ctx context.Context) api.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask(ctx)
	all := api.Store{Name: s.known.Store, Forgets: s.known.Forgets}
	for _, n := range s.nodes {
		all.Nodes = append(all.Nodes, api.StoreNode{
			Name: n.Name, Away: n.Away, Software: n.Software, Version: n.Version, Up: n.Up.Seconds(), Used: n.Used, Limit: n.Limit,
			Policy: n.Policy, AppendOnly: n.AppendOnly, AppendStatus: n.AppendStatus, Fsync: n.Fsync, Replicas: n.Replicas, Guarded: n.Guarded,
		})
	}
	return all
}

// ask asks the servers, unless they were asked just now. A Redis inside this process is always
// asked, because that costs nothing. The caller holds mu.
func (s *store) ask(ctx context.Context) {
	own, inside := s.server.(*ownRedis)
	if !inside && !s.asked.IsZero() && time.Since(s.asked) < dataKept {
		return
	}
	s.asked = time.Now()
	_, inMemory := s.server.(*connect.Embedded)
	s.known.Store, s.known.Forgets = s.server.Name(), inMemory
	if inside {
		s.known.Dir = own.dir.State().Path
	}
	// The call must not end with this caller, because others get the answer too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), surveyWithin)
	defer cancel()
	nodes, err := connect.Survey(ctx, s.server)
	if len(nodes) > 0 {
		s.nodes = nodes
	}
	if err != nil {
		return
	}
	s.known.Concerns = nil
	for _, c := range connect.ConcernsOf(nodes) {
		s.known.Concerns = append(s.known.Concerns, api.RedisConcern{Node: c.Node, Concern: string(c.Code), Value: c.Value, Text: c.Text})
	}
}

// tell logs, when the process starts, what could lose data. A monitor checks it from then on.
func (s *store) tell(ctx context.Context, log *slog.Logger) {
	nodes, err := connect.Survey(ctx, s.server)
	if err != nil {
		log.Info("redis could not be asked what could lose data", "error", err)
	}
	for _, n := range nodes {
		for _, c := range append(n.Concerns, n.Remarks...) {
			if slices.Contains([]connect.ConcernCode{connect.ConcernUnasked, connect.RemarkSettings, connect.RemarkPasswords}, c.Code) {
				log.Info(c.Text)
			} else {
				log.Warn(c.Text)
			}
		}
	}
}

// failing returns why a process that stores everything itself cannot save it, or nil if it can.
func (s *store) failing() error {
	if own, ok := s.server.(*ownRedis); ok {
		return own.failing()
	}
	return nil
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
