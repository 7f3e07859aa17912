package message

import (
	"context"
	"errors"
	"strconv"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// replayBudget is the number of dead letters that a call of ReplayGroup puts back.
const replayBudget = 500

// Replayed is the result of a replay.
type Replayed struct {
	Replayed int
	NotFound int    // ids that no dead letter has, or has any more
	NoGroup  int    // letters that stay dead: their group does not exist
	Next     string // the cursor for the next call of ReplayGroup; empty: the replay is complete
}

// ReplayDead puts dead letters back at the end of their streams, for the groups that could
// not handle them. It returns strict.Faults for a text that is not the id of a dead letter.
// Repeating it is safe.
func (r *Reader) ReplayDead(ctx context.Context, ids []string) (Replayed, error) {
	named, err := r.deadEntries(ctx, ids)
	if err != nil {
		return Replayed{}, err
	}
	done := Replayed{NotFound: len(ids) - len(named)}
	known := make(groupsKnown)
	for _, e := range named {
		letter, err := r.deadLetter(ctx, e)
		if err != nil {
			return done, err
		}
		if letter == nil {
			done.NotFound++
			continue
		}
		if err := r.replay(ctx, letter, known, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// ReplayGroup is ReplayDead for all dead letters that a group has when it begins, some at a
// time. If the result has a Next, call it again with that cursor. It returns
// accounts.ErrCursor for a cursor that this ring never returned.
func (r *Reader) ReplayGroup(ctx context.Context, name, cursor string) (done Replayed, err error) {
	known := make(groupsKnown)
	done.Next, err = r.walkGroup(ctx, name, cursor, func(_ int, letters []group.DeadLetter) (enough bool, err error) {
		for i := range letters {
			if err := r.replay(ctx, &letters[i], known, &done); err != nil {
				return false, err
			}
		}
		return done.Replayed >= replayBudget, nil
	})
	return done, err
}

// groupsKnown remembers whether a shard has a group.
type groupsKnown map[string]bool

// replay puts a letter back if its group exists. Other groups skip it: without its group
// the message would be lost.
func (r *Reader) replay(ctx context.Context, l *group.DeadLetter, known groupsKnown, done *Replayed) error {
	key := strconv.Itoa(l.Shard) + " " + l.Group
	there, asked := known[key]
	if !asked {
		_, err := r.ring.Streams().GroupState(ctx, l.Shard, l.Group)
		if err != nil && !errors.Is(err, circulate.ErrNoGroup) {
			return err
		}
		there = err == nil
		known[key] = there
	}
	if !there {
		done.NoGroup++
		return nil
	}
	// Its files must not end between the dead letter's end and the new message.
	if err := r.ring.Files().Again(ctx, l.Account, l.Message.ID); err != nil {
		return err
	}
	position, err := group.Of(r.ring).ReplayDead(ctx, l.Shard, l.Position)
	if err != nil {
		return err
	}
	if position == "" {
		done.NotFound++
	} else {
		done.Replayed++
	}
	return nil
}

// deadLetter returns a dead letter, or nil if there is none at that place.
func (r *Reader) deadLetter(ctx context.Context, e entry) (*group.DeadLetter, error) {
	letters, err := group.Of(r.ring).DeadLetters(ctx, e.shard, e.position.Previous().String(), 1)
	if err != nil || len(letters) == 0 || letters[0].Position != e.position.String() {
		return nil, err
	}
	return &letters[0], nil
}
