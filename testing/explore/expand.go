package main

import (
	"fmt"
	"slices"
	"strings"
)

// Tokens that appear in a step, in the numbers that the state has while the step is under
// way: what Redis issues, and the names of new replicas.
const (
	handedOut = 1000
	newcomer  = 2000
)

// expand visits all states that may come next.
func (e *explorer) expand(at int) error {
	s := e.unpack(e.states[at].packed)
	for i := range s.actors {
		a := &s.actors[i]
		n := e.nodes.all[a.node]
		if i > 0 && same(s.actors[i-1], *a) {
			continue // the actor before it may do the same
		}
		for j := range n.options {
			if err := e.choose(at, &s, i, a, &n.options[j], nil); err != nil {
				return err
			}
		}
		if s.crashes > 0 && a.node != e.nodes.starts[n.program] {
			next := s.clone()
			next.crashes--
			e.renew(&next.actors[i])
			next.settle(ordinal(e.steps.places[s.place].tokens), e.matters(s.place))
			e.visit(next, at, Action{Actor: a.of, Fate: crashed})
		}
	}
	for k := range e.idle {
		a := &e.idle[k]
		if e.config.Surroundings[k].changes && s.changes == 0 {
			continue
		}
		n := e.nodes.all[a.node]
		for j := range n.options {
			if err := e.choose(at, &s, -1, a, &n.options[j], nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func same(a, b actorState) bool {
	return a.kind == b.kind && a.node == b.node && slices.Equal(a.links, b.links)
}

func (s *state) clone() state {
	c := *s
	c.actors = slices.Clone(s.actors)
	c.written = slices.Clone(s.written)
	return c
}

// matters returns the tickets for which it matters that a message was written under them:
// those under which one might be written again. If the law has found that no ticket ever
// becomes current a second time, these are the current ones.
func (e *explorer) matters(place int) func(t int) bool {
	if e.config.Remember {
		return func(int) bool { return true }
	}
	current := e.steps.places[place].current
	return func(t int) bool { return slices.Contains(current, t) }
}

// renew puts a new process in the place of one that is gone, or of one whose round is
// over. The latter is the same except for the name.
func (e *explorer) renew(a *actorState) {
	p := e.actors[a.of]
	a.node = e.nodes.starts[p]
	a.links = e.newName(p, newcomer)
}

// choose has an actor continue with an option, in all ways that are possible.
func (e *explorer) choose(at int, s *state, i int, a *actorState, o *option, before []Action) error {
	action := Action{Actor: a.of, Picks: o.picks, Op: o.op, Option: o.id}
	if o.op == nil {
		next := s.clone()
		if i >= 0 {
			e.rewind(&next.actors[i])
			next.settle(ordinal(e.steps.places[s.place].tokens), e.matters(s.place))
			e.visit(next, at, chain(before, action))
		}
		return nil
	}
	if i >= 0 && s.changes == 0 && e.begins(a) {
		return nil
	}
	q := question{place: s.place, option: o.id}
	known := e.steps.places[s.place].tokens
	var strangers []int // the state's tokens that Redis does not know
	for k, t := range o.known {
		if k == maxTokens {
			return fmt.Errorf("an operation has more than %d tokens", maxTokens)
		}
		linked := a.links[t-1]
		if linked > known {
			strangers = append(strangers, linked)
			q.known[k] = int16(foreign + len(strangers) - 1)
		} else {
			q.known[k] = int16(linked)
		}
	}
	answers, err := e.steps.do(q, o)
	if err != nil {
		return err
	}
	for k := range answers {
		r := &answers[k]
		action.Turns = r.turns
		for _, f := range []fate{done, cutDone} {
			if f == cutDone && (i < 0 || s.cuts == 0 || reads(o.op)) {
				continue
			}
			action.Fate = f
			if err := e.apply(at, s, i, o, r, strangers, before, action); err != nil {
				return err
			}
		}
	}
	if i >= 0 && s.cuts > 0 && !reads(o.op) {
		action.Fate = cutLost
		return e.apply(at, s, i, o, &answer{place: s.place, tokens: ordinal(known)}, nil, before, action)
	}
	return nil
}

// apply makes the state that an answer leads to.
func (e *explorer) apply(at int, s *state, i int, o *option, r *answer, strangers []int, before []Action, action Action) error {
	// This is the state's number for a token of the step.
	global := func(t int) int {
		switch {
		case t > fresh:
			return handedOut + t - fresh
		case t >= foreign:
			return strangers[t-foreign]
		}
		return t
	}
	next := s.clone()
	next.place = r.place
	faults := r.fault
	for _, t := range r.emitted {
		g := global(t)
		if slices.Contains(next.written, g) && faults == "" {
			faults = "written twice: what one check found"
		}
		next.written = append(next.written, g)
	}
	if i < 0 {
		if e.config.Surroundings[action.Actor-len(e.actors)].changes {
			next.changes--
		}
	} else {
		if e.begins(&s.actors[i]) {
			next.changes--
		}
		if action.Fate != done {
			next.cuts--
		}
	}
	placed := make([]int, len(r.tokens))
	for k, t := range r.tokens {
		placed[k] = global(t)
	}
	if faults != "" && e.result.Fault == "" {
		e.result.Fault = faults
		e.result.Trace = append(e.trace(at), chain(before, action))
	}
	if i < 0 {
		next.settle(placed, e.matters(next.place))
		e.visit(next, at, chain(before, action))
		return nil
	}
	ways, err := e.told(s.actors[i], o, r, action.Fate, global)
	if err != nil {
		return err
	}
	for w, way := range ways {
		next := next.clone()
		next.actors[i] = way
		next.settle(placed, e.matters(next.place))
		action := action
		action.Way = w
		if action.Fate == done {
			i := slices.IndexFunc(next.actors, func(b actorState) bool { return b.of == action.Actor })
			b := &next.actors[i]
			if n := e.nodes.all[b.node]; b.node != e.nodes.starts[n.program] && goesOn(o.op, n) {
				if err := e.choose(at, &next, i, b, &n.options[0], append(slices.Clone(before), action)); err != nil {
					return err
				}
				continue
			}
		}
		e.visit(next, at, chain(before, action))
	}
	return nil
}

// begins reports whether an actor's next operation is the first of a round that counts as
// a change.
func (e *explorer) begins(a *actorState) bool {
	p := e.actors[a.of]
	return p.changes && a.node == e.nodes.starts[p]
}

// told returns where an actor then is: one place, or several if it has to pick.
func (e *explorer) told(a actorState, o *option, r *answer, f fate, global func(int) int) ([]actorState, error) {
	q := advance{node: a.node, option: o.id, reply: -1}
	reply, told := cut, []int(nil)
	if f == done {
		q.reply, reply, told = r.reply, e.steps.replies[r.reply], r.told
	}
	var outsiders []int
	for k, t := range told {
		g := global(t)
		if l := slices.Index(a.links, g); l >= 0 {
			q.known[k] = int16(l + 1)
		} else {
			outsiders = append(outsiders, g)
			q.known[k] = int16(outsider + len(outsiders) - 1)
		}
	}
	arrivals, err := e.nodes.follow(q, o, reply)
	if err != nil {
		return nil, err
	}
	ways := make([]actorState, len(arrivals))
	for w, to := range arrivals {
		ways[w] = a
		if to.node < 0 {
			e.rewind(&ways[w])
			continue
		}
		links := make([]int, len(to.tokens))
		for k, t := range to.tokens {
			if t >= outsider {
				links[k] = outsiders[t-outsider]
			} else {
				links[k] = a.links[t-1]
			}
		}
		ways[w].node, ways[w].links = to.node, links
	}
	return ways, nil
}

// chain makes one choice of several that are done at once.
func chain(before []Action, last Action) Action {
	for _, a := range slices.Backward(before) {
		then := last
		a.Then = &then
		last = a
	}
	return last
}

// reads reports whether an operation only reads. Cutting its reply changes nothing, and
// leaves the actor where it may go anyway.
func reads(o operation) bool { return o[0][0] == "LLEN" || o[0][0] == "LRANGE" }

// goesOn reports whether an actor may go from an operation right through its next one,
// because nobody can tell the difference:
//
//   - the length of processing_list, and what is in it. Whatever comes in between
//     might as well come first; but if it empties the list, the second operation
//     reads nothing and has no effect.
//   - a mover reads the lanes of message_queue one after the other: no account that
//     moves ever waits in the urgent and in the low one.
//   - messages, of which none are kept here, are asked for, and keys are given
//     a time to live, which never ends here.
//   - forgetting a strike after a compensation: only the count changes, and no step
//     depends on it.
func goesOn(o operation, n *node) bool {
	if len(n.options) != 1 || n.options[0].op == nil {
		return false
	}
	next := n.options[0].op[0]
	switch {
	case next[0] == "HDEL":
		return strings.HasSuffix(next[1], "}:strikes")
	case next[0] == "PEXPIRE" || next[0] == "XLEN" || next[0] == "XINFO":
		return true
	case next[0] == "LRANGE" && o[0][0] == "LRANGE":
		return strings.HasSuffix(o[0][1], ":urgent") || strings.HasSuffix(next[1], ":low")
	}
	return o[0][0] == "LLEN" && next[0] == "LRANGE"
}

// rewind puts an actor at the start of its next round.
func (e *explorer) rewind(a *actorState) {
	p := e.actors[a.of]
	if p.renamed || !p.named {
		e.renew(a)
		return
	}
	// Its name is the first token of every node of a named program.
	a.node, a.links = e.nodes.starts[p], a.links[:1]
}
