package circulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// A migration brings what a namespace keeps in Redis from one form to the next, in small
// steps, while the service goes on.
//
// A form changes over two versions, so that neighbouring versions can always run side by
// side. The first one reads both forms, and writes the old one: its circulate.KnownEras
// is one more, and it has no step. The second one has the [Step]. NS:meta has how far the
// namespace is:
//
//	Begin   format is raised, and needs names the first version, in one step. From then on
//	        programs that do not read the new form are refused, and told that version.
//	Move    each shard is converted, a bounded batch at a time. How far a shard is stands in
//	        NS:migration, so that another process goes on from there.
//	End     every shard is done.
//
// A migrator may stop anywhere, any number may work at once, and each may be late by any
// time: a Move that is repeated converts nothing twice, and one that comes after End finds
// nothing to convert. NS:migration only saves work. If it is lost, or if two migrators
// disagree about it, shards are converted again, which changes nothing.
//
// A namespace that is being resharded is not migrated, nor the other way round.

// A Step converts what all shards of a namespace keep.
type Step struct {
	// Name is the step's own for ever: NS:meta has it while the step is not over.
	Name string
	// Needs is the first version of rounds that reads the new form, such as v1.4.0. It is
	// what programs that are refused tell their operators.
	Needs string
	// Move converts a bounded batch of a shard, in atomic steps of Redis. It begins after
	// what cursor says, which is "" at first, and returns the next cursor, or "" if the
	// shard is done. It must do nothing to what is in the new form, so that it may be
	// repeated and may run twice at once.
	Move func(ctx context.Context, ring *Ring, shard int, cursor string) (next string, err error)
}

// Steps returns the steps of this version: the first one is the migration after format 2,
// and so on. There is none yet.
func Steps() []Step { return nil }

// finished is the cursor of a shard that is done. Cursors of steps are kept with a colon in
// front of them.
const finished = "done"

// turnFor is how long a turn goes on with moving.
const turnFor = 200 * time.Millisecond

// State is how far a namespace has come.
type State struct {
	Era    int    // how many migrations were begun
	Name   string // the one that is not over; empty: none
	Shards int    // of the namespace
	Done   int    // shards that were converted, of Name
	Over   bool   // nothing is left to do for this program
}

// A Migrator makes the steps of a program.
type Migrator struct {
	ring  *Ring
	steps []Step
}

// Migrator returns a migrator for the steps. The ring must read what they write: see [Options].
func (r *Ring) Migrator(steps []Step) *Migrator { return &Migrator{r, steps} }

// key returns the Redis key of the HASH: shard -> how far it is.
func (m *Migrator) key() string { return m.ring.wire.Namespace() + ":migration" }

// Turn does a small part of what is to be done, and returns how far the namespace is then.
// Call it again until State.Over. An error leaves everything to the next turn.
func (m *Migrator) Turn(ctx context.Context) (State, error) {
	state, err := m.turn(ctx)
	if err != nil {
		return state, fmt.Errorf("migrate: %w", err)
	}
	return state, nil
}

func (m *Migrator) turn(ctx context.Context) (State, error) {
	meta := m.ring.Migration()
	era, name, resharding, err := meta.State(ctx)
	state := State{Era: era, Name: name, Shards: m.ring.Shards()}
	switch {
	case err != nil:
		return state, err
	case name == "" && era >= len(m.steps):
		state.Over = true
		return state, nil
	case resharding:
		return state, nil
	case name == "":
		step := m.steps[era]
		// What an earlier migrator that is late has left would have shards passed over.
		if _, err := m.do(ctx, wire.Command{"DEL", m.key()}); err != nil {
			return state, err
		}
		if _, err := meta.Begin(ctx, era, step.Name, step.Needs); err != nil {
			return state, err
		}
		return state, nil // the next turn reads what is so now
	case era > len(m.steps) || m.steps[era-1].Name != name:
		return state, nil // a later version's, which goes on with it
	}
	if state.Done, err = m.move(ctx, m.steps[era-1]); err != nil || state.Done < state.Shards {
		return state, err
	}
	if _, err := meta.End(ctx, name); err != nil {
		return state, err
	}
	_, err = m.do(ctx, wire.Command{"DEL", m.key()})
	return state, err
}

