package main

import (
	"cmp"
	"context"
	"slices"
)

// measureProfile measures where the time of the ring's cycles goes in Redis, by command,
// and what they allocate. The commands that a script calls are part of the script's time;
// the rest is Lua itself and the reply.
func measureProfile(ctx context.Context, b *bench) error {
	for _, way := range []struct{ name, give string }{{"tight", ""}, {"through the schedule", "later"}, {"with a message", "news"}} {
		err := b.sweep(ctx, spec{Kind: "ring", Accounts: b.count}, func(c *child) error {
			if err := b.redis.resetCommands(); err != nil {
				return err
			}
			x, err := c.sample("profile, "+way.name, settings{InFlight: inFlight, Give: way.give}, b.each)
			if err != nil {
				return err
			}
			b.results.sample(x)
			b.results.note("%s: %.0f cycles/s; a cycle takes %.2f µs of Redis' processor, %.2f µs of the client's, %.1f allocations, %.2f commands, %.4f scripts",
				way.name, x.Rate, x.RedisCPU, x.OwnCPU, x.Allocs, x.Values["commands"], x.Values["scripts"])
			return b.printCommands(x)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// printCommands prints the commands by the time that they took, and keeps that with the
// sample. It is wall-clock time, not processor time: the time that a server waits for a
// processor shows here.
func (b *bench) printCommands(x sample) error {
	commands, err := b.redis.commands()
	if err != nil {
		return err
	}
	// The start and the end of the run, which are not in the sample, called these too.
	cycles, total, inner := 0.0, 0.0, 0.0
	for _, c := range commands {
		if c.name == "evalsha" {
			cycles, total = c.calls/x.Values["scripts"], c.micros
		}
	}
	slices.SortFunc(commands, func(a, b command) int { return cmp.Compare(b.micros, a.micros) })
	for _, c := range commands {
		if c.name == "evalsha" || c.micros < total/1000 {
			continue
		}
		inner += c.micros
		b.results.note("  %-18s %8.3f µs/cycle  %8.3f calls/cycle  %8.2f µs/call", c.name, c.micros/cycles, c.calls/cycles, c.micros/c.calls)
		x.Values["µs of "+c.name] = c.micros / cycles
	}
	b.results.note("  %-18s %8.3f µs/cycle", "Lua and replies", (total-inner)/cycles)
	b.results.note("  %-18s %8.3f µs/cycle", "all", total/cycles)
	x.Values["µs of Lua and replies"] = (total - inner) / cycles
	return nil
}
