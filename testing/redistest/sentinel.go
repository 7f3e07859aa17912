package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// SentinelMaster is the name that the sentinels of tests have for their master.
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
	options = append(options, WithArgs("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-timeout", "5"))
	master := Start(tb, options...)
	replica := Start(tb, append(options, WithArgs("--replicaof", "127.0.0.1", strconv.Itoa(master.Port)))...)
	s := &Sentinels{Servers: []*Server{master, replica}}
	eventually(tb, "the replica is up to date", func() bool { return replica.field("INFO", "master_link_status") == "up" })
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(tb, master, silence(options, "500", "5000")))
	}
	eventually(tb, "the sentinels know each other and the replica", func() bool {
		for _, one := range s.Sentinels {
			state, err := redis.StringMap(one.command("SENTINEL", "MASTER", SentinelMaster))
			if err != nil || state["num-other-sentinels"] != "2" || state["num-slaves"] != "1" || state["flags"] != "master" {
				return false
			}
		}
		return true
	})
	return s
}

func startSentinel(tb testing.TB, master *Server, downAfter string) *Server {
	tb.Helper()
	path, dir := lookPath(tb), tb.TempDir()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s %[3]s\n"+
		"sentinel failover-timeout %[1]s 3000\nsentinel parallel-syncs %[1]s 1\n", SentinelMaster, master.Port, downAfter)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s, err := launchAt(path, dir, port, []Option{WithArgs("--sentinel"), func(s *Server) { s.config = config }})
	if err != nil {
		tb.Fatalf("redis-server --sentinel: %v", err)
	}
	tb.Cleanup(s.Kill)
	return s
}

// URL is that of the master that the sentinels name.
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
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = server.Close() })
	return server
}

// Master is the server that most sentinels name.
func (s *Sentinels) Master(tb testing.TB) *Server {
	tb.Helper()
	votes := make(map[string]int)
	for _, one := range s.Sentinels {
		if address, err := redis.Strings(one.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelMaster)); err == nil && len(address) == 2 {
			votes[address[1]]++
		}
	}
	for _, server := range s.Servers {
		if 2*votes[strconv.Itoa(server.Port)] > len(s.Sentinels) {
			return server
		}
	}
	tb.Fatalf("the sentinels do not agree: %v", votes)
	return nil
}

// Failover has the sentinels promote the replica though the master lives, and
// waits until all name it.
func (s *Sentinels) Failover(tb testing.TB) {
	tb.Helper()
	from := s.Master(tb)
	eventually(tb, "a failover begins", func() bool {
		_, err := s.Sentinels[0].command("SENTINEL", "FAILOVER", SentinelMaster)
		return err == nil
	})
	s.AwaitOther(tb, from)
}

// AwaitOther waits until all sentinels name another master than the one given, and
// gives it.
func (s *Sentinels) AwaitOther(tb testing.TB, than *Server) *Server {
	tb.Helper()
	port := strconv.Itoa(than.Port)
	eventually(tb, "all sentinels name another master", func() bool {
		for _, one := range s.Sentinels {
			address, err := redis.Strings(one.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelMaster))
			if err != nil || len(address) != 2 || address[1] == port {
				return false
			}
		}
		return true
	})
	return s.Master(tb)
}