// move converts for a while, and returns how many shards are done.
func (m *Migrator) move(ctx context.Context, step Step) (done int, err error) {
	replies, err := m.do(ctx, wire.Command{"HGETALL", m.key()})
	if err != nil {
		return 0, err
	}
	far, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return 0, errors.Join(wire.ErrReply, err)
	}
	began := time.Now()
	for shard := range m.ring.Shards() {
		field := step.Name + ":" + strconv.Itoa(shard)
		at := far[field]
		for at != finished {
			if time.Since(began) > turnFor {
				return done, nil
			}
			cursor := ""
			if at != "" {
				cursor = at[1:]
			}
			next, err := step.Move(ctx, m.ring, shard, cursor)
			if err != nil {
				return done, fmt.Errorf("%s, shard %d: %w", step.Name, shard, err)
			}
			if at = ":" + next; next == "" {
				at = finished
			}
			if _, err := m.do(ctx, wire.Command{"HSET", m.key(), field, at}); err != nil {
				return done, err
			}
		}
		done++
	}
	return done, nil
}

func (m *Migrator) do(ctx context.Context, commands ...wire.Command) ([]any, error) {
	return m.ring.wire.Pipeline(ctx, m.key(), commands...)
}

// Fields of NS:meta for migrations.
const (
	migratingField = "migrating" // the migration that is not over
	needsField     = "needs"     // the first version that reads this format
)

// Migration is what NS:meta says about migrations. [Migrator] makes the steps.
type Migration struct{ ring *Ring }

// Migration returns the state of the namespace's migration.
func (r *Ring) Migration() Migration { return Migration{r} }

// State returns how many migrations were begun since format 2, the name of the one that is
// not over, or "", and whether the number of shards is being changed.
func (m Migration) State(ctx context.Context) (era int, name string, resharding bool, err error) {
	l, err := m.ring.readLayout(ctx)
	return l.era, l.migrating, l.next > 0 || l.previous > 0, err
}

// Begin begins the migration after the first era ones. From then on programs that do not
// read its form are refused, and are told the version that they need. It returns false, and
// does nothing, if it was begun or if the number of shards is being changed. It is safe to
// repeat, by any number of processes.
func (m Migration) Begin(ctx context.Context, era int, name, needs string) (bool, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.era != era || l.migrating != "" || l.next > 0 || l.previous > 0 {
		return false, err
	}
	becomes := l
	becomes.era, becomes.migrating = era+1, name
	return m.change(ctx, l, becomes, needsField, needs)
}

// End says that a migration is over. It returns false if it was over already.
func (m Migration) End(ctx context.Context, name string) (bool, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.migrating != name {
		return false, err
	}
	becomes := l
	becomes.migrating = ""
	return m.change(ctx, l, becomes)
}

// change writes meta if its layout is what it was, and another field with it.
func (m Migration) change(ctx context.Context, was, becomes layout, more ...string) (bool, error) {
	key := metaKey(m.ring.namespace)
	args := []any{"format", was.format(), becomes.format(), migratingField, was.migrating, becomes.migrating}
	for i, field := range metaFields {
		args = append(args, field, was.values()[i], becomes.values()[i])
	}
	for i := 0; i+1 < len(more); i += 2 {
		replies, err := m.ring.wire.Pipeline(ctx, key, wire.Command{"HGET", key, more[i]})
		if err != nil {
			return false, fmt.Errorf("migrate: %w", err)
		}
		args = append(args, more[i], string(wire.BytesAt(replies, 0)), more[i+1])
	}
	done, err := redis.Bool(m.ring.wire.Eval(ctx, reshardMetaScript, []string{key}, args))
	if err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}
	return done, nil
}
