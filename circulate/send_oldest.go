package circulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var orderSendScript = wire.NewScript("order send", lua("sends"), lua("send_order"))

// SendPlaceLength is how many bytes a place in the order of [Sends.Oldest] has.
const SendPlaceLength = stampWidth + SendIDLength

// inOrder is a send's place in the order of time, and the shard that has it.
type inOrder struct {
	place string // when, and its id
	shard int
}

// Oldest returns up to n sends of a group, of one account or, with "", of all in all
// shards, the oldest first: by when they were queued, and those that have ended by when
// they did. It goes on behind the place that the call before returned; "" is the start, and
// "" comes back at the end. There may be fewer than n before the end.
//
// A place is behind all sends that were returned and before all others, also while the
// number of shards changes. So a walk returns each send once that stays in the group. One
// that enters it during the walk is returned if its time is behind the place.
func (s Sends) Oldest(ctx context.Context, group SendGroup, account, behind string, n int) (sends []Send, next string, err error) {
	if err := wire.CheckBatch("oldest sends", n); err != nil {
		return nil, "", err
	}
	if behind != "" && len(behind) != SendPlaceLength {
		return nil, "", fmt.Errorf("%w: oldest sends: no place has %d bytes", wire.ErrInput, len(behind))
	}
	left, target, err := s.mayHave(ctx, account)
	if err != nil {
		return nil, "", err
	}
	if behind == "" && account == "" {
		if err := s.order(ctx, group, slices.Concat(left, target)); err != nil {
			return nil, "", err
		}
	}
	prefix, to := "t"+string(group), "(t"+string(group+1)
	if account != "" {
		prefix, to = string(group)+account+"\x00", "("+string(group)+account+"\x01"
	}
	from := "[" + prefix
	if behind != "" {
		from = "(" + prefix + behind
	}
	// Few of the sends of each of many shards come first.
	some := min(n, 2*n/max(1, len(left)+len(target))+16)
	head := func(shard int) wire.Command {
		return wire.Command{"ZRANGEBYLEX", s.ring.keys[shard].outbox.index, from, to, "LIMIT", 0, some}
	}
	var all []inOrder
	last := "" // not empty: sends behind this place are not known
	for i, shards := range [][]int{left, target} {
		if i > 0 { // an account that moved meanwhile is in its new shard, and not on its way
			if err := s.arrived(ctx, left); err != nil {
				return nil, "", err
			}
		}
		heads, err := s.each(ctx, "oldest sends", shards, head)
		if err != nil {
			return nil, "", err
		}
		for k, reply := range heads {
			members, err := redis.Strings(reply, nil)
			if err != nil {
				return nil, "", fmt.Errorf("oldest sends, shard %d: %w", shards[k], wire.ErrReply)
			}
			for _, member := range members {
				if len(member) >= SendPlaceLength {
					all = append(all, inOrder{member[len(member)-SendPlaceLength:], shards[k]})
				}
			}
			if len(members) == some && (last == "" || all[len(all)-1].place < last) {
				last = all[len(all)-1].place
			}
		}
	}
	slices.SortFunc(all, func(a, b inOrder) int { return strings.Compare(a.place, b.place) })
	page, known := all[:0], len(all)
	for _, one := range all {
		if len(page) < n && (last == "" || one.place <= last) {
			page = append(page, one)
		}
	}
	if len(page) > 0 && (last != "" || len(page) < known) {
		next = page[len(page)-1].place
	}
	sends, err = s.read(ctx, group, page)
	return sends, next, err
}

// read returns the sends at some places, without those that have left the group.
func (s Sends) read(ctx context.Context, group SendGroup, page []inOrder) ([]Send, error) {
	byShard := make(map[int][]any)
	var shards []int
	for _, one := range page {
		if byShard[one.shard] == nil {
			shards, byShard[one.shard] = append(shards, one.shard), []any{"HMGET", s.ring.keys[one.shard].outbox.sends}
		}
		byShard[one.shard] = append(byShard[one.shard], one.place[stampWidth:])
	}
	replies, err := s.each(ctx, "read sends", shards, func(shard int) wire.Command { return byShard[shard] })
	if err != nil {
		return nil, err
	}
	records := make(map[int][]string, len(shards))
	for k, shard := range shards {
		records[shard], err = redis.Strings(replies[k], nil)
		if err != nil || len(records[shard]) != len(byShard[shard])-2 {
			return nil, fmt.Errorf("read sends, shard %d: %w", shard, wire.ErrReply)
		}
	}
	sends := make([]Send, 0, len(page))
	for _, one := range page {
		id, record := one.place[stampWidth:], records[one.shard][0]
		records[one.shard] = records[one.shard][1:]
		send, err := readIfThere(id, record, nil)
		if errors.Is(err, ErrNoSend) && s.ring.sources > 0 {
			send, err = s.Look(ctx, id) // it has moved since
		}
		if errors.Is(err, ErrNoSend) {
			continue
		}
		if err != nil {
			return nil, err
		}
		twice := len(sends) > 0 && sends[len(sends)-1].ID == id
		if !twice && send.group() == group && send.place() == one.place {
			sends = append(sends, send)
		}
	}
	return sends, nil
}

