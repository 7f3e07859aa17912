package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// summary is the result of simulations.
type summary struct {
	seeds      int
	hours      float64 // of fake time
	checks     int
	overlaps   int // of two checks of one account, which faults may cause
	messages   int
	sends      sendCounts
	operations [3]int // of the registrar: ok, refused, unknown
	exchanges  replicas.Faults
	faults     map[string]int
	drills     map[string]drilled
	judgements int
	violations []string
	journal    string // what happened before the first violation
}

// drilled is the result of drills of one kind.
type drilled struct {
	times int
	held  time.Duration // the longest that anything was held
}

func newSummary() *summary {
	return &summary{faults: make(map[string]int), drills: make(map[string]drilled)}
}

func (s *summary) drilled(kind string, times int, held time.Duration) {
	was := s.drills[kind]
	s.drills[kind] = drilled{was.times + times, max(was.held, held)}
}

func (s *summary) add(one *summary) {
	s.seeds += one.seeds
	s.hours += one.hours
	s.checks += one.checks
	s.overlaps += one.overlaps
	s.messages += one.messages
	s.judgements += one.judgements
	s.sends.asked += one.sends.asked
	s.sends.arrived += one.sends.arrived
	s.sends.refused += one.sends.refused
	s.sends.doubts += one.sends.doubts
	s.sends.resolved += one.sends.resolved
	for i := range s.operations {
		s.operations[i] += one.operations[i]
	}
	s.exchanges.Add(one.exchanges)
	for name, n := range one.faults {
		s.faults[name] += n
	}
	for kind, d := range one.drills {
		s.drilled(kind, d.times, d.held)
	}
	s.violations = append(s.violations, one.violations...)
}

// expectNone fails a test if something is wrong.
func (s *summary) expectNone(t *testing.T) {
	t.Helper()
	if len(s.violations) > 0 {
		t.Errorf("%s\n\nwhat happened before:\n%s", strings.Join(s.violations, "\n"), s.journal)
	}
}

// table returns the summary for people.
func (s *summary) table(took time.Duration) string {
	var b strings.Builder
	line := func(name string, format string, args ...any) {
		fmt.Fprintf(&b, "%-34s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("seeds", "%d", s.seeds)
	line("fake hours", "%.0f, in %v: %.0f a minute", s.hours, took.Round(time.Second), s.hours/took.Minutes())
	line("checks", "%d, of which %d overlapped another one of the account", s.checks, s.overlaps)
	line("messages", "%d, each once and in order", s.messages)
	line("sends", "%d asked for; %d calls arrived, %d were refused; %d doubts at the end, %d resolved", s.sends.asked, s.sends.arrived, s.sends.refused, s.sends.doubts, s.sends.resolved)
	line("registrar: ok, refused, unknown", "%d, %d, %d", s.operations[0], s.operations[1], s.operations[2])
	x := s.exchanges
	line("exchanges with Redis", "%d: %d not done, %d replies lost, %d done late, %d on a link that was cut", x.Exchanges, x.NotDone, x.ReplyLost, x.Late, x.Cut)
	line("judgements at rest", "%d", s.judgements)
	for _, kind := range slices.Sorted(maps.Keys(s.drills)) {
		line("drill: "+kind, "%d times, free after at most %v", s.drills[kind].times, s.drills[kind].held.Round(100*time.Millisecond))
	}
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		line("fault: "+name, "%d", s.faults[name])
	}
	line("violations", "%d", len(s.violations))
	return b.String()
}
