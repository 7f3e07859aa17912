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

// A migration brings the stored form of a namespace from one version to the next, in
// small steps, while the service goes on.
//
// A form changes over two versions, so that neighbouring versions can always run side by
// side. The first version reads both forms and writes the old one: its
// circulate.KnownEras is one higher, and it has no step. The second version has the
// [Step]. NS:meta has the progress of the namespace:
//
//	Begin   raises the format and sets needs to the first version, in one step. From then on
//	        programs that do not read the new form are refused, with the version they need.
//	Move    converts each shard, a bounded batch at a time. NS:migration has the progress of
//	        each shard, so that another process can go on from there.
//	End     comes when every shard is done.
//
// A migrator may stop anywhere, any number may work at once, and each may be late by any
// time. A repeated Move converts nothing twice, and a Move after End finds nothing to
// convert. NS:migration only saves work. If it is lost, or if two migrators disagree
// about it, shards are converted again, which changes nothing.
//
// A namespace that is being resharded is not migrated, nor the other way round.

// A Step converts the stored data of all shards of a namespace.
type Step struct {
	// Name belongs to this step for ever: NS:meta has it until the step is over.
	Name string
	// Needs is the first version of rounds that reads the new form, such as v1.4.0.
	// Refused programs name it to their operators.
	Needs string
	// Move converts a bounded batch of a shard, in atomic steps of Redis. It continues
	// from cursor, which is "" at first, and returns the next cursor, or "" when the
	// shard is done. It must not touch data in the new form, so that it may be repeated
	// and may run twice at once.
	Move func(ctx context.Context, ring *Ring, shard int, cursor string) (next string, err error)
}

// Steps returns the steps of this version. The first one is the migration after format 2,
// and so on. There is none yet.
func Steps() []Step { return nil }

// finished is the cursor of a shard that is done. Cursors of steps are stored with a
// colon in front.
const finished = "done"

// turnFor is how long one turn converts.
const turnFor = 200 * time.Millisecond

// State is how far a namespace has been migrated.
type State struct {
	Era    int    // how many migrations have begun
	Name   string // the migration under way; empty: none
	Shards int    // of the namespace
	Done   int    // shards that Name has converted
	Over   bool   // this program has nothing left to do
}

// A Migrator runs the steps of a program.
type Migrator struct {
	ring  *Ring
	steps []Step
}

// Migrator returns a migrator for the steps. The ring must read the form that they write:
// see [Options].
func (r *Ring) Migrator(steps []Step) *Migrator { return &Migrator{r, steps} }

// key returns the Redis key of the HASH: shard -> how far it is.
func (m *Migrator) key() string { return m.ring.wire.Namespace() + ":migration" }

// Turn does a small part of the work, and returns how far the namespace is then. Call it
// again until State.Over. An error leaves everything to the next turn.
func (m *Migrator) Turn(ctx context.Context) (State, error) {
	state, err := m.turn(ctx)
	if err != nil {
		return state, fmt.Errorf("migrate: %w", err)
	}
	return state, nil
}

// turn begins the next migration, converts shards for one that has begun, or ends it.
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
		// The progress that a late earlier migrator has left would make this one skip
		// shards.
		if _, err := m.do(ctx, wire.Command{"DEL", m.key()}); err != nil {
			return state, err
		}
		if _, err := meta.Begin(ctx, era, step.Name, step.Needs); err != nil {
			return state, err
		}
		return state, nil // the next turn reads the new state
	case era > len(m.steps) || m.steps[era-1].Name != name:
		return state, nil // a later version's migration, which that version continues
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
	migratingField = "migrating" // the migration under way
	needsField     = "needs"     // the first version that reads this format
)

// Migration is the state of migrations in NS:meta. [Migrator] runs the steps.
type Migration struct{ ring *Ring }

// Migration returns the state of the namespace's migration.
func (r *Ring) Migration() Migration { return Migration{r} }

// State returns how many migrations have begun since format 2, the name of the one under
// way, or "", and whether the number of shards is being changed.
func (m Migration) State(ctx context.Context) (era int, name string, resharding bool, err error) {
	l, err := m.ring.readLayout(ctx)
	return l.era, l.migrating, l.next > 0 || l.previous > 0, err
}

// Begin begins the migration that follows the first era ones. From then on programs that
// do not read its form are refused, with the version that they need. Begin returns false
// and does nothing if the migration has already begun or the number of shards is being
// changed. Any number of processes may repeat it.
func (m Migration) Begin(ctx context.Context, era int, name, needs string) (bool, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.era != era || l.migrating != "" || l.next > 0 || l.previous > 0 {
		return false, err
	}
	key := metaKey(m.ring.namespace)
	replies, err := m.ring.wire.Pipeline(ctx, key, wire.Command{"HGET", key, needsField})
	if err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}
	becomes := l
	becomes.era, becomes.migrating = era+1, name
	return m.ring.changeMeta(ctx, "migrate", l, becomes, needsField, string(wire.BytesAt(replies, 0)), needs)
}

// End says that a migration is over. It returns false if the migration was over already.
func (m Migration) End(ctx context.Context, name string) (bool, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.migrating != name {
		return false, err
	}
	becomes := l
	becomes.migrating = ""
	return m.ring.changeMeta(ctx, "migrate", l, becomes)
}
