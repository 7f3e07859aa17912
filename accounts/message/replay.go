package message

import (
	"context"
	"errors"
	"strconv"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// replayBudget is how many dead letters a call of ReplayGroup puts back.
const replayBudget = 500

// Replayed is what a replay came to.
type Replayed struct {
	Replayed int
	NotFound int    // no dead letter has the id, or not any more
	NoGroup  int    // stay where they are: their group is not there to have them
	Next     string // of ReplayGroup: there may be more; empty: this was the end
}

// ReplayDead puts dead letters back at the end of their streams, for the groups
// that could not handle them. It returns strict.Faults for what is no dead letter's id. It
// is safe to repeat.
func (r *Reader) ReplayDead(ctx context.Context, ids []string) (Replayed, error) {
	places, err := parseDeadIDs(ids)
	if err != nil {
		return Replayed{}, err
	}
	var done Replayed
	known := make(groupsKnown)
	for _, p := range places {
		letter, err := r.deadLetter(ctx, p)
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

// ReplayGroup is ReplayDead of all dead letters that a group has now, some at a
// time: where the answer has a Next, it is to be called again with that cursor.
func (r *Reader) ReplayGroup(ctx context.Context, name, cursor string) (Replayed, error) {
	at, err := r.deadPlace(cursor)
	if err != nil {
		return Replayed{}, err
	}
	if at.until == 0 {
		// Those that die again meanwhile are not for this walk: it would not end.
		now, err := r.ring.Now(ctx, 0)
		if err != nil {
			return Replayed{}, err
		}
		at.until = uint64(now.UnixMilli())
	}
	var done Replayed
	known := make(groupsKnown)
	for looked := 0; at.shard < r.ring.Shards(); {
		if done.Replayed >= replayBudget || looked >= lookBudget {
			done.Next = at.seal(r.ring.Shards())
			return done, nil
		}
		letters, err := group.Of(r.ring).DeadLetters(ctx, at.shard, at.behind.String(), deadAhead)
		if err != nil {
			return done, err
		}
		asked := deadAhead
		for i := range letters {
			if id, err := circulate.ParseStreamID(letters[i].Position); err == nil && id.Ms > at.until {
				letters, asked = letters[:i], deadAhead+1 // the shard ends here
				break
			}
			if letters[i].Group != name {
				continue
			}
			if err := r.replay(ctx, &letters[i], known, &done); err != nil {
				return done, err
			}
		}
		looked += len(letters)
		if at, err = at.after(letters, asked); err != nil {
			return done, err
		}
	}
	return done, nil
}

// groupsKnown is whether a shard has a group, as far as it was asked.
type groupsKnown map[string]bool

// replay puts a letter back unless its group is not there: the others would pass
// it over, and it would be lost.
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

// deadLetter finds a dead letter; nil where there is none.
func (r *Reader) deadLetter(ctx context.Context, p deadPlace) (*group.DeadLetter, error) {
	if p.shard >= r.ring.Shards() {
		return nil, nil
	}
	letters, err := group.Of(r.ring).DeadLetters(ctx, p.shard, p.behind.Previous().String(), 1)
	if err != nil || len(letters) == 0 || letters[0].Position != p.behind.String() {
		return nil, err
	}
	return &letters[0], nil
}
