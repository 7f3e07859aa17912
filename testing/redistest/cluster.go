package redistest

import (
	"net"
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

// Cluster is a Redis Cluster of three masters, which serve a third of the slots
// each, and as many replicas of each as were asked for.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // of Masters[i]: [i], [i+3], …
	ids      map[*Server]string
}

// StartCluster starts one and ends it with the test. The options are those of each
// server.
func StartCluster(tb testing.TB, replicas int, options ...Option) *Cluster {
	tb.Helper()
	c := &Cluster{ids: make(map[*Server]string)}
	for i := range clusterMasters * (1 + replicas) {
		s := startNode(tb, options)
		c.ids[s] = must(tb, redis.String)(s.command("CLUSTER", "MYID"))
		if i < clusterMasters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}
	all := c.Servers()
	for i, s := range all {
		c.do(tb, s, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < clusterMasters {
			args := []any{"ADDSLOTS"}
			for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
				args = append(args, slot)
			}
			c.do(tb, s, "CLUSTER", args...)
		}
		if i > 0 {
			c.do(tb, s, "CLUSTER", "MEET", "127.0.0.1", all[0].Port)
		}
	}
	eventually(tb, "every node knows all others", func() bool {
		return !slices.ContainsFunc(all, func(s *Server) bool {
			return s.field("CLUSTER", "cluster_known_nodes") != strconv.Itoa(len(all))
		})
	})
	for i, s := range c.Replicas {
		c.do(tb, s, "CLUSTER", "REPLICATE", c.ids[c.Masters[i%clusterMasters]])
	}
	eventually(tb, "the cluster is ready", func() bool { return c.ready() })
	return c
}

// startNode starts a server whose cluster bus, 10,000 above its port, has a port too.
func startNode(tb testing.TB, options []Option) *Server {
	tb.Helper()
	options = append(slices.Clone(options), WithArgs("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", silence(options, "1000", "15000"), "--repl-diskless-sync-delay", "0",
		"--cluster-replica-validity-factor", "0"))
	path := lookPath(tb)
	for range 50 {
		port, err := freePort()
		if err != nil {
			tb.Fatal(err)
		}
		bus, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+10_000))
		if port+10_000 > 65_535 || err != nil {
			continue
		}
		_ = bus.Close()
		s, err := launchAt(path, tb.TempDir(), port, options)
		if err != nil {
			tb.Fatalf("redis-server: %v", err)
		}
		tb.Cleanup(s.Kill)
		return s
	}
	tb.Fatal("no two free ports 10,000 apart")
	return nil
}

// Servers are all of them, masters first.
func (c *Cluster) Servers() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// URL is the cluster's, with the addresses of all that it began with.
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
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = server.Close() })
	return server
}

// Owner is the server that serves a slot, by the word of one that lives.
func (c *Cluster) Owner(tb testing.TB, slot int) *Server {
	tb.Helper()
	for _, s := range c.Servers() {
		nodes, err := redis.String(s.command("CLUSTER", "NODES"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(nodes) {
			fields := strings.Fields(line)
			if len(fields) < 9 || strings.Contains(fields[2], "fail") {
				continue
			}
			for _, r := range fields[8:] {
				first, last, both := strings.Cut(r, "-")
				if !both {
					last = first
				}
				from, err1 := strconv.Atoi(first)
				to, err2 := strconv.Atoi(last)
				if err1 == nil && err2 == nil && from <= slot && slot <= to {
					return c.byID(tb, fields[0])
				}
			}
		}
	}
	tb.Fatalf("nobody serves slot %d", slot)
	return nil
}

func (c *Cluster) byID(tb testing.TB, id string) *Server {
	tb.Helper()
	for s, own := range c.ids {
		if own == id {
			return s
		}
	}
	tb.Fatalf("no server has the id %s", id)
	return nil
}

// Promoted waits until a replica serves the slots of a master that was killed, and
// gives it.
func (c *Cluster) Promoted(tb testing.TB, killed *Server) *Server {
	tb.Helper()
	var promoted *Server
	eventually(tb, "a replica is promoted", func() bool {
		i := slices.Index(c.Masters, killed)
		for j := i; j < len(c.Replicas); j += clusterMasters {
			if role, err := redis.Values(c.Replicas[j].command("ROLE")); err == nil && string(role[0].([]byte)) == "master" {
				promoted = c.Replicas[j]
			}
		}
		return promoted != nil && promoted.field("CLUSTER", "cluster_state") == "ok"
	})
	return promoted
}

func (c *Cluster) ready() bool {
	for i, s := range c.Servers() {
		if s.field("CLUSTER", "cluster_state") != "ok" || s.field("CLUSTER", "cluster_slots_ok") != strconv.Itoa(clusterSlots) {
			return false
		}
		if i >= clusterMasters && s.field("INFO", "master_link_status") != "up" {
			return false
		}
	}
	return true
}

func (c *Cluster) do(tb testing.TB, s *Server, name string, args ...any) any {
	tb.Helper()
	reply, err := s.command(name, args...)
	if err != nil {
		tb.Fatalf("%s %.3v: %v\n%s", name, args, err, filepath.Base(s.Dir))
	}
	return reply
}
