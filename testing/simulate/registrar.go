package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// registrar registers, changes, pauses, resumes, nudges and deregisters accounts at
// random. From the answers it computes what must be registered.
type registrar struct {
	registry *accounts.Registry
	random   *rand.Rand
	held     int // see plan
	violated func(format string, args ...any)
	journal  *replicas.Journal

	mu      sync.Mutex
	ids     []string
	beliefs map[string]belief
	touched map[string]time.Time // when an account was last changed
	deleted map[string]time.Time // when an account may last have been deregistered
	lives   int
	counts  struct{ ok, refused, unknown int }
}

func newRegistrar(w *replicas.World, l *replicas.Link, up *upstream, p plan, violated func(string, ...any)) (*registrar, error) {
	ring, err := w.Open(context.Background(), l)
	if err != nil {
		return nil, err
	}
	kinds, err := poller.NewCheckers(checker{up, l})
	if err != nil {
		return nil, err
	}
	r := &registrar{registry: accounts.NewRegistry(ring, kinds), random: rand.New(rand.NewPCG(p.seed, 2)), held: p.held, violated: violated, journal: w.Journal,
		beliefs: make(map[string]belief), touched: make(map[string]time.Time), deleted: make(map[string]time.Time)}
	for i := range p.accounts {
		id := fmt.Sprintf("account-%02d", i)
		r.ids, r.beliefs[id] = append(r.ids, id), belief{{}}
	}
	return r, nil
}

// intervals are the cadences, in seconds. 0 is the tight ring's; most accounts do not
// have it, because nothing else would happen.
func intervals() []int { return []int{5, 15, 30, 60, 60, 120, 300} }

// account returns a new record of an account.
func (r *registrar) account(id string) accounts.Account {
	r.lives++
	lane := []string{"", "", "urgent", "low"}[text(id)%4]
	every := intervals()[r.random.IntN(len(intervals()))]
	s := settings{Life: r.lives, Host: fmt.Sprintf("host%d", text(id)%hosts), Lane: lane, Again: text(id)%3 == 0}
	how := mannerOf(id)
	s.Windowed, s.Doubt = how.windowed, string(how.doubt)
	if r.held > 0 && slices.Index(r.ids, id)%r.held == 0 {
		s.Hold, every = holdOf.Seconds(), 0
	}
	config, err := json.Marshal(s)
	if err != nil {
		panic(err) // a number and two words can always be marshalled
	}
	a := accounts.Account{ID: id, Kind: "sim", Config: config, Priority: lane, Cadence: fmt.Sprintf("every %ds", every)}
	if how.retries {
		a.OnUnknown = accounts.OnUnknownRetry
	}
	return a
}

// run makes a change from time to time until ctx is done.
func (r *registrar) run(ctx context.Context, mean time.Duration) {
	for wait(ctx, time.Duration(r.random.ExpFloat64()*float64(mean))) == nil {
		r.step()
	}
}

// all registers every account.
func (r *registrar) all() {
	for _, id := range r.ids {
		r.create(id)
	}
}

func (r *registrar) step() {
	id := r.ids[r.random.IntN(len(r.ids))]
	switch p := r.random.IntN(20); {
	case p < 4:
		r.create(id)
	case p < 7:
		r.put(id)
	case p < 9:
		err := r.registry.Delete(context.Background(), id)
		r.mu.Lock()
		r.deleted[id] = time.Now()
		r.mu.Unlock()
		r.note(id, "delete", err, deleted)
	case p < 11:
		_, err := r.registry.Pause(context.Background(), id)
		r.note(id, "pause", err, paused)
	case p < 15:
		_, err := r.registry.Resume(context.Background(), id)
		r.note(id, "resume", err, resumed)
	default:
		_, err := r.registry.Nudge(context.Background(), id, accounts.Nudge{
			Within: time.Duration(r.random.IntN(3)) * 5 * time.Second, Hint: []byte(`{"token":"once"}`)})
		if errors.Is(err, accounts.ErrParked) {
			err = nil
		}
		r.note(id, "nudge", err, present)
	}
}

func (r *registrar) create(id string) {
	a := r.account(id)
	record, _ := a.Encode()
	_, err := r.registry.Create(context.Background(), a)
	if errors.Is(err, accounts.ErrExists) {
		r.learn(id, "create: it exists", r.belief(id).all(present))
		return
	}
	r.note(id, "create", err, created(string(record)))
}

func (r *registrar) put(id string) {
	a := r.account(id)
	record, _ := a.Encode()
	_, outcome, err := r.registry.Put(context.Background(), a)
	if err == nil && outcome == circulate.Created {
		r.note(id, "put: created", nil, created(string(record)))
		return
	}
	if err == nil {
		r.learn(id, "put: it exists", r.belief(id).all(present))
	}
	r.note(id, "put", err, put(string(record)))
}

func (r *registrar) belief(id string) belief {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beliefs[id]
}

// note records the outcome of a change. Only an answer counts: after any other error the
// change may have been done.
func (r *registrar) note(id, what string, err error, change func(state) (state, bool)) {
	before := r.belief(id)
	switch {
	case err == nil:
		r.counts.ok++
		r.learn(id, what, before.all(change))
	case errors.Is(err, accounts.ErrNotFound):
		// After a change that was done without an acknowledgement, this may also be about
		// its result. Nobody else deletes.
		r.counts.refused++
		r.learn(id, what+": not found", before.all(absent))
	default:
		r.counts.unknown++
		r.learn(id, what+": unknown", before.perhaps(change))
	}
}

// learn replaces a belief. If no state is left, the answer is impossible.
func (r *registrar) learn(id, what string, b belief) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(b) == 0 {
		r.violated("I5: %s of %q cannot be: it was %v", what, id, r.beliefs[id])
		return
	}
	r.beliefs[id], r.touched[id] = b, time.Now()
	r.journal.Write("registrar: %s: %s", id, what)
}

// deletedSince reports whether an account may have been deregistered since a time.
func (r *registrar) deletedSince(id string, then time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.deleted[id].Before(then)
}

// touchedSince reports whether an account was changed since a time.
func (r *registrar) touchedSince(id string, then time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.touched[id].Before(then)
}
