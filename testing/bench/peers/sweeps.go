package main

import (
	"context"
	"time"
)

// measureSweeps measures the lines of the drawings: throughput against accounts,
// what is in flight, shards and replicas. Each point is one run.
func measureSweeps(ctx context.Context, b *bench) error {
	accounts, shards, held, replicas := []int{1_000, 10_000, 100_000, 1_000_000}, []int{1, 4, 16, 64, 256}, []int{100, 1_000, 10_000, 50_000}, []int{1, 2, 4, 8}
	if b.quick {
		accounts, shards, held, replicas = []int{1_000, 10_000}, []int{4, 64}, []int{100, 10_000}, []int{1, 3}
	}
	for _, n := range accounts {
		err := b.sweep(ctx, spec{Kind: "ring", Accounts: n}, func(c *child) error {
			return b.mark(c, "accounts", "ring", float64(n), settings{})
		})
		if err != nil {
			return err
		}
	}
	for _, n := range shards {
		err := b.sweep(ctx, spec{Kind: "ring", Accounts: b.count, Shards: n}, func(c *child) error {
			for _, s := range []struct {
				name string
				held int
			}{{"ring, 10,000 in flight", inFlight}, {"ring, few in flight", 0}} {
				if err := b.mark(c, "shards", s.name, float64(n), settings{InFlight: s.held}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, kind := range []string{"ring", "asynq", "rmq"} {
		err := b.sweep(ctx, spec{Kind: kind, Accounts: b.count}, func(c *child) error {
			for _, n := range held {
				s := settings{Servers: 4, Concurrency: 64, InFlight: n}
				if kind == "rmq" {
					s.Concurrency, s.Pool = 16, 100
				}
				if n > b.count/2 {
					continue
				}
				if err := b.mark(c, "in_flight", kind, float64(n), s); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return b.sweep(ctx, spec{Kind: "poller", Accounts: b.count, Cadence: tightCadence}, func(c *child) error {
		for _, n := range replicas {
			if err := b.mark(c, "replicas", "replicas that share two processors with Redis", float64(n), settings{Servers: n, Concurrency: 8192, Warm: true, Monitor: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweep has an emptied server filled for some runs.
func (b *bench) sweep(ctx context.Context, s spec, runs func(*child) error) error {
	s.Redis = b.redis.URL()
	c, err := launch(ctx, s, b.redis)
	if err != nil {
		return err
	}
	err = runs(c)
	c.close()
	if err != nil {
		return err
	}
	return b.redis.flush()
}

// mark measures one point.
func (b *bench) mark(c *child, drawing, name string, x float64, s settings) error {
	y, err := c.sample("sweep_"+drawing, s, max(b.each/2, 300*time.Millisecond))
	if err != nil {
		return err
	}
	b.results.sample(y)
	b.results.point(drawing, name, x, y.Rate)
	b.results.note("%s, %s, %.0f: %.0f cycles/s, %.1f µs of Redis", drawing, name, x, y.Rate, y.RedisCPU)
	return nil
}
