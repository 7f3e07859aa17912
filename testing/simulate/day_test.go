//go:build !night

package main

// Of these, more runs come at night.
const (
	firstSeed, lastSeed = 2, 2 // of TestSimulation without the race detector, which watches seed 1
	killedSeeds         = 1    // of TestReshardUnderWay
)
