//go:build !night

package main

// More of these come at night.
const (
	killedSeeds = 0 // of TestReshardUnderWay
	oracleOneOf = 3 // of so many things that the oracle must see, one is tried
)

// seeds of TestSimulation: one with many faults in a short time.
func seeds() []uint64 { return []uint64{8} }
