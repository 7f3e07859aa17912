package service

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// From heldMany held checks on, memory matters more than the time to collect garbage: each check
// has a connection, and most do nothing. But when many connect at once, as when another replica
// stops, each allocates about 100 KB, and with heldGC the collections took two fifths of the
// processor. With defaultGC, live data would be more scattered in memory, and less of it could be
// returned to the system.
const (
	heldMany  = 1000
	defaultGC = 100 // the garbage that there may be, in per cent of live data
	heldGC    = 15
	connectGC = 75
)

const (
	heldOften = 2 * time.Second  // between two collections with heldGC; if memory fills sooner, checks are connecting
	heldCalm  = 10 * time.Second // after that, until heldGC applies again
)

// HeldMemory returns a function for Options.Holding that makes the runtime collect garbage earlier
// while many checks are held. It returns nil if GOGC is set. lookup is the environment.
func HeldMemory(lookup settings.Lookup) func(held int) {
	if value, ok := lookup("GOGC"); ok && value != "" {
		return nil
	}
	g := &garbage{set: debug.SetGCPercent, free: debug.FreeOSMemory, percent: defaultGC}
	return func(held int) { g.held(held, readHeap(time.Now())) }
}

// heap is what the runtime says about its memory at a time, in bytes.
type heap struct {
	at        time.Time
	allocated uint64 // since the process began
	live      uint64 // what the last collection left, and all stacks
}

func readHeap(now time.Time) heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return heap{at: now, allocated: samples[0].Value.Uint64(), live: samples[1].Value.Uint64() + samples[2].Value.Uint64()}
}

// garbage decides how much garbage there may be before the runtime collects it.
type garbage struct {
	set  func(percent int) int // debug.SetGCPercent
	free func()                // debug.FreeOSMemory

	percent    int
	last       heap
	connecting time.Time // when so much was last allocated
}

// held notes how many checks are held, and sets the collector accordingly.
func (g *garbage) held(held int, now heap) {
	room := float64(now.live) * heldGC / 100
	perSecond := float64(now.allocated-g.last.allocated) / now.at.Sub(g.last.at).Seconds()
	if perSecond*heldOften.Seconds() > room {
		g.connecting = now.at
	}
	g.last = now
	switch calm := now.at.Sub(g.connecting) >= heldCalm; {
	case held >= heldMany && calm:
		if g.change(heldGC) {
			g.free() // the memory that connecting took
		}
	case held >= heldMany:
		g.change(connectGC)
	case held < heldMany/2:
		g.change(defaultGC)
	}
}

func (g *garbage) change(percent int) bool {
	if g.percent == percent {
		return false
	}
	g.percent = percent
	g.set(percent)
	return true
}
