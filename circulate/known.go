package circulate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Remember says how an account remembers the messages that it found. A message that the
// third party repeats is then a repetition: it is counted, and not written to the stream
// again. The zero value remembers nothing. See section Memory of the package comment.
type Remember struct {
	// Messages is about how many messages are remembered at most. At least half as many
	// are, as long as For says.
	Messages int
	// For is the least time for which a message is remembered. It is forgotten at the
	// latest after four times as long.
	For time.Duration
}

// Judged is what memory had to say about a page.
type Judged struct {
	Repeated int  // messages that were repetitions, and were not written
	Overrun  bool // earlier messages were forgotten before their time, because there were too many
}

// on reports whether anything is remembered.
func (r Remember) on() bool { return r.Messages > 0 && r.For > 0 }

// A mark is a number of markDigits digits below 2^63, from a digest. Redis stores a small
// SET of such numbers in eight bytes each. A message has the mark of another one of 2,000
// that an account remembers in one of 10^15 cases.
const (
	markDigits = 19
	leastMark  = 1_000_000_000_000_000_000
	marks      = 8 * leastMark // how many marks there are
)

// The letters that a mark begins with before it is a digest.
const (
	markOfID      = 'i'
	markOfContent = 'c' // of a message with an id
	markOfBare    = 'n' // of a message without an id
)

// appendMark appends the mark of a text.
func appendMark(b []byte, of byte, text string) []byte {
	sum := sha256.Sum256(append([]byte{of}, text...))
	return strconv.AppendUint(b, leastMark+binary.BigEndian.Uint64(sum[:])%marks, 10)
}

// mostPlain is how many messages a page has at most whose marks are arguments of their own.
// A script looks these up by one command.
const mostPlain = 500

// letter returns a message's letter: see known.lua.
func (m *Message) letter() byte {
	switch {
	case m.Content == "":
		return 'i'
	case m.NoID:
		return 'n'
	}
	return 'b'
}

// plain reports whether all messages of a page have one letter, which is not n, and no two
// the same id.
func plain(page []Message) bool {
	letter, ids := page[0].letter(), make(map[string]struct{}, len(page))
	for i := range page {
		if page[i].letter() != letter {
			return false
		}
		ids[page[i].ID] = struct{}{}
	}
	return letter != 'n' && len(ids) == len(page) && len(page) <= mostPlain
}

// appendPage appends what scripts need to judge a page, as known.lua has it.
func (r Remember) appendPage(args []any, page []Message) []any {
	at, each, isPlain := len(args), 1, plain(page)
	args = append(args, nil, nil, max(1, r.For.Milliseconds()), 0)
	text := append(make([]byte, 0, 1+(1+3*markDigits)*len(page)), 'm')
	if isPlain {
		text[0] = page[0].letter()
		for i := range page {
			args = append(args, appendMark(nil, markOfID, page[i].ID))
		}
	}
	for i := range page {
		m := &page[i]
		letter := m.letter()
		if letter == 'b' {
			each = 2
		}
		switch {
		case !isPlain:
			text = append(text, letter)
			if letter != 'n' {
				text = appendMark(text, markOfID, m.ID)
			}
			if letter != 'i' {
				text = appendMark(appendMark(text, markOfContent, m.Content), markOfBare, m.Content)
			}
		case letter == 'b':
			args = append(args, appendMark(nil, markOfContent, m.Content))
			text = appendMark(text, markOfBare, m.Content)
		}
	}
	args[at], args[at+1], args[at+3] = text, each*max(1, r.Messages/2), len(args)-at-4
	return args
}

// knownKeys returns the two SETs of marks of each of some accounts, in their order: the
// newer and the older ones. An account that remembers nothing has none.
func (k *shardKeys) knownKeys(ids ...string) []string {
	keys := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		keys = append(keys, k.known+id, k.knownBefore+id)
	}
	return keys
}

// runKnowing is wire.Run for a script whose last keys are known keys. One that has the
// wrong type is set aside too.
func (r *Ring) runKnowing(ctx context.Context, s *wire.Script, shard int, keys, known []string, args ...any) (any, error) {
	run := func() (any, error) {
		return r.wire.Run(ctx, s, shard, append(keys[:len(keys):len(keys)], known...), args...)
	}
	if len(known) == 0 {
		return run()
	}
	typed := make([]wire.Key, len(known))
	for i, key := range known {
		typed[i] = wire.Key{key, "set"}
	}
	return wire.Mending(ctx, r.wire, typed, run)
}

