package main

import (
	"fmt"
	"slices"
)

// state is what an account may be after what was done to it. The life in a record tells
// which change it is from.
type state struct {
	there  bool
	paused bool
	record string
}

// belief is all states that an account may be in: one state if every outcome is known.
type belief []state

// all returns what every possible state becomes.
func (b belief) all(change func(state) (state, bool)) belief {
	var after belief
	for _, s := range b {
		if s, ok := change(s); ok && !slices.Contains(after, s) {
			after = append(after, s)
		}
	}
	return after
}

// perhaps returns the belief if nobody knows whether a change was done.
func (b belief) perhaps(change func(state) (state, bool)) belief {
	after := slices.Clone(b)
	for _, s := range b.all(change) {
		if !slices.Contains(after, s) {
			after = append(after, s)
		}
	}
	return after
}

// mayBe reports whether an account may be as it is.
func (b belief) mayBe(s state) bool { return slices.Contains(b, s) }

func (b belief) String() string {
	text := ""
	for _, s := range b {
		text += fmt.Sprintf("[there=%v paused=%v %s] ", s.there, s.paused, s.record)
	}
	return text
}

// The changes. Each returns what a state becomes, and whether the change, or its answer,
// is possible in that state.

func created(record string) func(state) (state, bool) {
	return func(s state) (state, bool) { return state{there: true, record: record}, !s.there }
}

func put(record string) func(state) (state, bool) {
	return func(s state) (state, bool) { return state{true, s.paused, record}, true }
}

func deleted(s state) (state, bool) { return state{}, s.there }

func paused(s state) (state, bool) { return state{true, true, s.record}, s.there }

func resumed(s state) (state, bool) { return state{true, false, s.record}, s.there }

func present(s state) (state, bool) { return s, s.there }

func absent(s state) (state, bool) { return s, !s.there }
