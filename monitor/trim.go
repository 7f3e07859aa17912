package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// trimRepeat is how often a warning about messages is repeated.
const trimRepeat = time.Hour

// trim drops messages that are past their retention, or too many, or take too much
// memory. It drops none that a consumer group has not dealt with.
func (m *Monitor) trim(ctx context.Context) error {
	m.trims.Lock()
	defer m.trims.Unlock()
	held := make(map[int]bool) // shards where a group holds messages back
	dropped, errs := m.eachShard(func(shard int) (int, error) {
		before, err := m.pastAge(ctx, shard, m.config.Retention)
		if err != nil || before.IsZero() {
			return 0, err
		}
		n, heldBack, err := m.ring.Streams().Trim(ctx, shard, before)
		held[shard] = heldBack
		return n, err
	})
	levels, bounded, err := m.levels(ctx)
	if m.config.Retention == 0 && !bounded && err == nil {
		return nil // all messages are kept
	}
	early, more := 0, []error{err}
	if err == nil {
		early, more = m.eachShard(func(shard int) (int, error) {
			if levels[shard] == math.MaxInt {
				return 0, nil
			}
			n, heldBack, err := m.ring.Streams().TrimTo(ctx, shard, levels[shard])
			held[shard] = held[shard] || heldBack
			return n, err
		})
	}
	m.metrics.trimmed.Add(float64(dropped + early))
	m.metrics.early.Add(float64(early))
	err = errors.Join(append(errs, more...)...)
	m.tellTrimmed(early, held, err == nil)
	if err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	return nil
}

// eachShard calls a function for each shard and adds up the results. It stops if all of
// Redis is away.
func (m *Monitor) eachShard(do func(shard int) (int, error)) (sum int, errs []error) {
	for shard := range m.ring.Shards() {
		n, err := do(shard)
		sum += n
		if err != nil {
			errs = append(errs, err)
			if m.allAway(shard, err) {
				break
			}
		}
	}
	return sum, errs
}

// tellTrimmed logs what an operator should know: how many messages were dropped early,
// and where groups hold messages back. It does not repeat that for a while.
func (m *Monitor) tellTrimmed(early int, held map[int]bool, complete bool) {
	streams := 0
	for _, back := range held {
		if back {
			streams++
		}
	}
	if m.duty.held() && complete {
		m.metrics.heldBack.set(float64(streams))
	}
	if early > 0 {
		m.watch.dropped(early)
	}
	if early > 0 && time.Since(m.cutTold) >= trimRepeat {
		m.cutTold = time.Now()
		m.log.Warn("messages are dropped before they are past their retention, the oldest first: there are too many, or they take too much of Redis' memory",
			"messages", early, "retention", m.config.Retention, "kept", m.config.Kept)
	}
	if streams == 0 {
		if complete {
			m.heldTold = time.Time{}
		}
		return
	}
	if m.heldTold.IsZero() || time.Since(m.heldTold) >= trimRepeat {
		m.heldTold = time.Now()
		m.log.Warn("messages are past their retention, or too many, and kept because a consumer group has not dealt with them",
			"streams", streams, "retention", m.config.Retention, "kept", m.config.Kept)
	}
}

// levels returns the length to which each shard's stream is cut, math.MaxInt for no cut, and whether
// the configuration bounds the streams at all.
func (m *Monitor) levels(ctx context.Context) (levels []int, bounded bool, err error) {
	levels = slices.Repeat([]int{math.MaxInt}, m.ring.Shards())
	parts := m.parts(ctx)
	if m.config.Kept == 0 && len(parts) == 0 {
		return levels, false, nil
	}
	counts, err := m.ring.CountAll(ctx)
	if err != nil {
		return nil, true, err
	}
	lengths := make([]int, len(levels))
	for shard := range lengths {
		lengths[shard] = counts[shard].Messages
	}
	if m.config.Kept > 0 {
		level := levelOf(lengths, m.config.Kept)
		for shard := range levels {
			levels[shard] = level
		}
	}
	return levels, true, m.levelBytes(ctx, parts, lengths, levels)
}

