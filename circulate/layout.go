package circulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// layout is how a namespace is divided, according to its meta.
type layout struct {
	generation int // how often the number of shards was changed
	shards     int // of this generation
	next       int // of the next generation, while accounts move there; 0: they do not
	previous   int // of the generation before, while it is not empty; 0: it is
	skipped    int // how many later generations were aborted

	era       int    // how many migrations were begun since format 2
	migrating string // the migration under way; empty: none
	sends     bool   // sends were queued
}

// division is the shards of one generation.
type division struct{ generation, shards int }

// leaving returns the shards that accounts leave, or none if the number does not change.
func (l layout) leaving() division {
	switch {
	case l.next > 0:
		return division{l.generation, l.shards}
	case l.previous > 0:
		return division{l.generation - 1 - l.skipped, l.previous}
	}
	return division{}
}

// lasting returns the shards that accounts are in or move to.
func (l layout) lasting() division {
	if l.next > 0 {
		return division{l.generation + 1 + l.skipped, l.next}
	}
	return division{l.generation, l.shards}
}

// view is what a process must know of a layout to work with it. The move of the last
// account does not change it.
func (l layout) view() [2]division { return [2]division{l.leaving(), l.lasting()} }

// keys returns the keys of all its shards. The shards that accounts leave come first.
func (l layout) keys(namespace string) []shardKeys {
	var keys []shardKeys
	for _, d := range l.view() {
		for shard := range d.shards {
			keys = append(keys, generationKeys(namespace, d.generation, d.shards, shard))
		}
	}
	return keys
}

func (l layout) validate() error {
	for _, n := range []int{l.shards, max(1, l.next), max(1, l.previous)} {
		if n < 1 || n > MaxShards {
			return fmt.Errorf("its meta says %d shards", n)
		}
	}
	if l.generation < 0 || l.next < 0 || l.previous < 0 || l.next > 0 && l.previous > 0 || l.previous > 0 && l.generation <= l.skipped || l.skipped < 0 {
		return fmt.Errorf("its meta says generation %d, next %d, previous %d, skipped %d", l.generation, l.next, l.previous, l.skipped)
	}
	return nil
}

// metaFields are the fields of NS:meta, in the order of layout.
var metaFields = [...]string{"generation", "shards", "next", "previous", "skipped"}

// values returns the fields as meta has them; empty if absent.
func (l layout) values() [len(metaFields)]string {
	var values [len(metaFields)]string
	for i, n := range [...]int{l.generation, l.shards, l.next, l.previous, l.skipped} {
		if n > 0 {
			values[i] = fmt.Sprint(n)
		}
	}
	return values
}

// plain reports whether the number of shards never changed.
func (l layout) plain() bool {
	return l == layout{shards: l.shards, era: l.era, migrating: l.migrating, sends: l.sends}
}

func (l layout) format() int {
	format := formatResharded + 2*l.era
	if l.plain() {
		format = formatVersion + 2*l.era
	}
	if l.sends {
		format += formatSends
	}
	return format
}

// expectations are a ring's options about the namespaces that it may open.
type expectations struct {
	restoring bool
	existing  bool
	eras      int
}

// Made reports whether a Redis has the namespace. If not, [Open] would make it.
func Made(ctx context.Context, server Server, namespace string) (bool, error) {
	if err := ValidateNamespace(namespace); err != nil {
		return false, fmt.Errorf("%w: namespace %q: %w", wire.ErrInput, namespace, err)
	}
	key := metaKey(namespace)
	replies, err := wire.New(server, namespace, wire.Options{}).Pipeline(ctx, key, wire.Command{"EXISTS", key})
	if err != nil {
		return false, fmt.Errorf("look for namespace %q: %w", namespace, err)
	}
	n, err := redis.Int(replies[0], nil)
	return n > 0, err
}

