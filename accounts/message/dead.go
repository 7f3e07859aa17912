package message

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

const (
	// MaxDeadIDs is the most dead letters that a call may name.
	MaxDeadIDs = circulate.MaxBatch
	// deadAhead is how many dead letters a step reads, each of which may have
	// 256 KiB.
	deadAhead = 64
)

// DeadQuery says which dead letters are meant.
type DeadQuery struct {
	Limit  int    // 1 to MaxLimit; 0 means Limit
	Cursor string // where the page before ended; empty for the first
	Group  string // only those of this consumer group; empty for all
}

// DeadLetter is a message that a consumer group could not handle. ID names it
// among the dead letters: its shard and its position there.
type DeadLetter struct {
	ID string
	group.DeadLetter
}

// DeadPage is a part of a list of dead letters.
type DeadPage struct {
	Letters []DeadLetter
	Next    string // where to go on; empty: this is the end
}

// Dead returns dead letters, a page at a time: shard by shard, the oldest first.
// With a filter, or where letters are large, a page may have fewer than were asked
// for, or none, and still not be the last. A cursor that this ring never gave is
// cursor.ErrInvalid.
func (r *Reader) Dead(ctx context.Context, q DeadQuery) (DeadPage, error) {
	if q.Limit == 0 {
		q.Limit = Limit
	}
	if q.Limit < 0 || q.Limit > MaxLimit {
		return DeadPage{}, strict.Faults{{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d, is %d", MaxLimit, q.Limit)}}
	}
	at, err := r.deadPlace(q.Cursor)
	if err != nil {
		return DeadPage{}, err
	}
	page := DeadPage{Letters: make([]DeadLetter, 0, min(q.Limit, Limit))}
	for looked, size := 0, 0; at.shard < r.ring.Shards(); {
		if len(page.Letters) >= q.Limit || looked >= lookBudget || size >= pageBytes {
			page.Next = at.seal(r.ring.Shards())
			return page, nil
		}
		// Never more than fit, so that what was looked at is what was given.
		want := min(deadAhead, q.Limit-len(page.Letters))
		letters, err := group.Of(r.ring).DeadLetters(ctx, at.shard, at.behind.String(), want)
		if err != nil {
			return DeadPage{}, err
		}
		for _, l := range letters {
			if q.Group == "" || l.Group == q.Group {
				page.Letters = append(page.Letters, DeadLetter{deadID(l.Shard, l.Position), l})
				size += len(l.Message.Data)
			}
		}
		looked += len(letters)
		if at, err = at.after(letters, want); err != nil {
			return DeadPage{}, err
		}
	}
	return page, nil
}

// DropDead forgets dead letters for good, and reports how many there were. It
// returns strict.Faults for what is no dead letter's id.
func (r *Reader) DropDead(ctx context.Context, ids []string) (dropped int, err error) {
	places, err := parseDeadIDs(ids)
	if err != nil {
		return 0, err
	}
	byShard := make(map[int][]string)
	for _, p := range places {
		if p.shard < r.ring.Shards() {
			byShard[p.shard] = append(byShard[p.shard], p.behind.String())
		}
	}
	for shard, positions := range byShard {
		n, err := group.Of(r.ring).DropDead(ctx, shard, positions...)
		dropped += n
		if err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}
