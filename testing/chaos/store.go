package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// topology is the kind of Redis that a world has. It decides which faults are possible.
type topology string

const (
	onServer   topology = "server"
	onSentinel topology = "sentinel"
	onCluster  topology = "cluster"
)

// topologies are all, in the order in which they are broken.
func topologies() []topology { return []topology{onServer, onSentinel, onCluster} }

// store is the Redis that all processes of a world share.
type store interface {
	url(process string) (string, error)    // where a process finds it
	serving() ([]*redistest.Server, error) // who has each shard now
	servers() []*redistest.Server          // all that have data
	kill()
}

// keeping is how a server that holds data is started: what it acknowledged is on its
// disk.
func keeping() []redistest.Option {
	return []redistest.Option{redistest.WithAOF(), redistest.WithArgs("--enable-debug-command", "local",
		"--auto-aof-rewrite-percentage", "0", "--busy-reply-threshold", "100")}
}

// single is one server, behind a proxy for each process.
type single struct {
	server  *redistest.Server
	proxies *proxies
}

func (s single) url(process string) (string, error) {
	addr, err := s.proxies.open(process)
	return "redis://" + addr, err
}

func (s single) serving() ([]*redistest.Server, error) {
	return slices.Repeat([]*redistest.Server{s.server}, shards), nil
}

func (s single) servers() []*redistest.Server { return []*redistest.Server{s.server} }

func (s single) kill() {
	s.proxies.close()
	s.server.Kill()
}

// group is a master, its replica and their sentinels. Processes reach them without a
// proxy, because sentinels name addresses.
type group struct{ *redistest.Sentinels }

func (g group) url(string) (string, error) { return g.URL(), nil }

func (g group) serving() ([]*redistest.Server, error) {
	master, err := g.Named()
	return slices.Repeat([]*redistest.Server{master}, shards), err
}

func (g group) servers() []*redistest.Server { return g.Servers }
func (g group) kill()                        { g.Kill() }

// nodes is a cluster, which processes reach without a proxy as well.
type nodes struct{ *redistest.Cluster }

func (n nodes) url(string) (string, error) { return n.URL(), nil }

func (n nodes) serving() ([]*redistest.Server, error) {
	slots := make([]int, shards)
	for shard := range slots {
		slots[shard] = slotOf(shard)
	}
	return n.ServingEach(slots)
}

func (n nodes) servers() []*redistest.Server { return n.Servers() }
func (n nodes) kill()                        { n.Kill() }

func slotOf(shard int) int { return connect.Slot(key(shard, "")) }

// patience is how long a master may be silent when no fault intends its replacement: a
// busy machine alone must not cause one.
const patience = 30 * time.Second

// launch starts the Redis of a topology.
func (w *world) launch(on topology, dir string) error {
	dir = filepath.Join(dir, string(on))
	err := os.Mkdir(dir, 0o755)
	if err != nil {
		return err
	}
	switch on {
	case onSentinel:
		if w.sentinels, err = redistest.LaunchSentinels(w.redisPath, dir, keeping()...); err != nil {
			return err
		}
		w.store = group{w.sentinels}
		return w.sentinels.TakeForDeadAfter(patience)
	case onCluster:
		if w.cluster, err = redistest.LaunchCluster(w.redisPath, dir, 1, append(keeping(), redistest.WithQuickFailover(),
			redistest.WithArgs("--cluster-replica-no-failover", "yes"))...); err != nil {
			return err
		}
		w.store = nodes{w.cluster}
		return nil
	}
	address, err := ports.Address()
	if err != nil {
		return err
	}
	_, digits, _ := strings.Cut(address, ":")
	port, err := strconv.Atoi(digits)
	if err != nil {
		return err
	}
	if w.redis, err = redistest.Launch(w.redisPath, dir, append(keeping(), redistest.WithPort(port))...); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	w.proxies = newProxies(w.redis.Addr())
	w.store = single{w.redis, w.proxies}
	return nil
}

// replace sets whether replicas of the cluster may take their masters' places by
// themselves.
func (w *world) replace(may bool) error {
	setting := "yes"
	if may {
		setting = "no"
	}
	var failed error
	for _, s := range w.cluster.Servers() {
		if s.Ended() {
			continue
		}
		_, err := ask(s, 5*time.Second, "CONFIG", "SET", "cluster-replica-no-failover", setting)
		failed = errors.Join(failed, err)
	}
	return failed
}

// ask does a command at a server, without any proxy, on a plain connection: a busy Redis
// refuses a connection that names itself first.
func ask(s *redistest.Server, within time.Duration, name string, args ...any) (any, error) {
	conn, err := redis.Dial("tcp", s.Addr(), redis.DialConnectTimeout(min(within, 5*time.Second)), redis.DialReadTimeout(within))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(name, args...)
}

// reader reads the shards without the service, each from the server that has it.
type reader struct {
	having []*redistest.Server
	conns  map[*redistest.Server]redis.Conn
}

func (w *world) reader() (*reader, error) {
	having, err := w.store.serving()
	if err != nil {
		return nil, err
	}
	r := &reader{having: having, conns: make(map[*redistest.Server]redis.Conn)}
	for _, s := range having {
		if r.conns[s] != nil {
			continue
		}
		if r.conns[s], err = s.Dial(); err != nil {
			delete(r.conns, s)
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *reader) shard(n int) redis.Conn { return r.conns[r.having[n]] }

func (r *reader) close() {
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}