// agree reads a namespace's meta. If there is none, it makes it as first, unless the
// namespace is expected to exist.
func agree(ctx context.Context, w *wire.Wire, first layout, expected expectations) (layout, error) {
	namespace := w.Namespace()
	key := metaKey(namespace)
	read := wire.Command{"HMGET", key, "format"}
	write := []wire.Command{}
	for i, value := range first.values() {
		read = append(read, metaFields[i])
		if value != "" {
			write = append(write, wire.Command{"HSETNX", key, metaFields[i], value})
		}
	}
	read = append(read, migratingField, needsField, restoringField)
	write = append(write, wire.Command{"HSETNX", key, "format", first.format()}, read)
	replies, err := w.Pipeline(ctx, key, read)
	if err != nil {
		return layout{}, fmt.Errorf("open namespace %q: %w", namespace, err)
	}
	if meta, err := redis.Values(replies[0], nil); err == nil && len(meta) == 4+len(metaFields) && (wire.BytesAt(meta, 0) == nil || wire.BytesAt(meta, 2) == nil) {
		if expected.existing {
			return layout{}, ErrNoNamespace
		}
		if replies, err = w.Pipeline(ctx, key, write...); err != nil {
			return layout{}, fmt.Errorf("open namespace %q: %w", namespace, err)
		}
	}
	meta, err := redis.Values(replies[len(replies)-1], nil)
	if err != nil || len(meta) != 4+len(metaFields) {
		return layout{}, fmt.Errorf("open namespace %q: meta is unreadable: %w", namespace, errors.Join(wire.ErrReply, err))
	}
	if meta[len(meta)-1] != nil && !expected.restoring {
		return layout{}, fmt.Errorf("%w: namespace %q: a backup is being restored into it, or that was interrupted; then remove the namespace and restore again", ErrMismatch, namespace)
	}
	var l layout
	var format int
	for i, into := range [...]*int{&format, &l.generation, &l.shards, &l.next, &l.previous, &l.skipped} {
		if meta[i] == nil {
			continue
		}
		if *into, err = redis.Int(meta[i], nil); err != nil {
			return layout{}, fmt.Errorf("open namespace %q: meta is unreadable: %w", namespace, errors.Join(wire.ErrReply, err))
		}
	}
	stored := format
	if format >= formatSends {
		l.sends, format = true, format-formatSends
	}
	if format < formatVersion || format > formatResharded+2*expected.eras {
		return layout{}, refused(namespace, stored, string(wire.BytesAt(meta, 2+len(metaFields))), expected.eras)
	}
	l.era = (format - formatVersion) / 2
	l.migrating = string(wire.BytesAt(meta, 1+len(metaFields)))
	if err := l.validate(); err != nil {
		return layout{}, fmt.Errorf("%w: namespace %q: %w", ErrMismatch, namespace, err)
	}
	return l, nil
}

// refused returns the error of a namespace's format that the program cannot work with. It
// names the version that can.
func refused(namespace string, format int, needs string, eras int) error {
	newest := formatResharded + 2*eras
	if format < formatVersion {
		return fmt.Errorf("%w: namespace %q has format %d, from before the first release; this program reads formats %d to %d", ErrMismatch, namespace, format, formatVersion, newest)
	}
	if needs == "" {
		needs = "a newer version"
	} else {
		needs = "version " + needs + " or a newer one"
	}
	return fmt.Errorf("%w: namespace %q has format %d, which needs %s of rounds; this program reads formats %d to %d: install that version here as well", ErrMismatch, namespace, format, needs, formatVersion, newest)
}

// readLayout returns the current layout.
func (r *Ring) readLayout(ctx context.Context) (layout, error) {
	return agree(ctx, r.wire, r.layout, r.expected)
}

// keepOut has the format keep out programs that do not know sends, once.
func (r *Ring) keepOut(ctx context.Context) error {
	for !r.sends.Load() {
		l, err := r.readLayout(ctx)
		if err != nil {
			return err
		}
		becomes := l
		becomes.sends = true
		done, err := r.changeMeta(ctx, "queue send", l, becomes) // false if another process has changed it
		if err != nil {
			return err
		}
		if done {
			r.sends.Store(true)
		}
	}
	return nil
}

// Changed reports whether the number of shards has changed, or begun to change, since the
// ring was opened. If so, open the ring again and work with the new one.
func (r *Ring) Changed(ctx context.Context) (bool, error) {
	l, err := r.readLayout(ctx)
	if err != nil {
		return false, err
	}
	if l.view() != r.layout.view() {
		return true, nil
	}
	if l.previous > 0 {
		r.left.Store(true)
	}
	return false, nil
}

// Generation returns how many changes of the number of shards have begun, including the
// one under way.
func (r *Ring) Generation() int { return r.layout.lasting().generation }

