package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// constants are what the capacity plan is computed from. All but the last block are
// measured.
type constants struct {
	redisCPU   float64 // µs of a master's processor a check, from the schedule and back, with an append-only file and a replica
	replicaCPU float64 // µs of a replica's processor a check that asks a connector over HTTP
	bytes      float64 // of Redis for an account with its record
	message    float64 // bytes of Redis for a found message
	known      float64 // bytes of a replica's memory for each account that it knows
	commands   float64 // Redis commands a check
	idle       float64 // Redis commands/s of one more replica that has nothing to do

	interval     float64 // s between checks of an account
	checkSeconds float64 // that a check takes
	redisLoad    float64 // the part of a core that a master should use
	replicaLoad  float64 // the part of a core that a replica should use
	headroom     float64 // memory to provide for each byte used: fragmentation, buffers, a copy while saving
	perDay       float64 // messages found a day for each account
	days         float64 // that messages are kept
	corePrice    float64 // a month
	gibPrice     float64 // a month
}

// assumed are the constants that are not measured. A fleet that differs changes
// them here.
func assumed() constants {
	return constants{
		interval: 60, checkSeconds: 0.2, redisLoad: 0.5, replicaLoad: 0.6, headroom: 1.5,
		perDay: 1, days: 7, corePrice: 25, gibPrice: 3.5,
	}
}

func constantsOf(r *results) (constants, error) {
	c := assumed()
	var errs []error
	for name, field := range map[string]*float64{
		"durable_load_redis_cpu": &c.redisCPU, "http_replica_cpu": &c.replicaCPU, "bytes_per_account": &c.bytes, "bytes_per_message": &c.message,
		"replica_bytes_per_account": &c.known, "load_commands": &c.commands, "idle_commands_per_replica": &c.idle,
	} {
		value, err := r.value(name)
		*field = value
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

// plan is what so many accounts need.
type plan struct {
	accounts float64
	rate     float64 // checks/s
	masters  int     // their replicas come on top
	shards   int
	gib      float64 // of Redis, over all masters, without their replicas
	cores    int     // of pollers
	inFlight float64
	known    float64 // GiB of memory of the pollers
	commands float64 // Redis commands/s
	cost     float64 // a month
}

const gib = 1 << 30

// of computes the plan: what is limited by a processor is
// rate × processor time / share of a core, what is limited by memory accounts × bytes × headroom.
func (c constants) of(accounts float64) plan {
	p := plan{accounts: accounts, rate: accounts / c.interval}
	p.masters = atLeast(1, p.rate*c.redisCPU/1e6/c.redisLoad)
	// This is as many shards per master as the measured one had, rounded up to a power of
	// two, so that batches are as large as measured.
	p.shards = min(16384, max(64, 1<<bits.Len(uint(64*accounts/(c.interval*planRate)-1))))
	p.gib = c.headroom * accounts * (c.bytes + c.message*c.perDay*c.days) / gib
	p.cores = atLeast(2, p.rate*c.replicaCPU/1e6/c.replicaLoad)
	p.inFlight = p.rate * c.checkSeconds
	p.known = accounts * c.known / gib
	p.commands = p.rate*c.commands + c.idle*float64(p.cores)
	p.cost = c.corePrice*float64(2*p.masters+p.cores) + c.gibPrice*(2*p.gib+p.known)
	return p
}

func atLeast(least int, n float64) int { return max(least, int(math.Ceil(n))) }

// printPlan prints the plan as testing/bench/README.md has it.
func printPlan(path string, out io.Writer) error {
	r, err := readResults(path)
	if err != nil {
		return err
	}
	c, err := constantsOf(r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if r.Quick {
		fmt.Fprint(out, "From a quick run: these figures say that the computation works and nothing else.\n\n")
	}
	fmt.Fprintf(out, "| measured | | part, figure | at commit |\n|---|---|---|---|\n")
	for _, row := range []struct {
		name         string
		value        float64
		unit         string
		part, figure string
	}{
		{"a master's processor a check, `appendfsync everysec` and a replica attached", c.redisCPU, "µs", "durable", "durable_load_redis_cpu"},
		{"a replica's processor a check over HTTP", c.replicaCPU, "µs", "load", "http_replica_cpu"},
		{"Redis' memory an account", c.bytes, "bytes", "memory", "bytes_per_account"},
		{"Redis' memory a message", c.message, "bytes", "memory", "bytes_per_message"},
		{"a replica's memory for an account that it knows", c.known, "bytes", "load", "replica_bytes_per_account"},
		{"Redis commands a check", c.commands, "", "load", "load_commands"},
		{"Redis commands/s of one more idle replica", c.idle, "", "idle", "idle_commands_per_replica"},
	} {
		fmt.Fprintf(out, "| %s | %.1f %s | %s, `%s` | %s |\n", row.name, row.value, row.unit, row.part, row.figure, r.at(row.figure))
	}
	fmt.Fprintf(out, "\nAssumed: a check every %.0f s that takes %.1f s; masters at %.0f %% of a core and replicas at %.0f %%; %.1f bytes of memory provided for each used; "+
		"messages a day and account: %g, kept for %g days; a replica for each master; %.2f a month for a core and %.2f for a GiB.\n\n",
		c.interval, c.checkSeconds, 100*c.redisLoad, 100*c.replicaLoad, c.headroom, c.perDay, c.days, c.corePrice, c.gibPrice)
	fmt.Fprintf(out, "| accounts | checks/s | masters | shards | Redis memory | pollers' cores | pollers' memory | in flight | Redis commands/s | cost a month |\n")
	fmt.Fprintf(out, "|---|---|---|---|---|---|---|---|---|---|\n")
	for _, accounts := range []float64{1e6, 1e7, 1e8} {
		p := c.of(accounts)
		fmt.Fprintf(out, "| %.0f million | %.0f | %d | %d | %.1f GiB | %d | %.1f GiB | %.0f | %.0f | %.0f |\n",
			accounts/1e6, p.rate, p.masters, p.shards, p.gib, p.cores, p.known, p.inFlight, p.commands, p.cost)
	}
	limit := c.redisLoad * 1e6 / c.redisCPU * c.interval
	fmt.Fprintf(out, "\nOne master at %.0f %% of its core bears %.2f million accounts, which take %.1f GiB of it: its processor is what runs out first. "+
		"At a check every %.0f minutes it would be its memory, if it has 16 GiB.\n",
		100*c.redisLoad, limit/1e6, c.headroom*limit*(c.bytes+c.message*c.perDay*c.days)/gib, math.Ceil(c.interval/60*16*gib/(c.headroom*limit*(c.bytes+c.message*c.perDay*c.days))))
	return nil
}
