package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// fleet is the replicas and monitors that should run. A process that is killed is started
// again under another name, as an operator would do.
type fleet struct {
	world    *replicas.World
	up       *upstream
	random   *rand.Rand
	replicas []*replicas.Process
	monitors []*replicas.Process
	retired  []*replicas.Process // killed
	started  int
	latency  time.Duration
	places   int // of each replica
}

func newFleet(w *replicas.World, up *upstream, random *rand.Rand, p plan) *fleet {
	f := &fleet{world: w, up: up, random: random, latency: time.Millisecond, places: p.places}
	for range p.replicas {
		f.replicas = append(f.replicas, f.replica())
	}
	for range p.monitors {
		f.monitors = append(f.monitors, f.monitor())
	}
	return f
}

func (f *fleet) link(name string) *replicas.Link {
	f.started++
	l := f.world.NewLink(fmt.Sprintf("%s%03d", name, f.started))
	l.Set(f.usual())
	return l
}

// usual is a healthy link.
func (f *fleet) usual() replicas.Conditions { return replicas.Conditions{Latency: f.latency} }

func (f *fleet) replica() *replicas.Process {
	l := f.link("replica")
	checkers, err := poller.NewCheckers(checker{f.up, l})
	if err != nil {
		f.world.Fatal(err)
	}
	return f.world.StartPoller(checkers, poller.Config{Concurrency: f.places}, l)
}

func (f *fleet) monitor() *replicas.Process {
	return f.world.StartMonitor(monitor.Config{Retention: 12 * time.Hour, ProbeInterval: 30 * time.Minute}, f.link("monitor"))
}

// all returns every process.
func (f *fleet) all() []*replicas.Process {
	return append(append([]*replicas.Process(nil), f.replicas...), f.monitors...)
}

// any returns a random process, mostly a replica.
func (f *fleet) any() *replicas.Process {
	if len(f.monitors) > 0 && f.random.IntN(4) == 0 {
		return f.monitors[f.random.IntN(len(f.monitors))]
	}
	return f.anyReplica()
}

func (f *fleet) anyReplica() *replicas.Process { return f.replicas[f.random.IntN(len(f.replicas))] }

// replace starts the processes that are missing.
func (f *fleet) replace() {
	for i, p := range f.replicas {
		if p.Dead() {
			f.retired = append(f.retired, p)
			f.replicas[i] = f.replica()
		}
	}
	for i, p := range f.monitors {
		if p.Dead() {
			f.retired = append(f.retired, p)
			f.monitors[i] = f.monitor()
		}
	}
}

// heal ends all faults of links, and starts the processes that are missing.
func (f *fleet) heal() {
	f.replace()
	for _, p := range f.all() {
		p.Heal()
		p.Set(f.usual())
	}
}

// roll replaces a replica properly: the new one starts first.
func (f *fleet) roll(i int) (old *replicas.Process) {
	old = f.replicas[i]
	f.replicas[i] = f.replica()
	old.Stop()
	return old
}

// stop ends all of them and waits.
func (f *fleet) stop() {
	for _, p := range f.retired {
		p.Ended()
	}
	for _, p := range f.all() {
		p.Stop()
	}
}
