package message

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// entryName names a message or a dead letter for as long as the namespace lives. Two shards may have
// entries at the same position, and a change of the number of shards gives their numbers anew.
type entryName struct {
	shard    circulate.ShardName
	position circulate.StreamID
}

// entry is an entry's place in a ring.
type entry struct {
	shard    int
	position circulate.StreamID
}

// errEntry is the fault of a text that is no id.
var errEntry = errors.New("must be an id from a list, such as 12:1767225600000-0")

// placed returns where the named entries are in the ring, without those of shards that are gone. It
// returns ErrResharding if another process has named a shard that this one does not know yet.
func (r *Reader) placed(ctx context.Context, names []entryName) ([]entry, error) {
	entries := make([]entry, 0, len(names))
	newer := false
	for _, n := range names {
		if shard, ok := r.ring.ShardNamed(n.shard); ok {
			entries = append(entries, entry{shard, n.position})
		}
		newer = newer || n.shard.Generation > r.ring.Generation()
	}
	if newer { // or the change was aborted, or the namespace was restored from a backup
		if changed, err := r.ring.Changed(ctx); err != nil || changed {
			return nil, cmp.Or(err, circulate.ErrResharding)
		}
	}
	return entries, nil
}

// parseEntryIDs reads what circulate.ShardName.Handle returns, exactly as it is written. The faults are those of a field.
func parseEntryIDs(field string, ids []string) (names []entryName, faults strict.Faults) {
	for i, id := range ids {
		name, err := parseEntryID(id)
		if err != nil {
			faults.Add(fmt.Sprintf("%s[%d]", field, i), err.Error())
		}
		names = append(names, name)
	}
	return names, faults
}

func parseEntryID(id string) (name entryName, err error) {
	place, position, _ := strings.Cut(id, ":")
	generation, number, later := strings.Cut(place, ".")
	if !later {
		generation, number = "0", place
	}
	name.shard.Generation, err = parseNumber(generation)
	if err == nil {
		name.shard.Number, err = parseNumber(number)
	}
	if err == nil {
		name.position, err = parseStreamID(position)
	}
	if err != nil || later && name.shard.Generation == 0 || name.shard.Number >= circulate.MaxShards {
		return entryName{}, errEntry
	}
	return name, nil
}

// parseNumber reads a number from 0 on, in its only spelling.
func parseNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || strconv.Itoa(n) != text {
		return 0, errEntry
	}
	return n, nil
}

// parseStreamID reads a position in its only spelling.
func parseStreamID(text string) (circulate.StreamID, error) {
	position, err := circulate.ParseStreamID(text)
	if err != nil || position.String() != text {
		return circulate.StreamID{}, errEntry
	}
	return position, nil
}
