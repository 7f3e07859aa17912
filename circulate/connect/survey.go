package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Node is a server that holds data, with the settings and the state that matter for whether it
// keeps them. What the server does not tell is empty or zero.
type Node struct {
	Name string // the server, as it is configured, or its address in a cluster
	Away bool   // it cannot be reached; nothing else is known

	Software string        // what it is: Redis, Valkey, Redict or Dragonfly
	Version  string        // of the software
	Up       time.Duration // since its start

	Used, Limit  int64  // bytes of memory; Limit 0: there is none
	Policy       string // maxmemory-policy
	AppendOnly   string // appendonly: yes or no
	AppendStatus string // of the last write of the append-only file: ok, or an error
	Fsync        string // appendfsync: always, everysec or no; empty: not told
	Replicas     int    // that are connected
	Guarded      bool   // min-replicas-to-write is not 0

	Concerns []Concern
	// Remarks are what is as it may be, and worth knowing all the same. They end in no
	// alert.
	Remarks []Concern
}

// Survey asks every server that holds data about itself. A server that cannot be reached is in
// the list as well, and the error names it. A server with a Survey of its own, as the embedded
// one, is not asked.
func Survey(ctx context.Context, server Server) ([]Node, error) {
	switch s := server.(type) {
	case interface {
		Survey(ctx context.Context) ([]Node, error)
	}:
		return s.Survey(ctx)
	case *Cluster:
		addresses, err := s.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		var all []Node
		var errs []error
		for _, address := range addresses {
			node, err := surveyOf(ctx, address, func(ctx context.Context) (redis.Conn, error) { return s.ConnTo(ctx, address) })
			all, errs = append(all, node), append(errs, err)
		}
		return all, errors.Join(errs...)
	default:
		node, err := surveyOf(ctx, server.Name(), func(ctx context.Context) (redis.Conn, error) { return server.Conn(ctx, "") })
		return []Node{node}, err
	}
}

// ConcernsOf returns the concerns of all nodes.
func ConcernsOf(nodes []Node) (all []Concern) {
	for i := range nodes {
		all = append(all, nodes[i].Concerns...)
	}
	return all
}

// surveyOf asks one server.
func surveyOf(ctx context.Context, name string, lend func(context.Context) (redis.Conn, error)) (Node, error) {
	ctx, cancel := context.WithTimeout(ctx, concernsWithin)
	defer cancel()
	conn, err := lend(ctx)
	if err != nil {
		return Node{Name: name, Away: true}, fmt.Errorf("redis %s: %w", name, err)
	}
	defer conn.Close()
	node := Node{Name: name}
	q := questions{ctx: ctx, conn: conn, node: &node}
	q.ask()
	if q.err != nil {
		return Node{Name: name, Away: true}, fmt.Errorf("redis %s: %w", name, q.err)
	}
	return node, nil
}
