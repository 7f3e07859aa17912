//go:build !night

package main

// More of these come at night.
const killedSeeds = 1 // of TestReshardUnderWay

// seeds of TestSimulation: one with many faults in a short time.
func seeds() []uint64 { return []uint64{8} }