// levelOf returns the highest level to which lengths may be cut so that their sum is at
// most kept. It returns math.MaxInt if the sum is already that small.
func levelOf(lengths []int, kept int) int {
	lengths = slices.Sorted(slices.Values(lengths))
	for i, length := range lengths {
		if rest := len(lengths) - i; length > kept/rest {
			return kept / rest
		}
		kept -= length
	}
	return math.MaxInt
}

// levelBytes lowers the levels until messages take no more memory than they may. It cuts
// the largest streams first. If a Redis does not report how much they take, it has
// no such bound.
func (m *Monitor) levelBytes(ctx context.Context, parts map[string]*part, lengths, levels []int) error {
	for node, part := range parts {
		sizes, sum := make([]int, len(part.shards)), 0
		for i, shard := range part.shards {
			size, err := m.ring.Streams().Bytes(ctx, shard)
			if err != nil && circulate.Unavailable(err) {
				return err
			}
			if err != nil {
				m.log.Debug("the memory that messages take is unknown", "node", node, "error", err)
				return nil
			}
			sizes[i], sum = int(size), sum+int(size)
		}
		level := levelOf(sizes, part.most(m.config, sum))
		for i, shard := range part.shards {
			if sizes[i] > level {
				levels[shard] = min(levels[shard], int(float64(lengths[shard])*float64(level)/float64(sizes[i])))
			}
		}
	}
	return nil
}

// part is the shards that share one memory bound.
type part struct {
	shards []int
	memory circulate.Memory // of their node
}

// parts returns the shards by node, or all together if one bound applies to all.
func (m *Monitor) parts(ctx context.Context) map[string]*part {
	parts := make(map[string]*part)
	if m.config.KeptBytes < 0 {
		return parts
	}
	for shard := range m.ring.Shards() {
		node := ""
		if m.config.KeptBytes == 0 {
			node = m.ring.Node(shard)
		}
		p, ok := parts[node]
		if !ok {
			p = new(part)
			parts[node] = p
			if m.config.KeptBytes == 0 {
				var err error
				if p.memory, err = m.ring.Memory(ctx, shard); err != nil {
					m.log.Debug("redis does not report its memory", "node", node, "error", err)
				}
			}
		}
		p.shards = append(p.shards, shard)
	}
	for node, p := range parts {
		if m.config.KeptBytes == 0 && p.memory.Limit == 0 {
			delete(parts, node)
		}
	}
	return parts
}

// most returns how many bytes the messages of a part may take, given what they take now.
// It is half of the node's memory, or less if the node's other data would bring it close
// to the mark, but at least a tenth.
func (p *part) most(c Config, now int) int {
	if c.KeptBytes > 0 {
		return int(c.KeptBytes)
	}
	limit := float64(p.memory.Limit)
	others := float64(p.memory.Used) - float64(now)
	return int(max(limit/10, min(limit/2, limit*float64(c.MemoryMark-10)/100-others)))
}

// pastAge returns the time of Redis' clock before which everything in a shard may be
// dropped for its age, or the zero time; age 0 is no bound. A gap in the readings of the
// clock may be time that passed or a clock that went ahead. For a day after a gap of at
// least a quarter of the age, nothing may be dropped: an operator has that long to put a
// wrong clock right. A shorter gap makes the bound earlier by its length. Bounds of
// number and memory still apply.
//
// The age counts from the reading that was judged: the clock may step in the next moment.
func (m *Monitor) pastAge(ctx context.Context, shard int, age time.Duration) (time.Time, error) {
	if age == 0 {
		return time.Time{}, nil
	}
	clock, err := m.ring.Clocks().Read(ctx, shard)
	if err != nil || clock.Gap >= max(age/4, 1) {
		return time.Time{}, err
	}
	return clock.Now.Add(-age), nil
}
