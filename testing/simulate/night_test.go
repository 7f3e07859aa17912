//go:build night

package main

// What testing/nightly.sh runs of what every change runs a part of.
const (
	killedSeeds = 4 // of TestReshardUnderWay
	oracleOneOf = 1 // of so many things that the oracle must see, one is tried
)

// seeds of TestSimulation.
func seeds() []uint64 { return []uint64{1, 2, 3, 4, 8} }
