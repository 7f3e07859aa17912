package main

import (
	"math/rand/v2"
	"time"
)

// controlName is the name of the control in the table.
const controlName = "control"

// controlsEvery is the number of faults between two controls. There are at most
// mostControls, which is enough for each of them once.
const (
	controlsEvery = 6
	mostControls  = 6
)

// control is a turn like the others in which nothing is injected. It shows what happens
// without a fault: a sign that moves in a control is no sign.
func control(on topology) *fault {
	return &fault{name: controlName, on: on, invariant: "I1 I6", control: true, inject: func(t *turn) (func() error, error) {
		return nil, t.last(t.between(2*time.Second, 4*time.Second))
	}}
}

// schedule draws which fault comes when: all of them in an order drawn from the seed,
// with controls between them, then again in another order.
func schedule(seed uint64, on topology, faults []fault, rounds int) []*fault {
	random := rand.New(rand.NewPCG(seed, 0))
	var order []*fault
	for range rounds {
		order = append(order, aRound(random, on, faults)...)
	}
	return order
}

func aRound(random *rand.Rand, on topology, faults []fault) []*fault {
	var order []*fault
	for _, i := range random.Perm(len(faults)) {
		order = append(order, &faults[i])
	}
	controls := max(1, min(mostControls, len(faults)/controlsEvery))
	var with []*fault
	for i := range controls {
		from, to := i*len(order)/controls, (i+1)*len(order)/controls
		with = append(append(with, order[from:to]...), control(on))
	}
	return with
}
