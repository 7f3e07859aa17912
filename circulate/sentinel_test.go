package circulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestFailoverOfSentinelsUnderTraffic loses what the replica had not received, but the
// law still holds.
func TestFailoverOfSentinelsUnderTraffic(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, set *redistest.Sentinels, master *redistest.Server){
		"the replica is promoted while the master lives": func(t *testing.T, set *redistest.Sentinels, _ *redistest.Server) {
			set.Failover(t)
		},
		"the master is killed": func(t *testing.T, set *redistest.Sentinels, master *redistest.Server) {
			master.Kill()
			set.AwaitOther(t, master)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := redistest.StartSentinels(t, redistest.WithQuickFailover())
			server := set.Connect(t)
			ring := openRing(t, server, 4)
			tr := startTraffic(t, ring)
			tr.goesOn(t)
			fail(t, set, set.Master(t))
			tr.goesOn(t)
			if master := set.Master(t); server.Master() != master.Addr() {
				t.Errorf("connected to %s, the master is %s", server.Master(), master.Addr())
			}
			tr.settle(t, server, true)
		})
	}
}

// TestZombieMasterIsLeft freezes the master until another has taken its place. The old
// one then still believes to be the master, and its connections live: nothing may be
// written there.
func TestZombieMasterIsLeft(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t, redistest.WithQuickFailover())
	server := set.Connect(t)
	ring := openRing(t, server, 1)
	tr := startTraffic(t, ring)
	tr.goesOn(t)
	zombie := set.Master(t)
	if err := zombie.Freeze(); err != nil {
		t.Fatal(err)
	}
	set.AwaitOther(t, zombie)
	tr.goesOn(t) // by the new master: the old one is frozen
	if err := zombie.Thaw(); err != nil {
		t.Fatal(err)
	}
	conn, err := zombie.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	role, err := redis.Values(conn.Do("ROLE"))
	if err != nil {
		t.Fatal(err)
	}
	if string(role[0].([]byte)) != "master" {
		t.Fatal("the sentinels were quicker than the test: it shows nothing")
	}
	written := func() int {
		t.Helper()
		n, err := redis.Int(conn.Do("GET", "{rounds:0}:ticket_seq"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := written()
	tr.goesOn(t)
	if after := written(); after != before {
		t.Errorf("the zombie gave out %d tickets", after-before)
	}
	tr.settle(t, server, true)
}

// TestMasterThatNoReplicaFollowsTakesNothing stops a zombie from acknowledging writes
// that will be lost.
func TestMasterThatNoReplicaFollowsTakesNothing(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t, redistest.WithArgs("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"))
	server := set.Connect(t)
	ring := openRing(t, server, 1)
	register(t, ring, "a")
	set.Servers[1].Kill()
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := ring.Claim(t.Context(), 0, alice, 1, 0)
		if err != nil {
			if !strings.Contains(err.Error(), "NOREPLICAS") || circulate.Unknown(err) || !circulate.Unavailable(err) {
				t.Error(err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it goes on without a replica")
		}
	}
	if found, err := ring.Look(t.Context(), 0, []string{"a"}); err != nil || len(found) != 1 {
		t.Errorf("reading: %v, %v", found, err)
	}
}