// Base returns the generation of the shards that accounts are in or leave, and the last
// aborted generation after it. Both are equal if there is none.
func (r *Ring) Base() (generation, abandoned int) {
	if d := r.layout.leaving(); d.shards > 0 {
		return d.generation, r.layout.lasting().generation - 1
	}
	return r.layout.generation, r.layout.generation + r.layout.skipped
}

// Sources returns how many of the first shards accounts are leaving or have left. It is 0
// if the number of shards does not change.
func (r *Ring) Sources() int { return r.sources }

// Layout names the division that the ring was opened with: its generation and number of
// shards, and during a change also the previous ones. Two rings with the same layout see
// the same shards.
func (r *Ring) Layout() string { return r.layout.name() }

func (l layout) name() string {
	from, to := l.leaving(), l.lasting()
	name := fmt.Sprintf("%d:%d", to.generation, to.shards)
	if from.shards > 0 {
		name = fmt.Sprintf("%d:%d>%s", from.generation, from.shards, name)
	}
	return name
}

// changeCheck is how often a process looks for a change of the number of shards. A look
// costs Redis one command, however many callers wait for the change with a ring.
const changeCheck = time.Second

// changes is the state shared by all callers that wait for a change.
type changes struct {
	mu      sync.Mutex
	asked   time.Time
	changed bool
}

// changedLately is Changed, but asks Redis only if no caller has within most of
// changeCheck.
func (r *Ring) changedLately(ctx context.Context) bool {
	if !r.changes.mu.TryLock() {
		return false // another caller is asking; the next look sees the answer
	}
	defer r.changes.mu.Unlock()
	if !r.changes.changed && time.Since(r.changes.asked) > changeCheck*3/4 {
		changed, err := r.Changed(ctx)
		r.changes.asked, r.changes.changed = time.Now(), err == nil && changed
	}
	return r.changes.changed
}

// awaitChange waits until the ring must be opened again. It returns false when ctx is
// done. After an error it asks again: while Redis is away nothing changes.
func (r *Ring) awaitChange(ctx context.Context) bool {
	tick := time.NewTicker(changeCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if r.changedLately(ctx) {
			return true
		}
	}
}

// Follow runs work with a ring until ctx is done or the work ends. When the number of
// shards changes, it calls open until that returns a new ring, and starts work with it.
// Only then does it cancel the context of the work with the old ring, with the cause
// ErrResharding. That work ends while the new work runs. The first error of the work ends
// everything and is returned.
func Follow(ctx context.Context, ring *Ring, open func(context.Context) (*Ring, error), work func(context.Context, *Ring) error) error {
	return follow(ctx, ring, open, func(ctx context.Context, ring *Ring) error {
		ring.followed.Store(true)
		return work(ctx, ring)
	})
}

// Follow follows changes as the function [Follow] does, and opens the ring again itself. With
// a ring that came from a Follow it only runs work, because that Follow sees to changes.
func (r *Ring) Follow(ctx context.Context, work func(context.Context, *Ring) error) error {
	if r.followed.Load() {
		return work(ctx, r)
	}
	return follow(ctx, r, r.reopen, work)
}

// follow runs work with the ring, and with a newly opened one after each change.
func follow(ctx context.Context, ring *Ring, open func(context.Context) (*Ring, error), work func(context.Context, *Ring) error) error {
	group, ctx := errgroup.WithContext(ctx)
	endBefore := func(error) {}
	for ring != nil {
		with, end := context.WithCancelCause(ctx)
		watch, ended := context.WithCancel(with)
		current := ring
		group.Go(func() error {
			defer ended()
			return work(with, current)
		})
		endBefore(ErrResharding) // only now, so that accounts that are due in between are checked
		endBefore = end
		ring = nil
		if current.awaitChange(watch) {
			ring = openAgain(watch, open)
		}
	}
	err := group.Wait()
	endBefore(nil)
	return err
}

// openAgain tries until it succeeds, or returns nil when ctx is done.
func openAgain(ctx context.Context, open func(context.Context) (*Ring, error)) *Ring {
	for ctx.Err() == nil {
		if ring, err := open(ctx); err == nil {
			return ring
		}
		timer := time.NewTimer(changeCheck)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}