// arrived completes the moves of accounts that are on their way from some shards.
func (s Sends) arrived(ctx context.Context, left []int) error {
	under, err := s.each(ctx, "departures", left, func(shard int) wire.Command {
		return wire.Command{"HLEN", s.ring.keys[shard].departures}
	})
	for i, shard := range left {
		if err == nil && under[i] != int64(0) {
			_, err = s.ring.Mover().Complete(ctx, shard)
		}
	}
	return err
}

// group returns the group in which a send is listed.
func (send *Send) group() SendGroup {
	switch send.State {
	case SendQueued, SendAttempting, SendUnknown:
		return SendGroup(send.State)
	}
	return GroupEnded
}

// place returns a send's place in its group.
func (send *Send) place() string {
	at := send.Queued
	if send.group() == GroupEnded {
		at = send.Since
	}
	return fmt.Sprintf("%0*d", stampWidth, at.UnixMilli()) + send.ID
}

// mayHave returns the shards that may have sends of an account, or of any: those that
// accounts leave, and the others.
func (s Sends) mayHave(ctx context.Context, account string) (left, target []int, err error) {
	sources := s.ring.sources
	switch {
	case sources > 0:
		for shard := range s.ring.keys {
			if shard < sources && (account == "" || shard == shardOf(account, sources)) {
				left = append(left, shard)
			}
			if shard >= sources && (account == "" || shard == s.ring.target(account)) {
				target = append(target, shard)
			}
		}
	case account != "":
		target = []int{s.ring.ShardOf(account)}
	default:
		target, err = s.Present(ctx)
	}
	return left, target, err
}

// order puts sends that an earlier version has queued into the order of time. It does
// nothing where Redis may not count.
func (s Sends) order(ctx context.Context, group SendGroup, shards []int) error {
	count := func(prefix string) ([]any, error) {
		return s.each(ctx, "count sends", shards, func(shard int) wire.Command {
			return wire.Command{"ZLEXCOUNT", s.ring.keys[shard].outbox.index, "[" + prefix + string(group), "(" + prefix + string(group+1)}
		})
	}
	timed, err := count("t")
	if wire.HasCode(err, "NOPERM") {
		return nil
	}
	var all []any
	if err == nil {
		all, err = count("")
	}
	if err != nil {
		return err
	}
	for i, shard := range shards {
		if timed[i] == all[i] {
			continue
		}
		for behind, more := "", true; more; more = behind != "" {
			k := &s.ring.keys[shard]
			behind, err = redis.String(s.ring.wire.Run(ctx, orderSendScript, shard, k.outbox.with(), string(group), behind, wire.MaxBatch))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// each does one command that only reads in each of some shards, and returns the replies. It
// costs one round trip to each node.
func (s Sends) each(ctx context.Context, what string, shards []int, command func(shard int) wire.Command) ([]any, error) {
	batches := make([]wire.Batch, len(shards))
	for i, shard := range shards {
		c := command(shard)
		batches[i] = wire.Batch{Key: c[1].(string), Commands: []wire.Command{c}}
	}
	all := make([]any, len(shards))
	for i, replies := range s.ring.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		values, err := replies.Values, replies.Err
		if wire.HasCode(err, "WRONGTYPE") {
			values, err = s.ring.wire.PipelineOn(ctx, wire.Ordinary, shards[i], batches[i].Key, batches[i].Commands...)
		}
		if err == nil && len(values) != 1 {
			err = wire.ErrReply
		}
		if err != nil {
			return nil, fmt.Errorf("%s, shard %d: %w", what, shards[i], err)
		}
		all[i] = values[0]
	}
	return all, nil
}
