package message

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// deadPlace is how far a walk through dead letters has come: past one of them in a shard. The walk
// leaves out letters later than until, in Unix milliseconds; 0 means no limit.
type deadPlace struct {
	shard  int
	behind circulate.StreamID
	until  uint64
}

// after returns the place after a page for which the given number of letters was asked.
func (p deadPlace) after(page []group.DeadLetter, asked int) (deadPlace, error) {
	if len(page) < asked {
		return deadPlace{shard: p.shard + 1, until: p.until}, nil
	}
	behind, err := circulate.ParseStreamID(page[len(page)-1].Position)
	return deadPlace{p.shard, behind, p.until}, err
}

func (p deadPlace) seal(shards int) string {
	var content []byte
	for _, n := range []uint64{uint64(shards), uint64(p.shard), p.until, p.behind.Ms, p.behind.Seq} {
		content = binary.AppendUvarint(content, n)
	}
	return accounts.SealCursor(accounts.CursorDead, content)
}

// deadPlace reads a cursor. An empty one is the beginning.
func (r *Reader) deadPlace(text string) (deadPlace, error) {
	if text == "" {
		return deadPlace{}, nil
	}
	content, err := accounts.UnsealCursor(accounts.CursorDead, text)
	if err != nil {
		return deadPlace{}, err
	}
	var numbers [5]uint64
	for i := range numbers {
		n, size := binary.Uvarint(content)
		if size <= 0 {
			return deadPlace{}, fmt.Errorf("%w: it names no place", accounts.ErrCursor)
		}
		numbers[i], content = n, content[size:]
	}
	if numbers[0] != uint64(r.ring.Shards()) || numbers[1] >= numbers[0] || len(content) > 0 {
		return deadPlace{}, fmt.Errorf("%w: it is of a ring with another number of shards", accounts.ErrCursor)
	}
	return deadPlace{shard: int(numbers[1]), until: numbers[2], behind: circulate.StreamID{Ms: numbers[3], Seq: numbers[4]}}, nil
}

// deadBegin is deadPlace for a walk that changes letters. From its beginning the walk leaves out
// letters that die again meanwhile, or it might never end.
func (r *Reader) deadBegin(ctx context.Context, text string) (deadPlace, error) {
	at, err := r.deadPlace(text)
	if err != nil || at.until > 0 {
		return at, err
	}
	now, err := r.ring.Now(ctx, 0)
	at.until = uint64(max(1, now.UnixMilli()))
	return at, err
}

// deadBefore returns the next letters of a walk in its shard, and how many were asked
// for, which deadPlace.after needs.
func (r *Reader) deadBefore(ctx context.Context, at deadPlace) (letters []group.DeadLetter, asked int, err error) {
	letters, err = group.Of(r.ring).DeadLetters(ctx, at.shard, at.behind.String(), deadAhead)
	for i := range letters {
		if id, err := circulate.ParseStreamID(letters[i].Position); err == nil && id.Ms > at.until {
			return letters[:i], deadAhead + 1, nil // the shard ends here
		}
	}
	return letters, deadAhead, err
}

// walkGroup walks through the dead letters that a group has when the walk begins, and passes them to
// a function, those of a shard together, until that has done enough. It returns the cursor from
// which another call goes on, or nothing at the end.
func (r *Reader) walkGroup(ctx context.Context, name, cursor string, do func(shard int, letters []group.DeadLetter) (enough bool, err error)) (next string, err error) {
	at, err := r.deadBegin(ctx, cursor)
	if err != nil {
		return "", err
	}
	enough := false
	for looked := 0; at.shard < r.ring.Shards(); {
		if enough || looked >= lookBudget {
			return at.seal(r.ring.Shards()), nil
		}
		letters, asked, err := r.deadBefore(ctx, at)
		if err != nil {
			return "", err
		}
		looked += len(letters)
		behind, err := at.after(letters, asked)
		if err != nil {
			return "", err
		}
		of := slices.DeleteFunc(letters, func(l group.DeadLetter) bool { return l.Group != name })
		if enough, err = do(at.shard, of); err != nil {
			return "", err
		}
		at = behind
	}
	return "", nil
}

// deadEntries returns the places of the dead letters with ids, or Faults.
func (r *Reader) deadEntries(ctx context.Context, ids []string) ([]entry, error) {
	names, faults := parseEntryIDs("ids", ids)
	if len(ids) == 0 {
		faults.Add("ids", "must not be empty")
	}
	if len(ids) > MaxDeadIDs {
		faults = strict.Faults{{Field: "ids", Reason: fmt.Sprintf("must be at most %d, are %d", MaxDeadIDs, len(ids))}}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return r.placed(ctx, names)
}
