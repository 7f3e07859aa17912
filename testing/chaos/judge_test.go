package main

import (
	"testing"
	"time"
)

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

func TestFollow(t *testing.T) {
	type ops = []operation
	op := func(kind string, outcome outcome, status, ended int) operation {
		return operation{kind: kind, account: "a", outcome: outcome, status: status, ended: at(ended)}
	}
	racing := op(register, done, 201, 2)
	racing.racing = true
	for _, c := range []struct {
		name  string
		ops   ops
		lost  []span
		want  standing
		fault bool
	}{
		{"registered", ops{op(register, done, 201, 1)}, nil, active, false},
		{"not for certain", ops{op(register, unknown, 0, 1)}, nil, absent | active, false},
		{"for certain not", ops{op(register, refused, 0, 1)}, nil, absent, false},
		{"paused", ops{op(register, done, 201, 1), op(pause, done, 200, 2)}, nil, paused, false},
		{"perhaps paused", ops{op(register, done, 201, 1), op(pause, unknown, 503, 2)}, nil, active | paused, false},
		{"resumed", ops{op(register, done, 201, 1), op(pause, unknown, 503, 2), op(resume, done, 200, 3)}, nil, active, false},
		{"nudged, though it may be paused", ops{op(register, done, 201, 1), op(pause, unknown, 503, 2), op(nudge, refused, 409, 3)}, nil, paused, false},
		{"deregistered", ops{op(register, done, 201, 1), op(deregister, done, 204, 2)}, nil, absent, false},
		{"perhaps deregistered", ops{op(register, done, 201, 1), op(deregister, unknown, 0, 2)}, nil, absent | active, false},
		{"seen to be gone", ops{op(register, done, 201, 1), op(deregister, unknown, 0, 2), op(pause, refused, 404, 3)}, nil, absent, false},
		{"registered twice", ops{op(register, done, 201, 1), op(register, done, 201, 2)}, nil, absent | active | paused, true},
		{"lost at once", ops{op(register, done, 201, 1), op(pause, refused, 404, 2)}, nil, absent | active | paused, true},
		{"raced", ops{op(register, done, 201, 1), racing, op(deregister, done, 204, 3)}, nil, absent, false},
		{"before what was lost", ops{op(register, done, 201, 1)}, []span{{from: at(2), to: at(3)}}, active, false},
		{"lost", ops{op(register, done, 201, 2)}, []span{{from: at(2), to: at(3)}}, absent | active, false},
		{"two lost", ops{op(register, done, 201, 1), op(pause, done, 200, 2), op(deregister, done, 204, 3)}, []span{{from: at(2), to: at(3)}}, absent | active | paused, false},
		{"seen to be lost too early", ops{op(register, done, 201, 2), op(pause, refused, 404, 3)}, []span{{from: at(2), to: at(3)}}, absent | active | paused, true},
		{"seen by another server", ops{op(register, done, 201, 2), op(pause, refused, 404, 3)}, []span{{at(2), at(3), true}}, absent | active, false},
		{"certain again, though torn before", ops{op(register, done, 201, 2), op(deregister, refused, 404, 4), op(pause, done, 200, 5)}, []span{{at(2), at(3), true}}, absent | active | paused, true},
		{"certain again", ops{op(register, done, 201, 2), op(deregister, done, 204, 4)}, []span{{from: at(2), to: at(3)}}, absent, false},
	} {
		f := follow(c.ops, c.lost)["a"]
		if f.standing != c.want || (f.violation != nil) != c.fault {
			t.Errorf("%s: got %v and %v, want %v", c.name, f.standing, f.violation, c.want)
		}
	}
}
