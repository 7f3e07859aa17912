package message

import (
	"context"
	"errors"
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

// ErrNoDead reports a dead letter that does not exist, or no longer does.
var ErrNoDead = errors.New("message: no such dead letter")

// DeadQuery says which dead letters Dead returns.
type DeadQuery struct {
	Limit  int    // 1 to MaxLimit; 0 means Limit
	Cursor string // the previous page's Next; empty: the first page
	Group  string // only letters of this consumer group; empty: all
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

// Dead returns dead letters, a page at a time: shard by shard, the oldest first. With a filter, or
// if letters are large, a page may have fewer letters than asked for, or none, and still not be the
// last. It returns strict.Faults for an invalid limit, and accounts.ErrCursor for a cursor that this
// ring never returned.
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
	counts, err := group.Of(r.ring).DeadCounts(ctx)
	if err != nil {
		return DeadPage{}, err
	}
	page := DeadPage{Letters: make([]DeadLetter, 0, min(q.Limit, Limit))}
	for looked, size := 0, 0; at.shard < r.ring.Shards(); {
		if len(page.Letters) >= q.Limit || looked >= lookBudget || size >= pageBytes {
			page.Next = at.seal(r.ring.Shards())
			return page, nil
		}
		if counts[at.shard] == 0 { // most shards have none, and this saves a round trip for each
			at = deadPlace{shard: at.shard + 1, until: at.until}
			continue
		}
		// It reads no more letters than fit, so that every letter that was read is on the page or
		// filtered out.
		want := min(deadAhead, q.Limit-len(page.Letters))
		letters, err := group.Of(r.ring).DeadLetters(ctx, at.shard, at.behind.String(), want)
		if err != nil {
			return DeadPage{}, err
		}
		for _, l := range letters {
			if q.Group == "" || l.Group == q.Group {
				page.Letters = append(page.Letters, DeadLetter{r.ring.ShardName(l.Shard).Handle(l.Position), l})
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

// DeadCount returns how many dead letters there are, of all groups.
func (r *Reader) DeadCount(ctx context.Context) (total int, err error) {
	counts, err := group.Of(r.ring).DeadCounts(ctx)
	for _, n := range counts {
		total += n
	}
	return total, err
}

// DeadLetter returns the dead letter with an id. It returns ErrNoDead if there is none, and
// strict.Faults for a text that is not the id of a dead letter.
func (r *Reader) DeadLetter(ctx context.Context, id string) (DeadLetter, error) {
	named, err := r.deadEntries(ctx, []string{id})
	if err != nil {
		return DeadLetter{}, err
	}
	var letter *group.DeadLetter
	if len(named) > 0 {
		letter, err = r.deadLetter(ctx, named[0])
	}
	if err != nil {
		return DeadLetter{}, err
	}
	if letter == nil {
		return DeadLetter{}, fmt.Errorf("%w: %q", ErrNoDead, id)
	}
	return DeadLetter{id, *letter}, nil
}

// DropDead removes dead letters for good, and returns how many it removed. It returns
// strict.Faults for a text that is not the id of a dead letter.
func (r *Reader) DropDead(ctx context.Context, ids []string) (dropped int, err error) {
	named, err := r.deadEntries(ctx, ids)
	if err != nil {
		return 0, err
	}
	byShard := make(map[int][]string)
	for _, e := range named {
		byShard[e.shard] = append(byShard[e.shard], e.position.String())
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

// dropBudget is the number of dead letters that a call of DropGroup removes.
const dropBudget = 1000

// Dropped is the result of dropping the dead letters of a group.
type Dropped struct {
	Dropped int
	Next    string // the cursor for the next call of DropGroup; empty: all are dropped
}

// DropGroup is DropDead for all dead letters that a group has when it begins, some at a
// time. If the result has a Next, call it again with that cursor. It returns
// accounts.ErrCursor for a cursor that this ring never returned.
func (r *Reader) DropGroup(ctx context.Context, name, cursor string) (done Dropped, err error) {
	done.Next, err = r.walkGroup(ctx, name, cursor, func(shard int, letters []group.DeadLetter) (enough bool, err error) {
		positions := make([]string, len(letters))
		for i := range letters {
			positions[i] = letters[i].Position
		}
		n, err := group.Of(r.ring).DropDead(ctx, shard, positions...)
		done.Dropped += n
		return done.Dropped >= dropBudget, err
	})
	return done, err
}

// DeadChoice selects dead letters: by their ids, or all of a group.
type DeadChoice struct {
	IDs    []string `strict:"ids"`
	Group  string   `strict:"group"`
	Cursor string   `strict:"cursor"` // with a group: the previous call's Next; empty: begin
}

// DecodeDeadChoice reads a choice strictly:
//
//	{"ids": ["12:1767225600000-0"]} or {"group": "crm"}
//
// It returns every fault at once, as Faults.
func DecodeDeadChoice(text []byte) (DeadChoice, error) {
	c, faults := deadChoiceDecoder.Decode(text)
	if len(faults) == 0 {
		faults = c.faults()
	}
	return c, faults.Err()
}

var deadChoiceDecoder = strict.NewDecoder[DeadChoice]("this choice")

func (c DeadChoice) faults() strict.Faults {
	var faults strict.Faults
	switch {
	case c.Group != "" && len(c.IDs) > 0:
		faults.Add("ids", "must not be given together with group")
	case c.Group != "":
		if err := circulate.ValidateGroup(c.Group); err != nil {
			faults.Add("group", err.Error())
		}
	case c.Cursor != "":
		faults.Add("cursor", "must be given together with group only")
	case len(c.IDs) == 0:
		faults.Add("ids", "must be given, or else group")
	}
	return faults
}
