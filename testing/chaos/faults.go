package main

import (
	"fmt"
	"slices"
)

// allFaults are all faults. Some need a binary that can repair a ring.
func allFaults(audits bool) []fault {
	return slices.Concat(
		in(onServer, slices.Concat(ofProcesses(), ofRedis(), ofNetwork(), ofThirds(), ofStrangers(), ofData(audits))),
		in(onSentinel, ofSentinel()),
		in(onCluster, ofCluster()))
}

// in sets the world in which faults are injected.
func in(on topology, faults []fault) []fault {
	for i := range faults {
		faults[i].on = on
	}
	return faults
}

// chosen returns the faults with the given names in some worlds; without names it returns
// all.
func chosen(faults []fault, on []topology, names []string) ([]fault, error) {
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !slices.Contains(on, f.on) })
	if len(names) == 0 {
		return faults, nil
	}
	var some []fault
	for _, name := range names {
		if name == controlName {
			continue // always included
		}
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--faults: %q: no such fault in these worlds, or this binary does not support it", name)
		}
		some = append(some, faults[i])
	}
	return some, nil
}
