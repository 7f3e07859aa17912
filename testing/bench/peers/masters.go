package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/ports"
)

const slots = 16384

// measureMasters measures the ring on clusters of one, two and three masters that share
// this machine. Not the speed counts then, but what a cycle costs all masters together.
func measureMasters(ctx context.Context, b *bench) error {
	var stages []*stage
	for n := 1; n <= 3; n++ {
		masters, err := startMasters(ctx, b.dir, n)
		for _, m := range masters {
			defer m.stop()
		}
		if err != nil {
			return err
		}
		s := spec{Kind: "ring", Accounts: b.count, Redis: clusterURL(masters)}
		c, err := launch(ctx, s, masters...)
		if err != nil {
			return err
		}
		defer c.close()
		stages = append(stages, &stage{name: fmt.Sprintf("ring_masters_%d", n), child: c, settings: settings{InFlight: inFlight}})
	}
	if err := b.inTurns(stages...); err != nil {
		return err
	}
	for i, s := range stages {
		b.results.point("masters", "cycles for each second of Redis' processor", float64(i+1), 1e6/median(s.cpus()))
	}
	b.results.target("masters_3_vs_1_per_cpu", ratio(stages[0].cpus(), stages[2].cpus()), "at least", 0.9, "× cycles for each second of Redis' processor")
	return nil
}

func clusterURL(masters []*server) string {
	var addresses []string
	for _, m := range masters {
		addresses = append(addresses, m.Addr())
	}
	return "redis+cluster://" + strings.Join(addresses, ",")
}

// startMasters starts a cluster of n masters without replicas. With an error it returns
// what it has started so far.
func startMasters(ctx context.Context, dir string, n int) (masters []*server, err error) {
	buses := make([]int, n)
	for i := range n {
		if buses[i], err = ports.Take(); err != nil {
			return masters, err
		}
		m, err := startServer(dir, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(buses[i]))
		if err != nil {
			return masters, err
		}
		masters = append(masters, m)
	}
	for i, m := range masters {
		_, err := m.conn.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		_, err2 := m.conn.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1)
		if err := errors.Join(err, err2); err != nil {
			return masters, err
		}
		if i > 0 {
			if _, err := m.conn.Do("CLUSTER", "MEET", "127.0.0.1", masters[0].Port, buses[0]); err != nil {
				return masters, err
			}
		}
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return masters, await(bounded, "the cluster is ready", func() (bool, error) {
		for _, m := range masters {
			known, err := m.clusterInfo()
			if err != nil || known["cluster_state"] != "ok" || known["cluster_known_nodes"] != strconv.Itoa(n) || known["cluster_slots_ok"] != strconv.Itoa(slots) {
				return false, err
			}
		}
		return true, nil
	})
}
