package main

import (
	"fmt"
	"slices"
)

// node is a place in a program at which it waits for its next operation, with what it
// knows there. Its tokens are numbered in the order in which they appear in its key.
type node struct {
	program *program
	name    string // of the replica, in the node's own tokens
	events  []event
	tokens  int // how many it knows
	options []option
}

// option is an operation that may come next, after picks that nobody sees.
type option struct {
	id    int
	picks []int
	op    operation // nil: the round ends without one
	text  string
	known []int // the tokens of the operation, in the order in which they appear
}

// nodes are all places of all programs that were reached so far.
type nodes struct {
	scripts *scripts
	all     []*node
	byKey   map[string]int
	starts  map[*program]int
	options []*option
	memo    map[advance][]arrival
}

func newNodes(s *scripts) *nodes {
	return &nodes{scripts: s, byKey: make(map[string]int), starts: make(map[*program]int), memo: make(map[advance][]arrival)}
}

// arrival is a node, and which token each of its tokens is. Their numbering depends on
// who asks.
type arrival struct {
	node   int
	tokens []int
}

// start returns where a program begins.
func (ns *nodes) start(p *program) (int, error) {
	if id, ok := ns.starts[p]; ok {
		return id, nil
	}
	at, err := ns.reach(p, nameText(1), nil)
	if err != nil {
		return 0, err
	}
	ns.starts[p] = at.node
	return at.node, nil
}

// reach runs a program through events and finds or makes the node where it then is. The
// tokens of the arrival are those of the events.
func (ns *nodes) reach(p *program, name string, events []event) (arrival, error) {
	r, err := replayEvents(p, name, events, ns.scripts)
	if err != nil {
		return arrival{}, err
	}
	if r.stop.done {
		return arrival{node: -1}, nil
	}
	key, order := canonical(r.key(p, name))
	if id, ok := ns.byKey[key]; ok {
		return arrival{id, order}, nil
	}
	// The events of what the program has forgotten go on under numbers that nothing else
	// has.
	forgotten := newLabels()
	own := func(n int) int {
		if at := slices.Index(order, n); at >= 0 {
			return at + 1
		}
		return len(order) + forgotten.label(n)
	}
	n := &node{program: p, name: rewrite(name, own), tokens: len(order)}
	for _, e := range events {
		n.events = append(n.events, event{reply: rewrite(e.reply, own), pick: e.pick})
	}
	if err := ns.expand(n, nil); err != nil {
		return arrival{}, err
	}
	id := len(ns.all)
	ns.all = append(ns.all, n)
	ns.byKey[key] = id
	return arrival{id, order}, nil
}

// expand finds the operations that may come next.
func (ns *nodes) expand(n *node, picks []int) error {
	events := slices.Clone(n.events)
	for _, p := range picks {
		events = append(events, event{pick: p})
	}
	r, err := replayEvents(n.program, n.name, events, ns.scripts)
	if err != nil {
		return err
	}
	for i := range r.stop.picks {
		if err := ns.expand(n, append(slices.Clone(picks), i)); err != nil {
			return err
		}
	}
	if r.stop.picks > 0 {
		return nil
	}
	o := option{id: len(ns.options), picks: picks, op: r.stop.op}
	if o.op != nil {
		o.text = o.op.String()
		o.known = tokens(o.text)
		for _, t := range o.known {
			if t > n.tokens {
				return fmt.Errorf("%s: %q needs what the program said it would not", n.program.name, r.label)
			}
		}
	}
	n.options = append(n.options, o)
	ns.options = append(ns.options, &o)
	return nil
}

// advance is a question: where does an option lead, with this reply? The reply's tokens
// have the node's own numbers if the node knows them, and otherwise numbers from outsider
// on.
type advance struct {
	node, option, reply int
	known               [maxTokens]int16
}

const (
	maxTokens = 24
	outsider  = 500 // three digits, so that it fits into a name
)

// follow answers it. The tokens of the arrival are numbered as in the question.
func (ns *nodes) follow(a advance, o *option, replyText string) ([]arrival, error) {
	if at, ok := ns.memo[a]; ok {
		return at, nil
	}
	n := ns.all[a.node]
	events := slices.Clone(n.events)
	for _, p := range o.picks {
		events = append(events, event{pick: p})
	}
	if o.op != nil {
		order := tokens(replyText)
		text := rewrite(replyText, func(t int) int { return int(a.known[slices.Index(order, t)]) })
		events = append(events, event{reply: text, pick: -1})
	}
	all, err := ns.reachAll(n.program, n.name, events)
	if err != nil {
		return nil, err
	}
	ns.memo[a] = all
	return all, nil
}

// reachAll is reach, and follows each pick of eager programs.
func (ns *nodes) reachAll(p *program, name string, events []event) ([]arrival, error) {
	if p.eager {
		r, err := replayEvents(p, name, events, ns.scripts)
		if err != nil {
			return nil, err
		}
		if r.stop.picks > 0 {
			var all []arrival
			for i := range r.stop.picks {
				picked, err := ns.reachAll(p, name, append(slices.Clone(events), event{pick: i}))
				if err != nil {
					return nil, err
				}
				all = append(all, picked...)
			}
			return all, nil
		}
	}
	at, err := ns.reach(p, name, events)
	return []arrival{at}, err
}
