package main

import (
	"errors"
	"fmt"
	"runtime"
)

// replay reaches some of the states once more, from the start. Live actors, each in its
// own goroutine, run against one Redis that nobody restores, and are held and released
// one operation at a time. At each step Redis must hold what the search says. That checks
// the search itself: that steps are done once and then looked up, that tokens are
// renamed, and what is left out of states.
func (e *explorer) replay() error {
	n := min(e.config.Replays, len(e.states))
	for i := range n {
		at := (i + 1) * (len(e.states) - 1) / n
		if err := e.replayTo(at); err != nil {
			return fmt.Errorf("replay of state %d: %w\n%s", at, err, e.describe(e.trace(at)))
		}
		e.result.Replayed++
	}
	return nil
}

func (e *explorer) path(at int) []int {
	var path []int
	for ; e.states[at].from >= 0; at = int(e.states[at].from) {
		path = append([]int{at}, path...)
	}
	return path
}

func (e *explorer) replayTo(at int) (err error) {
	st, err := openStore(e.nodes.scripts, e.config.shards())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if err := restore(st.embedded.Miniredis(), st.shards, nil, 0); err != nil {
		return err
	}
	if err := e.config.Begin(st); err != nil {
		return err
	}
	programs := append(append([]*program(nil), e.actors...), e.config.Surroundings...)
	cast := make([]*live, len(programs))
	names := 900
	begin := func(i int) error {
		names++
		cast[i], err = start(programs[i], nameText(names), e.nodes.scripts)
		return err
	}
	for i := range cast {
		if err := begin(i); err != nil {
			return err
		}
		defer func() { cast[i].end() }()
	}
	for _, step := range e.path(at) {
		for a := &e.states[step].action; a != nil; a = a.Then {
			if a.Fate == crashed {
				cast[a.Actor].end()
				if err := begin(a.Actor); err != nil {
					return err
				}
				continue
			}
			if programs[a.Actor].renamed && cast[a.Actor].next().done {
				cast[a.Actor].end()
				if err := begin(a.Actor); err != nil {
					return err
				}
			}
			if err := cast[a.Actor].act(st, a); err != nil {
				return err
			}
		}
		s, _, err := dump(st.embedded.Miniredis())
		if err != nil {
			return err
		}
		got, _ := canonical(s.apart(firstTicket).String())
		if want := e.steps.places[e.unpack(e.states[step].packed).place].text; got != want {
			return fmt.Errorf("redis holds\n%q\nand not\n%q", got, want)
		}
	}
	return nil
}

// live is an actor in a goroutine of its own.
type live struct {
	program *program
	wants   chan pending
	given   chan event
	ended   chan struct{}
	waits   *pending // what it waits for, once that is known
}

func start(p *program, name string, s *scripts) (*live, error) {
	l := &live{program: p, wants: make(chan pending), given: make(chan event), ended: make(chan struct{})}
	a, err := newActor(name, p.meta, l, s)
	if err != nil {
		return nil, err
	}
	go func() {
		// Each round is another process, because a ring may learn something.
		for err == nil && p.run(a) == nil {
			l.ask(pending{done: true})
			a, err = newActor(name, p.meta, l, s)
		}
	}()
	return l, nil
}

func (l *live) end() { close(l.ended) }

// ask is the actor's side: it waits until it is told, and for ever if it has crashed.
func (l *live) ask(p pending) event {
	for _, wait := range []bool{true, false} {
		if wait {
			select {
			case l.wants <- p:
			case <-l.ended:
				runtime.Goexit()
			}
			continue
		}
		select {
		case e := <-l.given:
			return e
		case <-l.ended:
		}
	}
	runtime.Goexit()
	return event{}
}

func (l *live) step(o operation) string { return l.ask(pending{op: o}).reply }
func (l *live) pick(n int) int          { return l.ask(pending{picks: n}).pick }
func (l *live) at(string, []string)     {}

// next returns what the actor waits for.
func (l *live) next() *pending {
	if l.waits == nil {
		p := <-l.wants
		l.waits = &p
	}
	return l.waits
}

func (l *live) give(e event) {
	l.next()
	l.waits = nil
	l.given <- e
}

// act has the actor do what an action says.
func (l *live) act(st *store, a *Action) error {
	if l.next().done {
		if a.Op != nil && a.Op[0][0] == "HDEL" {
			return nil // here the strike counts: the search keeps none
		}
		l.give(event{})
	}
	for _, p := range a.Picks {
		if n := l.next().picks; p >= n {
			return fmt.Errorf("%s picks among %d, not %d", l.program.name, n, p)
		}
		l.give(event{pick: p})
	}
	if a.Op == nil {
		if !l.next().done {
			return fmt.Errorf("%s does not end its round", l.program.name)
		}
		return nil
	}
	op := l.next().op
	got, _ := canonical(apart(op.String(), firstTicket))
	if want, _ := canonical(a.Op.String()); got != want {
		return fmt.Errorf("%s does %q and not %q", l.program.name, got, want)
	}
	reply := cut
	if a.Fate != cutLost {
		m := st.embedded.Miniredis()
		for _, shard := range st.shards {
			if err := m.Set(shard+"turns", fmt.Sprint(a.Turns)); err != nil {
				return err
			}
			if ids, err := m.HKeys(shard + "accounts"); err == nil {
				for _, id := range ids {
					m.HSet(shard+"accounts", id, before) // so that every update changes something
				}
			}
		}
		if err := st.elapse(); err != nil {
			return err
		}
		answer, err := st.do(op)
		if err != nil {
			return err
		}
		if a.Fate == done {
			reply = answer
		}
	}
	l.give(event{reply: reply})
	if l.program.eager && l.next().picks > 0 {
		l.give(event{pick: a.Way})
	}
	return nil
}
