//go:build night

package main

// What testing/nightly.sh runs of what every change runs a part of.
const (
	firstSeed, lastSeed = 1, 4 // of TestSimulation without the race detector, which watches seed 1
	killedSeeds         = 4    // of TestReshardUnderWay
)
