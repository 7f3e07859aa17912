//go:build !night

package main

// Of these, more runs come at night.
const (
	lastSeed    = 1 // of TestSimulation
	killedSeeds = 1 // of TestReshardUnderWay
)
