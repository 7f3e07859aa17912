package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measureDurable measures what the capacity plan assumes for a check on a master as it
// runs in production: with an append-only file that is synced every second, and a
// replica.
func measureDurable(ctx context.Context, b *bench) error {
	rate, least := planRate, 10*time.Second
	if b.quick {
		rate, least = 2_000, 3*time.Second
	}
	master, err := startServer(b.dir, "--appendonly", "yes", "--appendfsync", "everysec")
	if err != nil {
		return err
	}
	defer master.stop()
	replica, err := startServer(b.dir, "--replicaof", "127.0.0.1 "+fmt.Sprint(master.Port))
	if err != nil {
		return err
	}
	defer replica.stop()
	following := func() (bool, error) {
		fields, err := replica.info("replication")
		return fields["master_link_status"] == "up", err
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := await(bounded, "the replica follows", following); err != nil {
		return err
	}

	durable := *b
	durable.redis = master
	var x sample
	var followed used
	s := spec{Kind: "poller", Accounts: rate * int(loadInterval/time.Second), Cadence: "every " + loadInterval.String()}
	err = durable.sweep(ctx, s, func(c *child) error {
		before, err := usage([]*server{replica})
		if err != nil {
			return err
		}
		began := time.Now()
		x, err = c.sample("durable_load", settings{Servers: 1, Concurrency: 8192, Warm: true, Settle: loadInterval, Monitor: true}, max(2*b.each, least))
		if err != nil {
			return err
		}
		after, err := usage([]*server{replica})
		followed.cpu = (after.cpu - before.cpu) / time.Since(began).Seconds()
		return err
	})
	if err != nil {
		return err
	}
	if up, err := following(); err != nil || !up {
		return errors.Join(errors.New("the replica has lost its master"), err)
	}
	b.results.sample(x)
	b.results.figure("durable_load_redis_cpu", x.RedisCPU, "µs of the master's processor a check, with appendfsync everysec and a replica attached")
	b.results.figure("durable_load_rate", x.Rate, "checks/s")
	b.results.figure("durable_load_lateness_p99", x.Values["lateness_p99_ms"], "ms")
	b.results.figure("durable_replica_cpu", 100*followed.cpu, "% of a core that the master's replica took, the first check of each account among it")
	return nil
}
