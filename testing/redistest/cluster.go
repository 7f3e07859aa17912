package redistest

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// Cluster is a Redis Cluster of three masters, which serve a third of the slots each.
// Each has as many replicas as were asked for.
type Cluster struct {
	Masters  []*Server // the masters that it began with
	Replicas []*Server // of Masters[i]: [i], [i+3], …
	ids      map[*Server]string
}

// StartCluster starts a cluster and ends it with the test. The options are those of each
// server.
func StartCluster(tb testing.TB, replicas int, options ...Option) *Cluster {
	tb.Helper()
	c, err := LaunchCluster(LookPath(tb), tb.TempDir(), replicas, options...)
	must(tb, err)
	tb.Cleanup(c.Kill)
	return c
}

// LaunchCluster starts a cluster outside of any test, from the redis-server at a path, in
// a directory of the caller. The caller calls Kill.
func LaunchCluster(path, dir string, replicas int, options ...Option) (*Cluster, error) {
	c := &Cluster{ids: make(map[*Server]string)}
	if err := c.launch(path, dir, replicas, options); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

// StartNode starts a server of no cluster yet, which would be one of a cluster, and ends it
// with the test. It serves all slots, or none.
func StartNode(tb testing.TB, serving bool, options ...Option) *Server {
	tb.Helper()
	node, err := launchNode(LookPath(tb), tb.TempDir(), options)
	must(tb, err)
	tb.Cleanup(node.Kill)
	if serving {
		slots := []any{"ADDSLOTS"}
		for slot := range clusterSlots {
			slots = append(slots, slot)
		}
		_, err = node.command("CLUSTER", slots...)
		must(tb, err)
	}
	return node
}

func (c *Cluster) launch(path, dir string, replicas int, options []Option) error {
	for i := range clusterMasters * (1 + replicas) {
		s, err := launchNode(path, filepath.Join(dir, "node"+strconv.Itoa(i)), options)
		if err != nil {
			return err
		}
		if i < clusterMasters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
		if c.ids[s], err = redis.String(s.command("CLUSTER", "MYID")); err != nil {
			return err
		}
	}
	all := c.Servers()
	for i, s := range all {
		if err := c.introduce(i, s, all[0]); err != nil {
			return err
		}
	}
	err := await("every node knows all others", func() bool {
		return !slices.ContainsFunc(all, func(s *Server) bool {
			return s.field("CLUSTER", "cluster_known_nodes") != strconv.Itoa(len(all))
		})
	})
	if err != nil {
		return err
	}
	for i, s := range c.Replicas {
		if _, err := s.command("CLUSTER", "REPLICATE", c.ids[c.Masters[i%clusterMasters]]); err != nil {
			return err
		}
	}
	return c.AwaitWhole()
}

// introduce adds the i-th server to the cluster, and assigns it its slots if it is a
// master.
func (c *Cluster) introduce(i int, s, first *Server) error {
	if _, err := s.command("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
		return err
	}
	if i < clusterMasters {
		args := []any{"ADDSLOTS"}
		for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
			args = append(args, slot)
		}
		if _, err := s.command("CLUSTER", args...); err != nil {
			return err
		}
	}
	if i == 0 {
		return nil
	}
	_, err := s.command("CLUSTER", "MEET", "127.0.0.1", first.Port)
	return err
}

// launchNode starts a server whose cluster bus, 10,000 above its port, has a reserved
// port too.
func launchNode(path, dir string, options []Option) (*Server, error) {
	return launchLasting(path, dir, append(slices.Clone(options), WithArgs("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", silence(options, "1000", "15000"), "--repl-diskless-sync-delay", "0",
		"--cluster-replica-validity-factor", "0")))
}

// Servers returns all servers, those that began as masters first.
func (c *Cluster) Servers() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// Kill ends all of them.
func (c *Cluster) Kill() {
	for _, s := range c.Servers() {
		s.Kill()
	}
}

// URL returns the cluster's URL, with the addresses of all servers that it began with.
func (c *Cluster) URL() string {
	var addresses []string
	for _, s := range c.Servers() {
		addresses = append(addresses, s.Addr())
	}
	scheme := "redis+cluster://"
	if c.Masters[0].tls {
		scheme = "rediss+cluster://"
	}
	return scheme + strings.Join(addresses, ",")
}

// Connect opens a router to the cluster and closes it with the test.
func (c *Cluster) Connect(tb testing.TB) *connect.Cluster {
	tb.Helper()
	server, err := connect.OpenCluster(c.URL(), connect.Options{CAFile: c.Masters[0].CAFile()})
	must(tb, err)
	tb.Cleanup(func() { _ = server.Close() })
	return server
}
