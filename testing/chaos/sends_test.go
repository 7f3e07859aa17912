package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What is judged of sends follows from what callers asked for, what they were told, and what arrived.
func TestJudgeSends(t *testing.T) {
	began := time.Unix(1e9, 0)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	send := func(number int, id, state string) *sent {
		return &sent{account: "a", peer: "p", key: fmt.Sprint("k", number), number: number, began: at(10 * number), ended: at(10 * number), id: id, state: state}
	}
	arrived := func(id string, seconds ...int) (all []arrival) {
		for _, s := range seconds {
			all = append(all, arrival{id, "p", at(s)})
		}
		return all
	}
	lost := []span{{from: at(9), to: at(12)}}
	for _, tt := range []struct {
		name     string
		all      []*sent
		arrivals map[string][]arrival
		allowed  []*excuse
		lost     []span
		durable  bool
		sees     string // "": nothing
		want     tally
	}{
		{"each as it should be", []*sent{send(1, "x", "accepted"), send(2, "y", "rejected"), send(3, "z", "unknown"), send(4, "", "")},
			map[string][]arrival{"k1": arrived("x", 11), "k4": arrived("w", 41)}, nil, nil, true, "", tally{Asked: 4, Taken: 3, Arrived: 2, Doubts: 1, Rejected: 1}},
		{"twice", []*sent{send(1, "x", "accepted")}, map[string][]arrival{"k1": arrived("x", 11, 12)}, nil, nil, false, "arrived 2 times", tally{Asked: 1, Taken: 1, Arrived: 2}},
		{"twice under two ids", []*sent{send(1, "x", "accepted")}, map[string][]arrival{"k1": append(arrived("x", 11), arrived("y", 12)...)}, nil, nil, false, "arrived 2 times", tally{Asked: 1, Taken: 1, Arrived: 2}},
		{"twice, and nobody was told of it", []*sent{send(1, "", "")}, map[string][]arrival{"k1": arrived("x", 11, 12)}, nil, nil, false, "arrived 2 times", tally{Asked: 1, Arrived: 2}},
		{"twice, and Redis lost writes", []*sent{send(1, "x", "accepted")}, map[string][]arrival{"k1": arrived("x", 11, 12)}, nil, lost, false, "", tally{Asked: 1, Taken: 1, Arrived: 2, Doubled: 1}},
		{"twice, and Redis lost writes, but not attempts", []*sent{send(1, "x", "accepted")}, map[string][]arrival{"k1": arrived("x", 11, 12)}, nil, lost, true, "arrived 2 times", tally{Asked: 1, Taken: 1, Arrived: 2}},
		{"accepted, and not there", []*sent{send(1, "x", "accepted")}, nil, nil, nil, false, `arrived 0 times, and is "accepted"`, tally{Asked: 1, Taken: 1}},
		{"rejected, and there", []*sent{send(1, "x", "rejected")}, map[string][]arrival{"k1": arrived("x", 11)}, nil, nil, false, `arrived 1 times, and is "rejected"`, tally{Asked: 1, Taken: 1, Arrived: 1}},
		{"silent", []*sent{send(1, "x", "")}, nil, nil, nil, false, `arrived 0 times, and is ""`, tally{Asked: 1, Taken: 1}},
		{"silent, and Redis lost writes", []*sent{send(1, "x", "")}, nil, nil, lost, true, "", tally{Asked: 1, Taken: 1, Missing: 1}},
		{"never ended", []*sent{send(1, "x", "queued")}, nil, nil, nil, false, `is "queued"`, tally{Asked: 1, Taken: 1}},
		{"at somebody else", []*sent{send(1, "x", "accepted")}, map[string][]arrival{"k1": {{"x", "q", at(11)}}}, nil, nil, false, "arrived at q", tally{Asked: 1, Taken: 1, Arrived: 1}},
		{"overtaken", []*sent{send(1, "x", "accepted"), send(2, "y", "accepted")}, map[string][]arrival{"k1": arrived("x", 31), "k2": arrived("y", 21)}, nil, nil, false, "k1 of a arrived after k2", tally{Asked: 2, Taken: 2, Arrived: 2}},
		{"overtaken by a poller that was cut off", []*sent{send(1, "x", "accepted"), send(2, "y", "accepted")}, map[string][]arrival{"k1": arrived("x", 31), "k2": arrived("y", 21)}, []*excuse{{from: at(25), to: at(35)}}, nil, false, "", tally{Asked: 2, Taken: 2, Arrived: 2}},
		{"overtaken, and is unknown", []*sent{send(1, "x", "unknown"), send(2, "y", "accepted")}, map[string][]arrival{"k1": arrived("x", 31), "k2": arrived("y", 21)}, nil, nil, false, "", tally{Asked: 2, Taken: 2, Arrived: 2, Doubts: 1}},
		{"answered what cannot be", []*sent{{account: "a", peer: "p", key: "k1", wrong: "was answered 409"}}, nil, nil, nil, false, "was answered 409", tally{Asked: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen []string
			got := judgeSends(tt.all, tt.arrivals, tt.allowed, tt.lost, tt.durable, func(_ time.Time, format string, args ...any) {
				seen = append(seen, fmt.Sprintf(format, args...))
			})
			if text := strings.Join(seen, "\n"); (text == "") != (tt.sees == "") || !strings.Contains(text, tt.sees) {
				t.Errorf("it sees %q, want %q", text, tt.sees)
			}
			if *got != tt.want {
				t.Errorf("it counts %+v, want %+v", *got, tt.want)
			}
		})
	}
}
