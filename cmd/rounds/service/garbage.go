package service

import (
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// From heldMany held checks on memory counts more than the time to collect garbage: each has a
// connection, and mostly they do nothing. But while they connect, as they do when another replica
// stops, each allocates about 100 KB at once, and with heldGC collecting took two fifths of the
// processor. With defaultGC what stays would lie further apart in memory, and less of it could be
// given back.
const (
	heldMany  = 1000
	defaultGC = 100 // garbage that there may be, in percent of what lives
	heldGC    = 15
	connectGC = 75
)

const (
	heldOften = 2 * time.Second  // between two collections with heldGC; what fills memory sooner is connecting
	heldCalm  = 10 * time.Second // after that, until heldGC is for the best again
)

// HeldMemory returns a function for Options.Holding that has the runtime collect garbage earlier
// while very many checks are held, or nil if GOGC is set: lookup is the environment.
func HeldMemory(lookup settings.Lookup) func(held int) {
	if value, ok := lookup("GOGC"); ok && value != "" {
		return nil
	}
	g := &garbage{set: debug.SetGCPercent, free: debug.FreeOSMemory, percent: defaultGC}
	return func(held int) { g.held(held, readHeap(time.Now())) }
}

// heap is what the runtime says of its memory at a time, in bytes.
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
	connecting time.Time // when so much was allocated last
}

// held is told how many checks are held.
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
			g.free() // what connecting took
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
