package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Master returns the server that most sentinels name.
func (s *Sentinels) Master(tb testing.TB) *Server {
	tb.Helper()
	server, err := s.Named()
	must(tb, err)
	return server
}

// Named returns the server that most sentinels name.
func (s *Sentinels) Named() (*Server, error) {
	votes := make(map[string]int)
	for _, one := range s.Sentinels {
		if address, err := redis.Strings(one.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelMaster)); err == nil && len(address) == 2 {
			votes[address[1]]++
		}
	}
	for _, server := range s.Servers {
		if 2*votes[strconv.Itoa(server.Port)] > len(s.Sentinels) {
			return server, nil
		}
	}
	return nil, fmt.Errorf("the sentinels do not agree: %v", votes)
}

// Other returns the server that is not the given one.
func (s *Sentinels) Other(than *Server) *Server {
	return s.Servers[1-slices.Index(s.Servers, than)]
}

// Failover is Promote in a test.
func (s *Sentinels) Failover(tb testing.TB) {
	tb.Helper()
	_, err := s.Promote()
	must(tb, err)
}

// Promote has the sentinels promote the replica while the master lives, waits until all
// name it, and returns it.
func (s *Sentinels) Promote() (*Server, error) {
	from, err := s.Named()
	if err != nil {
		return nil, err
	}
	err = await("a failover begins", func() bool {
		_, err := s.Sentinels[0].command("SENTINEL", "FAILOVER", SentinelMaster)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return s.AwaitNamed(from)
}

// AwaitOther is AwaitNamed in a test.
func (s *Sentinels) AwaitOther(tb testing.TB, than *Server) *Server {
	tb.Helper()
	server, err := s.AwaitNamed(than)
	must(tb, err)
	return server
}

// AwaitNamed waits until all sentinels name another master than the one given, and
// returns it.
func (s *Sentinels) AwaitNamed(than *Server) (*Server, error) {
	port := strconv.Itoa(than.Port)
	err := await("all sentinels name another master", func() bool {
		for _, one := range s.Sentinels {
			address, err := redis.Strings(one.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelMaster))
			if err != nil || len(address) != 2 || address[1] == port {
				return false
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return s.Named()
}

// AwaitWhole waits until all sentinels know each other and a live master, and the other
// server follows that master and has its data.
func (s *Sentinels) AwaitWhole() error {
	return await("sentinels, master and replica are whole", func() bool {
		for _, one := range s.Sentinels {
			state, err := redis.StringMap(one.command("SENTINEL", "MASTER", SentinelMaster))
			if err != nil || state["num-other-sentinels"] != "2" || state["num-slaves"] != "1" || state["flags"] != "master" {
				return false
			}
		}
		master, err := s.Named()
		if err != nil {
			return false
		}
		replica := s.Other(master)
		return replica.field("INFO", "master_link_status") == "up" && replica.field("INFO", "master_port") == strconv.Itoa(master.Port)
	})
}

// TakeForDeadAfter sets after which silence the sentinels that answer declare a master
// dead.
func (s *Sentinels) TakeForDeadAfter(silence time.Duration) error {
	var failed error
	for _, one := range s.Sentinels {
		if one.Ended() {
			continue
		}
		if _, err := one.command("SENTINEL", "SET", SentinelMaster, "down-after-milliseconds", silence.Milliseconds()); err != nil {
			failed = err
		}
	}
	return failed
}
