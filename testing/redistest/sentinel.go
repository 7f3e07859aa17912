package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// SentinelMaster is the name that the tests' sentinels use for their master.
const SentinelMaster = "main"

// Sentinels is a master, a replica of it, and three sentinels that watch them.
type Sentinels struct {
	Servers   []*Server // the master that it began with, then its replica
	Sentinels []*Server
}

// StartSentinels starts them and ends them with the test. The options are those of
// master and replica.
func StartSentinels(tb testing.TB, options ...Option) *Sentinels {
	tb.Helper()
	s, err := LaunchSentinels(LookPath(tb), tb.TempDir(), options...)
	must(tb, err)
	tb.Cleanup(s.Kill)
	return s
}

// LaunchSentinels starts them outside of any test, from the redis-server at a path, in a
// directory of the caller. The caller calls Kill.
func LaunchSentinels(path, dir string, options ...Option) (*Sentinels, error) {
	s := &Sentinels{}
	if err := s.launch(path, dir, options); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Sentinels) launch(path, dir string, options []Option) error {
	options = append(options, WithArgs("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-timeout", "5"))
	for i := range 2 {
		own := options
		if i > 0 {
			own = append(options, WithArgs("--replicaof", "127.0.0.1", strconv.Itoa(s.Servers[0].Port)))
		}
		server, err := launchLasting(path, filepath.Join(dir, "server"+strconv.Itoa(i)), own)
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, server)
	}
	replica := s.Servers[1]
	if err := await("the replica is up to date", func() bool { return replica.field("INFO", "master_link_status") == "up" }); err != nil {
		return err
	}
	for i := range 3 {
		one, err := launchSentinel(path, filepath.Join(dir, "sentinel"+strconv.Itoa(i)), s.Servers[0], silence(options, "500", "5000"))
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, one)
	}
	return s.AwaitWhole()
}

// launchLasting starts a server on a port that stays reserved while the server is away.
func launchLasting(path, dir string, options []Option) (*Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var failed error
	for range 5 { // another test may take the port first
		port, err := lastingPort(rand.IntN)
		if err != nil {
			return nil, err
		}
		s, err := launchAt(path, dir, port, options)
		if err == nil {
			return s, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("redis-server: %w", failed)
}

func launchSentinel(path, dir string, master *Server, downAfter string) (*Server, error) {
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s %[3]s\n"+
		"sentinel failover-timeout %[1]s 3000\nsentinel parallel-syncs %[1]s 1\n", SentinelMaster, master.Port, downAfter)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	return launchLasting(path, dir, []Option{WithArgs("--sentinel"), func(s *Server) { s.config = config }})
}

// Kill ends all of them.
func (s *Sentinels) Kill() {
	for _, server := range append(s.Sentinels, s.Servers...) {
		server.Kill()
	}
}

// URL returns the URL of the master that the sentinels name.
func (s *Sentinels) URL() string {
	var addresses []string
	for _, one := range s.Sentinels {
		addresses = append(addresses, one.Addr())
	}
	return "redis+sentinel://" + strings.Join(addresses, ",") + "/" + SentinelMaster
}

// Connect opens a pool to the master and closes it with the test.
func (s *Sentinels) Connect(tb testing.TB) *connect.Sentinel {
	tb.Helper()
	server, err := connect.OpenSentinel(s.URL(), connect.Options{})
	must(tb, err)
	tb.Cleanup(func() { _ = server.Close() })
	return server
}
