package main

import (
	"errors"
	"fmt"
	"slices"
)

// Config is what is explored.
type Config struct {
	Actors       []*program // actors that remember something between two operations
	Surroundings []*program // actors that do not
	Law          law
	Shards       []string             // the tags of their keys; nil: there is one
	Begin        func(s *store) error // writes what Redis holds at first
	Crashes      int                  // at most this many: an actor stops, and a new one takes its place
	Cuts         int                  // at most this many operations end in a cut connection, done or not
	// Changes are the most steps of the surroundings, except the clock's, and rounds of
	// actors whose programs are changes.
	Changes int
	// Remember has every ticket remembered under which a message was written. Without it,
	// a step that makes a ticket current that is neither fresh nor was current before is
	// a fault. Then only current tickets need be remembered.
	Remember   bool
	Mutate     func(text string) (string, error) // changes a script's text
	RestAnyway bool                              // Rest counts whatever failed before
	Replays    int                               // this many states are reached once more, from the start
	MaxStates  int                               // 0: no bound
	Rest       bool                              // the law's strict half must hold too whenever all actors rest
}

func (c *Config) shards() []string {
	if c.Shards == nil {
		return []string{tag}
	}
	return c.Shards
}

// Action is a choice: which actor continues, how, and the outcome.
type Action struct {
	Actor  int // of Config.Actors, then of Config.Surroundings
	Picks  []int
	Turns  int // of the lanes, before it
	Fate   fate
	Op     operation // in the explorer's own tokens
	Option int
	Way    int     // which pick an eager program makes of the reply
	Then   *Action // done at once, because nobody can tell what came in between
}

// fate is the outcome of an operation, and of its actor.
type fate uint8

const (
	done    fate = iota
	cutDone      // Redis does it, and the reply is lost
	cutLost      // Redis never gets it, and the client cannot know that
	crashed      // its actor stops before it
)

func (f fate) String() string {
	return [...]string{"", "reply lost", "request lost", "crashes"}[f]
}

// Result is what a search found.
type Result struct {
	States, Transitions, Depth int
	Snapshots, Operations      int  // different snapshots of Redis, and how many operations were done
	Replayed                   int  // states reached once more by live actors, from the start
	Complete                   bool // nothing within the bounds was left out
	Fault                      string
	Trace                      []Action
	Text                       string // the trace, a line for each choice
}

// explorer is a breadth-first search, so the first fault that it meets has the shortest
// trace.
type explorer struct {
	config  Config
	steps   *steps
	nodes   *nodes
	actors  []*program
	kinds   []int // of each actor, the first of its program
	idle    []actorState
	seen    map[string][]left // by key, what was left
	states  []visited
	result  Result
	scratch []byte
}

type visited struct {
	packed string
	from   int32
	action Action
}

func explore(c Config) (result Result, err error) {
	s := newScripts(c.Mutate)
	st, err := openStore(s, c.shards())
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	e := &explorer{config: c, steps: newSteps(st, c.Law, !c.Remember), nodes: newNodes(s), actors: c.Actors, seen: make(map[string][]left)}
	if err := e.begin(); err != nil {
		return Result{}, err
	}
	depthEnd, depth := len(e.states), 0
	e.result.Complete = true
	for at := 0; at < len(e.states) && e.result.Fault == ""; at++ {
		if at == depthEnd {
			depthEnd = len(e.states)
			depth++
		}
		if c.MaxStates > 0 && len(e.states) > c.MaxStates {
			e.result.Complete = false
			break
		}
		if err := e.expand(at); err != nil {
			return Result{}, fmt.Errorf("%w, behind:\n%s", err, e.describe(e.trace(at)))
		}
	}
	if e.result.Fault != "" {
		e.result.Complete = false
	}
	if err := e.replay(); err != nil {
		return Result{}, err
	}
	e.result.Text = e.describe(e.result.Trace)
	e.result.States, e.result.Depth = len(e.states), depth
	e.result.Snapshots, e.result.Operations = len(e.steps.places), e.steps.done
	return e.result, nil
}

func (e *explorer) begin() error {
	m := e.steps.store.embedded.Miniredis()
	if err := restore(m, e.steps.store.shards, nil, 0); err != nil {
		return err
	}
	if err := e.config.Begin(e.steps.store); err != nil {
		return err
	}
	first, _, err := dump(m)
	if err != nil {
		return err
	}
	s := state{crashes: e.config.Crashes, cuts: e.config.Cuts, changes: e.config.Changes}
	if s.place, _, err = e.steps.enter(first); err != nil {
		return err
	}
	for i, p := range e.actors {
		e.kinds = append(e.kinds, slices.Index(e.actors, p))
		at, err := e.nodes.start(p)
		if err != nil {
			return err
		}
		s.actors = append(s.actors, actorState{of: i, kind: e.kinds[i], node: at, links: e.newName(p, 300+i)})
	}
	for i, p := range e.config.Surroundings {
		at, err := e.nodes.start(p)
		if err != nil {
			return err
		}
		e.idle = append(e.idle, actorState{of: len(e.actors) + i, node: at})
	}
	s.settle(ordinal(e.steps.places[s.place].tokens), e.matters(s.place))
	e.visit(s, -1, Action{})
	return nil
}

// newName is all that an actor knows when it begins: its replica's name.
func (e *explorer) newName(p *program, token int) []int {
	if p.named {
		return []int{token}
	}
	return nil
}

func ordinal(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// visit records a state that is new, and looks for faults in it. A state that was met
// with as much left of every bound, or more, leads nowhere new.
func (e *explorer) visit(s state, from int, a Action) {
	e.result.Transitions++
	e.scratch = s.key(e.scratch)
	had, now := e.seen[string(e.scratch)], s.left()
	if slices.ContainsFunc(had, func(l left) bool { return l.atLeast(now) }) {
		return
	}
	e.seen[string(e.scratch)] = append(had, now)
	e.states = append(e.states, visited{packed: s.pack(e.scratch), from: int32(from), action: a})
	p := &e.steps.places[s.place]
	fault := p.fault
	if fault == "" && p.strict != "" && e.config.Rest && e.rests(&s) {
		fault = p.strict
	}
	if fault != "" {
		e.fault(fault, len(e.states)-1)
	}
}

// rests reports whether all actors are between two rounds and nothing failed before.
func (e *explorer) rests(s *state) bool {
	if !e.config.RestAnyway && (s.crashes < e.config.Crashes || s.cuts < e.config.Cuts) {
		return false
	}
	return e.pausing(s)
}

func (e *explorer) pausing(s *state) bool {
	return !slices.ContainsFunc(s.actors, func(a actorState) bool { return a.node != e.nodes.starts[e.actors[a.of]] })
}

func (e *explorer) fault(text string, at int) {
	if e.result.Fault == "" {
		e.result.Fault, e.result.Trace = text, e.trace(at)
	}
}

func (e *explorer) trace(at int) []Action {
	var all []Action
	for ; e.states[at].from >= 0; at = int(e.states[at].from) {
		all = append(all, e.states[at].action)
	}
	slices.Reverse(all)
	return all
}
