package main

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// used is what was used up to a moment.
type used struct {
	at         time.Time
	commands   float64
	redis, own float64 // seconds of processor time

	claims, claimed float64
	steps           map[string]commandUse
}

func (b *cadenceBench) sample(server *connect.Single, registry prometheus.Gatherer) (used, error) {
	u, err := sample(server)
	if err != nil {
		return u, err
	}
	if u.steps, err = commandUses(server); err != nil || registry == nil {
		return u, err
	}
	families, err := registry.Gather()
	if err != nil {
		return u, fmt.Errorf("metrics: %w", err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "rounds_claims_total":
			u.claims = f.GetMetric()[0].GetCounter().GetValue()
		case "rounds_claimed_total":
			u.claimed = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return u, nil
}

// tell prints how often each command was run between two samples, and how long it took.
func (b *cadenceBench) tell(part string, before, after used) {
	if b.commands == nil {
		return
	}
	seconds := after.at.Sub(before.at).Seconds()
	for _, name := range slices.Sorted(maps.Keys(after.steps)) {
		was, is := before.steps[name], after.steps[name]
		if n := is.calls - was.calls; n > 0 {
			fmt.Fprintf(b.commands, "%s %-20s %12.2f calls/s %10.2f µs a call\n", part, name, n/seconds, (is.micros-was.micros)/n)
		}
	}
}

func sample(server *connect.Single) (used, error) {
	u := used{at: time.Now()}
	var err error
	if u.redis, err = usedCPU(server); err != nil {
		return u, err
	}
	if u.commands, err = usedCommands(server); err != nil {
		return u, err
	}
	u.own, err = ownCPU()
	return u, err
}

// ownCPU returns how many seconds of processor time this process has used.
func ownCPU() (float64, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, err
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds(), nil
}