// readJudged reads what return says behind its verdict: for each account ;PLACE:REPEATED:OVERRUN.
func readJudged(text string, judged func(place int, j Judged)) error {
	for one := range strings.SplitSeq(strings.TrimPrefix(text, ";"), ";") {
		if one == "" {
			continue
		}
		numbers := strings.Split(one, ":")
		if len(numbers) != 3 {
			return wire.ErrReply
		}
		var n [3]int
		for i, number := range numbers {
			var err error
			if n[i], err = strconv.Atoi(number); err != nil {
				return wire.ErrReply
			}
		}
		judged(n[0], Judged{Repeated: n[1], Overrun: n[2] > 0})
	}
	return nil
}

// readTexts reads texts as depart writes them, each LENGTH:VALUE. It stops at the first
// that it cannot read.
func readTexts(all string) (texts []string) {
	for all != "" {
		length, rest, ok := strings.Cut(all, ":")
		n, err := strconv.Atoi(length)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return texts
		}
		texts, all = append(texts, rest[:n]), rest[n:]
	}
	return texts
}

// knownPage is about how many keys of a node one step looks at.
const knownPage = 500

// remembering returns some ids of accounts that remember messages, by shard, from the node
// that serves a shard. The scan begins with an empty cursor and ends with ScanDone.
func (r *Ring) remembering(ctx context.Context, shard int, cursor string) (ids map[int][]string, next string, err error) {
	if cursor == "" {
		cursor = ScanDone
	}
	key := r.keys[shard].tickets
	replies, err := r.wire.PipelineOn(ctx, wire.Ordinary, shard, key,
		wire.Command{"SCAN", cursor, "MATCH", "{" + r.namespace + ":*}:known*", "COUNT", knownPage})
	if err != nil {
		return nil, "", err
	}
	var found []string
	page, err := redis.Values(replies[0], nil)
	if err == nil {
		_, err = redis.Scan(page, &next, &found)
	}
	if err != nil {
		return nil, "", errors.Join(wire.ErrReply, err)
	}
	shards := make(map[string]int, len(r.keys)) // by the tag of their keys
	for shard := range r.keys {
		shards[r.Tag(shard)] = shard
	}
	ids = make(map[int][]string)
	for _, key := range found {
		tag, name, _ := strings.Cut(key, "}:")
		kind, id, ok := strings.Cut(name, ":")
		if shard, own := shards[tag+"}"]; ok && own && (kind == "known" || kind == "known_before") && !slices.Contains(ids[shard], id) {
			ids[shard] = append(ids[shard], id)
		}
	}
	return ids, next, nil
}

// Remembering reports whether any account remembers messages.
func (a Archive) Remembering(ctx context.Context) (bool, error) {
	for _, shard := range a.ring.OneOfEachNode() {
		for cursor := ""; cursor != ScanDone; {
			ids, next, err := a.ring.remembering(ctx, shard, cursor)
			if err != nil || len(ids) > 0 {
				return len(ids) > 0, err
			}
			cursor = next
		}
	}
	return false, nil
}

var forgetScript = wire.NewScript("forget", lua("forget"))

// unowned finds accounts that remember messages but are not registered. The first shard of
// a node looks at all keys of the node.
func (a *audit) unowned(ctx context.Context) error {
	if !slices.Contains(a.ring.OneOfEachNode(), a.shard) {
		return nil
	}
	for cursor := ""; cursor != ScanDone; {
		ids, next, err := a.ring.remembering(ctx, a.shard, cursor)
		if err != nil {
			return err
		}
		cursor = next
		before := a.repairs
		for _, shard := range slices.Sorted(maps.Keys(ids)) {
			for some := range slices.Chunk(ids[shard], wire.MaxBatch) {
				k := &a.ring.keys[shard]
				strangers, err := redis.Strings(a.ring.wire.Run(ctx, forgetScript, shard, append([]string{k.tickets}, k.knownKeys(some...)...),
					append([]any{wire.Flag(a.o.Repair)}, anyOf(some)...)...))
				if err != nil {
					return err
				}
				for _, id := range strangers {
					a.report(Unowned, id, a.o.Repair)
				}
			}
		}
		if a.repairs == before && (len(ids) > 0 || cursor != ScanDone) { // a few keys cost next to nothing
			if err := a.pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
