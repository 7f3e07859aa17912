package main

import "testing"

// by returns a check that a process makes.
func (c check) by(process string) check {
	c.caller = &caller{}
	c.caller.process.Store(&process)
	return c
}

// The checker itself is tested on histories whose faults are known. The first check is
// p's, the second q's.
func TestOverlapping(t *testing.T) {
	history := func(second check) []check {
		return []check{second.by("q"), {account: "b", began: at(0), ended: at(5000)}, check{account: "a", began: at(1000), ended: at(2000)}.by("p")}
	}
	everybody := func(from, to int) []*excuse { return []*excuse{{from: at(from), to: at(to), end: at(to)}} }
	of := func(from, to int, processes ...string) []*excuse {
		return []*excuse{{from: at(from), to: at(to), of: processes}}
	}
	for _, c := range []struct {
		name   string
		second check
		excuse []*excuse
		faults int
		lawful int
	}{
		{"one after the other", check{account: "a", began: at(2000), ended: at(2500)}, nil, 0, 0},
		{"overlapping", check{account: "a", began: at(1999), ended: at(2500)}, nil, 1, 0},
		{"within", check{account: "a", began: at(1100), ended: at(1200)}, nil, 1, 0},
		{"with a straggler", check{account: "a", began: at(1100), ended: at(2500)}, everybody(0, 1100), 0, 1},
		{"with a straggler at another time", check{account: "a", began: at(1100), ended: at(2500)}, everybody(0, 1000), 1, 0},
		{"cut, and seen late", check{account: "a", began: at(900), ended: at(1100), cut: true}, nil, 0, 0},
		{"cut, but long before", check{account: "a", began: at(900), ended: at(1300), cut: true}, nil, 1, 0},
		{"the first one's is the straggler", check{account: "a", began: at(1100), ended: at(2500)}, of(0, 1100, "p"), 0, 1},
		{"the second one's is the straggler", check{account: "a", began: at(1100), ended: at(2500)}, of(0, 1100, "r", "q"), 0, 1},
		{"the straggler is a neighbour", check{account: "a", began: at(1100), ended: at(2500)}, of(0, 1100, "r"), 1, 0},
		{"both after the end", check{account: "a", began: at(1100), ended: at(2500)}, []*excuse{{from: at(0), to: at(9000), end: at(1000)}}, 1, 0},
		{"one before the end", check{account: "a", began: at(1100), ended: at(2500)}, []*excuse{{from: at(0), to: at(9000), end: at(1001)}}, 0, 1},
	} {
		faults, lawful := overlapping(history(c.second), c.excuse)
		if len(faults) != c.faults || lawful != c.lawful {
			t.Errorf("%s: got %v and %d", c.name, faults, lawful)
		}
	}
}
