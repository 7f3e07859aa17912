package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// program is what an actor does in one round; then it begins again. It must be
// deterministic: what it does next depends only on the replies that it got and on what it
// picked.
type program struct {
	name  string
	named bool // its replica's name is one of the tokens
	// eager programs pick as soon as they can, so that they need not remember what they
	// did not pick.
	eager   bool
	changes bool // each of its steps counts against Config.Changes
	// renamed programs are another replica in each round.
	renamed bool
	// meta is how the namespace was divided when the program's ring was opened; nil if it
	// has one shard.
	meta map[string]string
	// forgets returns, for an operation that comes next, that from now on only live
	// matters of everything that the program was told since at.
	forgets func(label string, do []string, last string, now operation) (live []string, ok bool)
	run     func(a *actor) error
}

// actor is one run of a program.
type actor struct {
	ring   *circulate.Ring
	server *server
	name   string // of the replica
	driver driver
	shard  int // that it works on
}

// driver decides, for a program under way, when it continues and with what.
type driver interface {
	holder
	pick(n int) int
	at(label string, live []string)
}

// pick chooses one of n ways to go on.
func (a *actor) pick(n int) int { return a.driver.pick(n) }

// at says where the program is, and that it needs only live of what it was told before.
// States that agree in that count as one.
func (a *actor) at(label string, live ...string) { a.driver.at(label, live) }

// newActor makes an actor with a ring of its own, as a process has.
func newActor(name string, meta map[string]string, d driver, s *scripts) (*actor, error) {
	o, fields := circulate.Options{}, maps.Clone(meta)
	if meta == nil {
		o.Shards, fields = 1, make(map[string]string)
	}
	opening := &server{holder: opened{fields}, scripts: s}
	ring, err := circulate.Open(context.Background(), opening, o)
	if err != nil {
		return nil, err
	}
	opening.holder = d
	return &actor{ring: ring, server: opening, name: name, driver: d}, nil
}

// opened answers what a ring asks when it is opened: the namespace is as the ring expects
// it.
type opened struct{ fields map[string]string }

func (o opened) step(op operation) string {
	c := op[0]
	switch c[0] {
	case "HSETNX":
		o.fields[c[2]] = c[3]
		return `[{"i":1}]`
	case "HMGET":
		var all []string
		for _, field := range c[2:] {
			if value, ok := o.fields[field]; ok {
				all = append(all, fmt.Sprintf(`{"b":%q}`, value))
			} else {
				all = append(all, `{}`)
			}
		}
		return `[{"a":[` + strings.Join(all, ",") + `]}]`
	}
	return `[{"i":1}]`
}

// event is what a program was told: the reply to an operation, or a pick.
type event struct {
	reply string
	pick  int // -1: it is a reply
}

func (e event) String() string {
	if e.pick >= 0 {
		return "pick " + strconv.Itoa(e.pick)
	}
	return e.reply
}

// pending is where a run stops.
type pending struct {
	op    operation // the next operation, or nil
	picks int       // or this many ways to continue
	done  bool      // or the end of the round
}

// playback runs a program through what it was told once before, and stops where that
// ends. It uses no Redis.
type playback struct {
	events []event
	next   int
	stop   pending

	label string // the last label passed to at
	live  []string
	since int // how many events came before that

	program *program
	scripts *scripts
	base    string   // the last label that the program itself passed
	did     []string // names of the scripts that it did since
}

type stopped struct{}

func (r *playback) step(o operation) string {
	if r.program.forgets != nil {
		last := ""
		if r.next > 0 {
			last = r.events[r.next-1].reply
		}
		name := r.scripts.name(o)
		if live, ok := r.program.forgets(r.base, append(r.did, name), last, o); ok {
			r.label, r.live, r.since = r.base+" "+name+o[0][0], live, r.next
		}
		if name != "" {
			r.did = append(r.did, name)
		}
	}
	if r.next == len(r.events) {
		r.stop = pending{op: o}
		panic(stopped{})
	}
	r.next++
	return r.events[r.next-1].reply
}

func (r *playback) pick(n int) int {
	if r.next == len(r.events) {
		r.stop = pending{picks: n}
		panic(stopped{})
	}
	r.next++
	return r.events[r.next-1].pick
}

func (r *playback) at(label string, live []string) {
	r.label, r.live, r.since = label, live, r.next
	r.base, r.did = label, nil
}

// replayEvents runs a program through events.
func replayEvents(p *program, name string, events []event, s *scripts) (r *playback, err error) {
	r = &playback{events: events, program: p, scripts: s}
	a, err := newActor(name, p.meta, r, s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if thrown := recover(); thrown != nil {
			if _, ok := thrown.(stopped); !ok {
				panic(thrown)
			}
		}
	}()
	if err := p.run(a); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	r.stop = pending{done: true}
	return r, nil
}

// key identifies this stopping place: the program, where it is, what it still needs, and
// what it was told since.
func (r *playback) key(p *program, name string) string {
	parts := []string{p.name}
	if p.named {
		parts = append(parts, name)
	}
	parts = append(parts, r.label)
	parts = append(parts, r.live...)
	for _, e := range r.events[r.since:] {
		parts = append(parts, e.String())
	}
	return strings.Join(parts, record)
}
