//go:build night

package main

// What testing/nightly.sh runs of what every change runs a part of.
const (
	killedSeeds = 4 // of TestReshardUnderWay
	oracleOneOf = 1 // rows of what the oracle must see
)

// seeds of TestSimulation.
func seeds() []uint64 { return []uint64{1, 2, 3, 4, 8} }
