package poller

import (
	"testing"
	"time"
)

const s = time.Second

type paceCall struct {
	end    heldEnd
	took   time.Duration
	times  int           // how often it comes, 0: once
	wait   time.Duration // after the last of them
	failed bool          // at the last of them
}

// The floors are as long as they can be: chance is 1.
func TestPace(t *testing.T) {
	for name, calls := range map[string][]paceCall{
		"held, with nothing":              {{endNothing, 35 * s, 9, 0, false}},
		"held, and cut":                   {{endBroken, 20 * s, 9, 0, false}},
		"held for just a while":           {{endBroken, 5 * s, 9, 0, false}},
		"nothing at once":                 {{endNothing, 0, 1, s, false}, {endNothing, 0, 1, 2 * s, false}, {endNothing, 4 * s, 1, 4 * s, false}},
		"nothing at once for ever":        {{endNothing, 0, 1000, time.Minute, false}},
		"nothing at once, and held again": {{endNothing, 0, 9, time.Minute, false}, {endNothing, 35 * s, 1, 0, false}, {endNothing, 0, 1, s, false}},
		"broken at once":                  {{endBroken, 0, 1, s, false}, {endBroken, 0, 1, 2 * s, false}, {endBroken, 0, 1, 0, true}, {endBroken, 0, 1, 0, true}},
		"broken at once, held in between": {{endBroken, 0, 2, 2 * s, false}, {endBroken, 35 * s, 1, 0, false}, {endBroken, 0, 2, 2 * s, false}},
		"broken at once, found between":   {{endBroken, 0, 2, 2 * s, false}, {endFound, s, 1, 0, false}, {endBroken, 0, 1, 4 * s, false}},
		"messages":                        {{endFound, 0, 20, 0, false}, {endFound, 0, 1, s, false}},
		"messages after a hold":           {{endFound, 30 * s, 20, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			now := time.Unix(1e9, 0)
			for i, c := range calls {
				var wait time.Duration
				var failed bool
				for range max(1, c.times) {
					wait, failed = p.Next(c.end, c.took, 35*s, now, 1)
				}
				if wait != c.wait || failed != c.failed {
					t.Errorf("call %d: waits %v, failed %t; want %v, %t", i, wait, failed, c.wait, c.failed)
				}
			}
		})
	}
}

// Messages that come at once are fetched in a burst, and then at a rate. A rest brings the
// burst back.
func TestPaceOfMessages(t *testing.T) {
	var p pace
	now := time.Unix(1e9, 0)
	began := now
	for range 60 {
		wait, _ := p.Next(endFound, 0, 35*s, now, 0)
		now = now.Add(wait)
	}
	if took := now.Sub(began); took != 40*s {
		t.Errorf("60 calls took %v, want 40 s after a burst of 20", took)
	}
	if wait, _ := p.Next(endFound, 0, 35*s, now.Add(time.Minute), 0); wait != 0 {
		t.Errorf("after a rest: waits %v", wait)
	}
}

// A call of a short hold counts as held for a while sooner.
func TestWhile(t *testing.T) {
	for of, want := range map[time.Duration]time.Duration{s: s / 4, 8 * s: 2 * s, 35 * s: 5 * s, 300 * s: 5 * s} {
		if got := heldWhile(of); got != want {
			t.Errorf("%v: %v, want %v", of, got, want)
		}
	}
}

func TestGate(t *testing.T) {
	g := newGate(1000)
	now := time.Unix(1e9, 0)
	for i := range 2000 {
		if wait := g.pass(now); wait != time.Duration(i)*time.Millisecond {
			t.Fatalf("call %d waits %v", i, wait)
		}
	}
	if wait := g.pass(now.Add(time.Minute)); wait != 0 {
		t.Errorf("after a rest: waits %v", wait)
	}
}

// An account that has waited longer than usual looks for a place more often. None looks all the
// time.
func TestTurns(t *testing.T) {
	var turns turns
	for range 100 {
		turns.took(time.Minute)
	}
	for waited, want := range map[time.Duration][2]time.Duration{
		-time.Second:       {5 * time.Second, 10 * time.Second}, // a clock went back
		0:                  {5 * time.Second, 10 * time.Second},
		time.Minute:        {5 * time.Second, 10 * time.Second},
		80 * time.Second:   {time.Second / 2, time.Second},
		1000 * time.Hour:   {time.Second / 2, time.Second},
		1 << 62:            {time.Second / 2, time.Second}, // it has no history
		-(1 << 62):         {5 * time.Second, 10 * time.Second},
		70 * time.Second:   {5 * time.Second, 10 * time.Second},
		24 * 3 * time.Hour: {time.Second / 2, time.Second},
	} {
		if least, most := turns.pause(waited, 0), turns.pause(waited, 0.999); least != want[0] || most > want[1] || most <= least {
			t.Errorf("after %v: %v to %v, want %v", waited, least, most, want)
		}
	}
	// If all accounts wait longer, that becomes usual.
	for range 100 {
		turns.took(time.Hour)
	}
	if got := turns.pause(time.Hour, 0); got != 5*time.Second {
		t.Errorf("after an hour, which is usual: %v", got)
	}
}
