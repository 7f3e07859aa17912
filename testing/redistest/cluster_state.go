package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Owner returns the server that serves a slot.
func (c *Cluster) Owner(tb testing.TB, slot int) *Server {
	tb.Helper()
	s, err := c.Serving(slot)
	must(tb, err)
	return s
}

// member is what a server reports about itself.
type member struct {
	server *Server
	master string // the id of the master that it follows; empty: it is a master
	epoch  int    // of its view of who serves what; the highest counts
	slots  []string
}

// members asks all servers and returns the answers of those that answer.
func (c *Cluster) members() []member {
	all := c.Servers()
	found := make([]member, len(all))
	var asked sync.WaitGroup
	for i, s := range all {
		asked.Go(func() {
			if nodes, err := redis.String(s.glance("CLUSTER", "NODES")); err == nil {
				found[i] = ownLine(nodes)
				found[i].server = s
			}
		})
	}
	asked.Wait()
	return slices.DeleteFunc(found, func(m member) bool { return m.server == nil })
}

// ownLine reads what a node reports about itself in CLUSTER NODES.
func ownLine(nodes string) member {
	var m member
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		m.slots = fields[8:]
		m.epoch, _ = strconv.Atoi(fields[6]) // Redis' own format
		if strings.Contains(fields[2], "slave") {
			m.master = fields[3]
		}
	}
	return m
}

// serves reports whether a master has a slot, by its own view.
func (m member) serves(slot int) bool {
	for _, r := range m.slots {
		first, last, both := strings.Cut(r, "-")
		if !both {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 == nil && err2 == nil && from <= slot && slot <= to {
			return m.master == ""
		}
	}
	return false
}

// Serving returns the server that serves a slot. Of those that claim it, the one with the
// latest view counts: a master that was cut off may not know yet that another has taken
// its place.
func (c *Cluster) Serving(slot int) (*Server, error) {
	each, err := c.ServingEach([]int{slot})
	if err != nil {
		return nil, err
	}
	return each[0], nil
}

// ServingEach is Serving for several slots at one time.
func (c *Cluster) ServingEach(slots []int) ([]*Server, error) {
	members := c.members()
	each := make([]*Server, 0, len(slots))
	for _, slot := range slots {
		var latest member
		for _, m := range members {
			if m.serves(slot) && (latest.server == nil || m.epoch > latest.epoch) {
				latest = m
			}
		}
		if latest.server == nil {
			return nil, fmt.Errorf("nobody serves slot %d", slot)
		}
		each = append(each, latest.server)
	}
	return each, nil
}

// awaitEpochs waits until a server knows how late the views of all live ones are. A master that
// is given a slot makes its view later than those that it knows. If there is one later yet, what
// its old master said before counts for more, and both then send every call to the other for ever.
func (c *Cluster) awaitEpochs(s *Server) error {
	return await("a new owner knows the epochs of the others", func() bool {
		known, err := strconv.Atoi(s.field("CLUSTER", "cluster_current_epoch"))
		return err == nil && !slices.ContainsFunc(c.members(), func(m member) bool { return m.epoch > known })
	})
}

// Following returns a live replica of a server.
func (c *Cluster) Following(master *Server) (*Server, error) {
	for _, m := range c.members() {
		if m.master != "" && m.master == c.ids[master] {
			return m.server, nil
		}
	}
	return nil, fmt.Errorf("nobody follows %s", master.Addr())
}

// AwaitOther waits until another server than the one given serves a slot, and returns
// it.
func (c *Cluster) AwaitOther(slot int, than *Server) (*Server, error) {
	var other *Server
	err := await("another master serves the slot", func() bool {
		for _, m := range c.members() {
			if m.server != than && m.serves(slot) && m.server.field("CLUSTER", "cluster_state") == "ok" {
				other = m.server
			}
		}
		return other != nil
	})
	return other, err
}

// Promoted waits until a replica serves the slots of a master that was killed, and
// returns that replica.
func (c *Cluster) Promoted(tb testing.TB, killed *Server) *Server {
	tb.Helper()
	var promoted *Server
	must(tb, await("a replica is promoted", func() bool {
		i := slices.Index(c.Masters, killed)
		for j := i; j < len(c.Replicas); j += clusterMasters {
			if c.Replicas[j].field("INFO", "role") == "master" {
				promoted = c.Replicas[j]
			}
		}
		return promoted != nil && promoted.field("CLUSTER", "cluster_state") == "ok"
	}))
	return promoted
}

// AwaitWhole waits until every server is up and agrees that all slots are served, and
// each replica has what its master has.
func (c *Cluster) AwaitWhole() error {
	return await("the cluster is whole", func() bool {
		members := c.members()
		masters := 0
		for _, m := range members {
			switch {
			case m.server.field("CLUSTER", "cluster_state") != "ok" || m.server.field("CLUSTER", "cluster_slots_ok") != strconv.Itoa(clusterSlots):
				return false
			case m.master == "":
				masters++
			case m.server.field("INFO", "master_link_status") != "up":
				return false
			}
		}
		return len(members) == len(c.Servers()) && masters == clusterMasters
	})
}

// PromoteReplica has the replica of a slot's master take its place while the master
// lives, losing nothing, and returns that replica.
func (c *Cluster) PromoteReplica(slot int) (*Server, error) {
	master, err := c.Serving(slot)
	if err != nil {
		return nil, err
	}
	replica, err := c.Following(master)
	if err != nil {
		return nil, err
	}
	if _, err := replica.command("CLUSTER", "FAILOVER"); err != nil {
		return nil, err
	}
	return c.AwaitOther(slot, master)
}

// Leading returns the masters that serve slots.
func (c *Cluster) Leading() ([]*Server, error) {
	var found []*Server
	for _, m := range c.members() {
		if m.master == "" && len(m.slots) > 0 && m.server.field("CLUSTER", "cluster_state") == "ok" {
			found = append(found, m.server)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the cluster serves nothing")
	}
	return found, nil
}
