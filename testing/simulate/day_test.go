//go:build !night

package main

// More of these come at night.
const (
	killedSeeds = 0 // of TestReshardUnderWay
	oracleOneOf = 3 // rows of what the oracle must see
)

// seeds of TestSimulation: one with many faults in a short time.
func seeds() []uint64 { return []uint64{8} }
