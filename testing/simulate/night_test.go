//go:build night

package main

// What testing/nightly.sh runs of what every change runs a part of.
const (
	lastSeed    = 4 // of TestSimulation
	killedSeeds = 4 // of TestReshardUnderWay
)
