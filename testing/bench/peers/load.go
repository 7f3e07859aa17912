package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// loadInterval is how often each account is checked under load. A check costs the same at
// any interval, and a short interval needs fewer accounts for the same rate.
const loadInterval = 10 * time.Second

// planRate is the number of checks a second at which the plan's constants are measured: a
// million accounts a minute.
const planRate = 16_700

// measureLoad measures one whole replica under so many checks a second: how late they
// start, and what Redis and the replica spend on one.
func measureLoad(ctx context.Context, b *bench) error {
	rates, least := []int{1_000, 4_000, 8_000, planRate, 32_000}, 10*time.Second
	if b.quick {
		rates, least = []int{500, 2_000}, 3*time.Second
	}
	s := settings{Servers: 1, Concurrency: 8192, Warm: true, Settle: loadInterval, Monitor: true}
	var planned sample
	for _, rate := range rates {
		var x sample
		spec := spec{Kind: "poller", Accounts: rate * int(loadInterval/time.Second), Cadence: "every " + loadInterval.String()}
		err := b.sweep(ctx, spec, func(c *child) (err error) {
			x, err = c.sample(fmt.Sprintf("load_%d", rate), s, max(2*b.each, least))
			return err
		})
		if err != nil {
			return err
		}
		x.Values["heap_bytes_per_account"] = x.Values["heap_bytes"] / float64(spec.Accounts)
		b.results.sample(x)
		b.results.point("lateness", "p50", float64(rate), x.Values["lateness_p50_ms"])
		b.results.point("lateness", "p99", float64(rate), x.Values["lateness_p99_ms"])
		b.results.note("%d checks/s: did %.0f, %.1f µs of Redis, %.1f µs of the replica, p50 %.0f ms and p99 %.0f ms late",
			rate, x.Rate, x.RedisCPU, x.OwnCPU, x.Values["lateness_p50_ms"], x.Values["lateness_p99_ms"])
		if rate <= planRate {
			planned = x
		}
	}
	b.results.figure("load_checks", planned.Rate, "checks/s of one replica, from the schedule and back")
	b.results.figure("load_redis_cpu", planned.RedisCPU, "µs of Redis' processor a check")
	b.results.figure("load_replica_cpu", planned.OwnCPU, "µs of the replica's processor a check that does nothing")
	b.results.figure("load_commands", planned.Values["commands"], "Redis commands a check, those of scripts among them")
	b.results.figure("load_scripts", planned.Values["scripts"]*planned.Rate, "scripts/s that one replica calls")
	b.results.figure("load_lateness_p99", planned.Values["lateness_p99_ms"], "ms")
	b.results.figure("replica_bytes_per_account", planned.Values["heap_bytes_per_account"], "bytes of the replica's heap for each account that it knows")
	return b.overHTTP(ctx)
}

// overHTTP measures what a check costs the replica that asks a connector over HTTP,
// unencrypted, on connections that stay open. The connector is in this process, so its
// cost does not count for the replica.
func (b *bench) overHTTP(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	connector := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		ReadHeaderTimeout: time.Minute,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = connector.Serve(listener) // until it is closed
	}()
	defer func() {
		_ = connector.Close() // its callers are being killed as well
		<-served
	}()
	s := spec{Kind: "poller", Accounts: 10 * b.count / 50, Cadence: tightCadence, URL: "http://" + listener.Addr().String() + "/"}
	var x sample
	err = b.sweep(ctx, s, func(c *child) (err error) {
		x, err = c.sample("load_http", settings{Servers: 1, Concurrency: 32, Warm: true}, max(b.each, 2*time.Second))
		return err
	})
	if err != nil {
		return err
	}
	b.results.sample(x)
	b.results.figure("http_replica_cpu", x.OwnCPU, "µs of the replica's processor a check that asks a connector over HTTP")
	return nil
}

// measureIdle measures what one idle replica costs, and what three cost: no account is
// due within the hour.
func measureIdle(ctx context.Context, b *bench) error {
	length := 30 * time.Second
	if b.quick {
		length = 3 * time.Second
	}
	perSecond := make(map[int]float64)
	err := b.sweep(ctx, spec{Kind: "poller", Redis: b.redis.URL(), Accounts: b.count, Cadence: idleCadence}, func(c *child) error {
		for _, n := range []int{1, 3} {
			if _, err := c.order(order{Do: "start", Settings: settings{Servers: n, Concurrency: 256, Monitor: true}}); err != nil {
				return err
			}
			if err := pause(ctx, min(length, 10*time.Second)); err != nil {
				return err
			}
			before, err := usage(c.servers)
			err2 := pause(ctx, length)
			after, err3 := usage(c.servers)
			_, err4 := c.order(order{Do: "stop"})
			if err := errors.Join(err, err2, err3, err4); err != nil {
				return err
			}
			perSecond[n] = (after.commands - before.commands) / length.Seconds()
			b.results.figure(fmt.Sprintf("idle_commands_%d_replicas", n), perSecond[n], "Redis commands/s, those of scripts and of one monitor among them")
			b.results.figure(fmt.Sprintf("idle_redis_cpu_%d_replicas", n), 100*(after.cpu-before.cpu)/length.Seconds(), "% of a core")
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.results.figure("idle_commands_per_replica", (perSecond[3]-perSecond[1])/2, "Redis commands/s that one more replica costs")
	return nil
}
