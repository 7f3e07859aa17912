package accounts

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// indexAge is the age from which on what the index knows of a shard is not used any more, and
	// indexTurn the time in which all shards are read again.
	indexAge  = time.Minute
	indexTurn = 40 * time.Second
	// indexIdle is how long the index is kept up to date after it was last asked.
	indexIdle = 5 * time.Minute
	// MaxIndex is the most bytes of ids in an index: a million of up to 30 bytes, capitals among
	// them. Shards beyond it are not in the index.
	MaxIndex = 64 << 20
)

// IDIndex finds the ids that have a part, in the memory of one process, and has the orders of
// accounts that Redis does not have. It reads the ids of all accounts when it is first asked, reads
// them again in less than a minute, and forgets them when nobody has asked for a while. Until it
// knows a shard, and when what it knows is too old, a list looks through the shard's ids in Redis
// instead, and a list in such an order waits. An account that was registered within the last
// minute may be missing.
type IDIndex struct {
	shards int
	scan   func(ctx context.Context, shard int, cursor string, n int) (all []circulate.CheckedAccount, next string, err error)
	fails  func(ctx context.Context, shard int, cursor string, n int) (all []circulate.FailedAccount, next string, err error)
	usable func() bool // false: accounts are moving between shards
	most   int         // bytes

	mu    sync.Mutex
	known []shardIDs
	bytes int // of known
	asked time.Time
	turns bool          // Keep is at work
	news  chan struct{} // closed when a shard was read
}

// shardIDs is the ids of a shard, sorted. Each comes behind a NUL, which no id has, and one is at
// the end.
type shardIDs struct {
	at      time.Time // when reading them began; zero: unknown
	folded  string    // in the form in which parts are compared
	written string    // as they are; empty: the same

	successes, failures []ranked // the accounts in these orders
	over                bool     // it is left out, for want of room
}

func (s *shardIDs) size() int {
	return len(s.folded) + len(s.written) + rankedSize*(len(s.successes)+len(s.failures))
}

// NewIDIndex returns an empty index of a ring.
func NewIDIndex(ring *circulate.Ring) *IDIndex {
	return &IDIndex{
		shards: ring.Shards(), scan: ring.ScanChecked, fails: ring.ScanFailures, most: MaxIndex, usable: func() bool { return ring.Sources() == 0 },
		known: make([]shardIDs, ring.Shards()), news: make(chan struct{}),
	}
}

// Indexed returns the registry with an index, which List asks for parts of ids.
func (r *Registry) Indexed(x *IDIndex) *Registry {
	indexed := *r
	indexed.ids = x
	return &indexed
}

// Keep reads all ids, and again in less than a minute each, until the index was not asked for five
// minutes or ctx is done. It returns at once if another call is at work. A shard that cannot be
// read is tried again in the next turn.
func (x *IDIndex) Keep(ctx context.Context) {
	x.mu.Lock()
	began := x.turns
	x.turns, x.asked = true, time.Now()
	x.mu.Unlock()
	if began {
		return
	}
	pause := time.Duration(0) // the first turn is awaited
	for x.goesOn(ctx) {
		for shard := range x.shards {
			if !x.goesOn(ctx) {
				break
			}
			_ = x.read(ctx, shard) // then the list looks into Redis
			if pause > 0 {
				rest := time.NewTimer(pause)
				select {
				case <-rest.C:
				case <-ctx.Done():
				}
				rest.Stop()
			}
		}
		pause = indexTurn / time.Duration(x.shards)
	}
}

// goesOn reports whether the index is still wanted. If not, it forgets everything.
func (x *IDIndex) goesOn(ctx context.Context) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if ctx.Err() == nil && time.Since(x.asked) < indexIdle {
		return true
	}
	x.turns, x.known, x.bytes = false, make([]shardIDs, x.shards), 0
	return false
}

// read reads the ids of a shard.
func (x *IDIndex) read(ctx context.Context, shard int) error {
	began := time.Now()
	checked, err := scannedAll(ctx, shard, x.scan, func(a, b circulate.CheckedAccount) int { return strings.Compare(a.ID, b.ID) })
	if err != nil {
		return err
	}
	failed, err := scannedAll(ctx, shard, x.fails, func(a, b circulate.FailedAccount) int { return strings.Compare(a.ID, b.ID) })
	if err != nil {
		return err
	}
	now := indexed(checked, failed)
	now.at = began
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bytes -= x.known[shard].size()
	if x.known[shard] = now; x.bytes+now.size() > x.most {
		x.known[shard] = shardIDs{over: true}
	}
	x.bytes += x.known[shard].size()
	close(x.news)
	x.news = make(chan struct{})
	return nil
}

func indexed(checked []circulate.CheckedAccount, failed []circulate.FailedAccount) shardIDs {
	ids := make([]string, len(checked))
	for i := range checked {
		ids[i] = checked[i].ID
	}
	var s shardIDs
	s.folded = joined(ids, folded)
	if written := joined(ids, func(id string) string { return id }); written != s.folded {
		s.written = written
	}
	s.rank(checked, failed)
	return s
}

func joined(ids []string, form func(string) string) string {
	size := 1
	for _, id := range ids {
		size += 1 + len(form(id))
	}
	var text strings.Builder
	text.Grow(size)
	for _, id := range ids {
		text.WriteByte(0)
		text.WriteString(form(id))
	}
	text.WriteByte(0)
	return text.String()
}

// find returns the ids of a shard that have one of the selector's parts, sorted. It returns false
// if the index does not know, or if another field selects better.
func (x *IDIndex) find(shard int, s *Selector) ([]string, bool) {
	if x == nil || len(s.Parts) == 0 || len(s.IDs) > 0 || s.indexed() || !x.usable() {
		return nil, false
	}
	x.mu.Lock()
	x.asked = time.Now()
	known := x.known[shard]
	x.mu.Unlock()
	if known.at.IsZero() || time.Since(known.at) >= indexAge {
		return nil, false
	}
	var all []string
	for _, part := range s.Parts {
		all = append(all, known.having(folded(part))...)
	}
	slices.Sort(all)
	return slices.Compact(all), true
}

// having returns the ids with a folded part.
func (s *shardIDs) having(part string) (ids []string) {
	if part == "" || strings.Contains(part, "\x00") {
		return nil
	}
	written := s.written
	for rest := s.folded; ; {
		hit := strings.Index(rest, part)
		if hit < 0 {
			return ids
		}
		begin := strings.LastIndexByte(rest[:hit], 0)
		end := hit + strings.IndexByte(rest[hit:], 0)
		id := rest[begin+1 : end]
		if s.written != "" {
			for range strings.Count(rest[:begin+1], "\x00") { // as many ids as were passed, and this one's NUL
				written = written[strings.IndexByte(written, 0)+1:]
			}
			id = written[:strings.IndexByte(written, 0)]
		}
		ids, rest = append(ids, strings.Clone(id)), rest[end:]
	}
}
