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
	// deadAhead is the number of dead letters that a step reads, each of up to 256 KiB.
	deadAhead = 64
)

// DeadQuery says which dead letters Dead returns.
type DeadQuery struct {
	Limit  int    // 1 to MaxLimit; 0 means Limit
	Cursor string // Next of the page before; empty: the first page
	Group  string // only those of this consumer group; empty: all
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
	Next    string // the next page's Cursor; empty: this page is the last
}

// Dead returns dead letters, a page at a time: shard by shard, the oldest first. With a
// filter, or if letters are large, a page may have fewer letters than asked for, or none,
// and still not be the last. Dead returns strict.Faults for a limit that is not valid, and
// cursor.ErrInvalid for a cursor that this ring never returned.
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
		// Never more than fit, so that every letter that was read is on the page or filtered out.
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

// DropDead removes dead letters for good, and returns how many it removed. It returns
// strict.Faults for a text that is not the id of a dead letter.
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
