package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

const (
	batch       = 128
	ringWorkers = 4
	small       = 10_000
	inFlight    = 10_000
)

// ringBench measures claim and return: the ring alone, without checks.
type ringBench struct {
	report reporter
	each   time.Duration
	rounds int
	large  int
}

// load is a ring full of accounts.
type load struct {
	ring    *circulate.Ring
	server  *connect.Single
	records *circulate.Records[int]
}

func (b *ringBench) run(ctx context.Context) error {
	_, server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	little, err := newLoad(ctx, server, "small", small)
	if err != nil {
		return err
	}
	if err := little.queueAll(ctx); err != nil {
		return err
	}
	big, err := b.fillLarge(ctx, server)
	if err != nil {
		return err
	}
	bare := &bareRing{server: server}
	if err := bare.fill(b.large); err != nil {
		return err
	}

	stages := []*stage{
		{name: "bare_cycles_50_in_flight", run: func() (int64, error) { return bare.cycles(ctx, b.each, 1) }},
		{name: "ring_cycles_10000_in_flight", run: func() (int64, error) { return big.cycles(ctx, b.each, inFlight, again) }},
		{name: "ring_cycles_few_in_flight", run: func() (int64, error) { return big.cycles(ctx, b.each, 0, again) }},
		{name: "ring_cycles_10000_accounts", run: func() (int64, error) { return little.cycles(ctx, b.each, 0, again) }},
		{name: "ring_cycles_through_schedule", run: func() (int64, error) { return big.cycles(ctx, b.each, inFlight, later) }},
		{name: "ring_cycles_cursor_and_message_each", run: func() (int64, error) { return big.cycles(ctx, b.each, inFlight, news) }},
		{name: "ring_pairs_of_one", run: func() (int64, error) { return big.pairs(ctx, b.each) }},
		{name: "bare_cycles_10000_in_flight", run: func() (int64, error) { return bare.cycles(ctx, b.each, inFlight/bareConnections) }},
	}
	for range b.rounds {
		for _, s := range stages {
			if err := s.measure(server); err != nil {
				return err
			}
		}
	}
	for _, s := range stages {
		b.report.figure(s.name, median(s.speeds), "cycles/s")
		b.report.figure(s.name+"_redis_cpu", median(s.cpu), "µs/cycle")
	}
	// The bare pattern is at its best with few in flight, so it is compared there too.
	b.report.figure("ring_vs_bare_10000_in_flight", ratio(stages[1].speeds, stages[0].speeds), "×")
	b.report.figure("ring_vs_bare_both_10000_in_flight", ratio(stages[1].speeds, stages[6].speeds), "×")
	return nil
}

// stage is one thing that is measured, once a round.
type stage struct {
	name        string
	run         func() (int64, error)
	speeds, cpu []float64
}

func (s *stage) measure(server *connect.Single) error {
	cpuBefore, err := usedCPU(server)
	if err != nil {
		return err
	}
	began := time.Now()
	cycles, err := s.run()
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	took := time.Since(began)
	cpuAfter, err := usedCPU(server)
	if err != nil {
		return err
	}
	s.speeds = append(s.speeds, float64(cycles)/took.Seconds())
	s.cpu = append(s.cpu, (cpuAfter-cpuBefore)*1e6/float64(cycles))
	return nil
}

// fillLarge registers the large ring and measures its memory: all accounts are scheduled,
// each with a cursor.
func (b *ringBench) fillLarge(ctx context.Context, server *connect.Single) (*load, error) {
	before, err := usedMemory(server)
	if err != nil {
		return nil, err
	}
	l, err := newLoad(ctx, server, "large", b.large)
	if err != nil {
		return nil, err
	}
	after, err := usedMemory(server)
	if err != nil {
		return nil, err
	}
	records, err := recordMemory(server, l.ring)
	if err != nil {
		return nil, err
	}
	b.report.figure("bytes_per_account", (after-before-records)/float64(b.large), "bytes besides the record")
	b.report.figure("record_bytes_per_account", records/float64(b.large), "bytes")
	return l, l.queueAll(ctx)
}

// again returns an account to the tight ring with nothing found.
func again(*circulate.Return, time.Time) {}

// later returns it to the schedule, due only after the step ends.
func later(r *circulate.Return, now time.Time) { r.Due = now.Add(20 * time.Millisecond) }

// news returns it with a cursor and a message. Cursors differ, as they do in life: Lua
// keeps equal texts once, which would flatter.
func news(r *circulate.Return, _ time.Time) {
	r.Kind, r.Cursor = "bench", strconv.AppendUint(nil, 1_000_000_000_000+rand.Uint64N(9_000_000_000_000), 10)
	r.Messages = []circulate.Message{{ID: "m", Type: "text", Data: []byte(`{"text":"hello"}`)}}
}

// newLoad registers accounts with records of about 190 bytes and has each checked once,
// which leaves it a cursor.
func newLoad(ctx context.Context, server *connect.Single, namespace string, accounts int) (*load, error) {
	ring, err := circulate.Open(ctx, server, circulate.Options{
		Namespace: namespace,
		Timeline:  func() int { return 100_000 }, // as by default; a cycle that finds nothing writes none
	})
	if err != nil {
		return nil, err
	}
	l := &load{ring: ring, server: server}
	l.records = circulate.NewRecords(ring, 2*accounts, 1<<40, time.Hour, func(_ string, record []byte) int { return len(record) })
	shards := make([][]circulate.Registration, ring.Shards())
	inAnHour := time.Now().Add(time.Hour)
	for i := range accounts {
		id := fmt.Sprintf("account%06d", i)
		record := fmt.Appendf(nil, `{"id":%q,"kind":"http","config":{"url":"https://connector.example/%s","pad":%q},"cadence":"every 60s"}`, id, id, pad)
		s := ring.ShardOf(id)
		shards[s] = append(shards[s], circulate.Registration{ID: id, Record: record})
	}
	return l, eachShard(ring, func(shard int) error {
		for items := range slices.Chunk(shards[shard], 500) {
			if _, err := ring.Register(ctx, shard, items); err != nil {
				return err
			}
		}
		return l.pass(ctx, shard, func(r *circulate.Return) { r.Due, r.Cursor = inAnHour, []byte("1795226313819") })
	})
}

// pass claims every account of a shard once and returns it as give says.
func (l *load) pass(ctx context.Context, shard int, give func(*circulate.Return)) error {
	var held []circulate.Return
	for {
		b, err := l.ring.Claim(ctx, shard, "benchmark0", circulate.MaxBatch, l.records.Known(shard))
		if err != nil {
			return err
		}
		if _, err := l.records.Resolve(ctx, shard, &b); err != nil {
			return err
		}
		for i := range b.Claims {
			held = append(held, circulate.Return{Claim: &b.Claims[i]})
			give(&held[len(held)-1])
		}
		if !b.More {
			break
		}
	}
	for items := range slices.Chunk(held, circulate.MaxBatch) {
		if _, err := l.ring.Return(ctx, shard, items); err != nil {
			return err
		}
	}
	return nil
}

// queueAll puts every account into message_queue, where the tight ring has them, and
// loads their records.
func (l *load) queueAll(ctx context.Context) error {
	if err := l.nudgeAll(ctx); err != nil {
		return err
	}
	return eachShard(l.ring, func(shard int) error {
		return l.pass(ctx, shard, func(*circulate.Return) {})
	})
}

const pad = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func eachShard(ring *circulate.Ring, fn func(shard int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, ring.Shards())
	next := atomic.Int64{}
	for range ringWorkers {
		wg.Go(func() {
			for s := next.Add(1) - 1; s < int64(ring.Shards()); s = next.Add(1) - 1 {
				errs <- fn(int(s))
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// cycles claims and returns for a while, with so many claims held at any time, and counts
// the returns that were written. It returns random ones of those held.
func (l *load) cycles(ctx context.Context, d time.Duration, held int, give func(*circulate.Return, time.Time)) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	stop := time.Now().Add(d)
	perShard := held / l.ring.Shards()
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, ringWorkers)
	for w := range ringWorkers {
		wg.Go(func() {
			own := make([][]circulate.Claim, l.ring.Shards())
			n, err := l.work(ctx, w, stop, perShard, own, give)
			done.Add(n)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return done.Load(), nil
}

func (l *load) work(ctx context.Context, w int, stop time.Time, perShard int, own [][]circulate.Claim, give func(*circulate.Return, time.Time)) (int64, error) {
	replica := fmt.Sprintf("benchmark%d", w)
	var done int64
	items := make([]circulate.Return, 0, batch)
	turn := func(shard, claim, keep int) error {
		var now time.Time
		if claim > 0 {
			// A poller names the kinds that it checks.
			b, err := l.ring.Claim(ctx, shard, replica, claim, l.records.Known(shard), "feed", "http", "imap", "wecom-kf")
			if err != nil {
				return err
			}
			if _, err := l.records.Resolve(ctx, shard, &b); err != nil {
				return err
			}
			own[shard], now = append(own[shard], b.Claims...), b.Now
		}
		held := own[shard]
		for len(held) > keep {
			items = items[:0]
			for len(held) > keep && len(items) < batch {
				i, last := rand.IntN(len(held)), len(held)-1
				held[i], held[last] = held[last], held[i]
				items = append(items, circulate.Return{Claim: &held[last]})
				give(&items[len(items)-1], now)
				held = held[:last]
			}
			outcomes, err := l.ring.Return(ctx, shard, items)
			if err != nil {
				return err
			}
			for _, o := range outcomes {
				if o == circulate.Written {
					done++
				}
			}
		}
		own[shard] = held
		return nil
	}
	for time.Now().Before(stop) {
		for shard := w; shard < l.ring.Shards() && time.Now().Before(stop); shard += ringWorkers {
			if err := turn(shard, batch, perShard); err != nil {
				return 0, err
			}
		}
	}
	counted := done
	for shard := range own {
		if err := turn(shard, 0, 0); err != nil {
			return 0, err
		}
	}
	return counted, nil
}

// pairs claims one account and returns it, again and again, on one connection: what a step
// costs however little it moves.
func (l *load) pairs(ctx context.Context, d time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	var done int64
	for stop := time.Now().Add(d); time.Now().Before(stop); {
		shard := int(done) % l.ring.Shards()
		b, err := l.ring.Claim(ctx, shard, "benchmark0", 1, l.records.Known(shard), "feed", "http", "imap", "wecom-kf")
		if err != nil {
			return 0, err
		}
		if len(b.Claims) != 1 {
			return 0, fmt.Errorf("shard %d: %d claims, want 1", shard, len(b.Claims))
		}
		if _, err := l.ring.Return(ctx, shard, []circulate.Return{{Claim: &b.Claims[0]}}); err != nil {
			return 0, err
		}
		done++
	}
	return done, nil
}

// nudgeAll makes every scheduled account due now.
func (l *load) nudgeAll(ctx context.Context) error {
	conn, err := l.server.Conn(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for shard := range l.ring.Shards() {
		key := fmt.Sprintf("{%s:%02d}:schedule", l.ring.Namespace(), shard)
		if _, err := conn.Do("ZUNIONSTORE", key, 1, key, "WEIGHTS", 0); err != nil {
			return err
		}
	}
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// ratio is the median of the ratios of measurements that were made in turn.
func ratio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// recordMemory returns how much memory the accounts' records take in Redis.
func recordMemory(server *connect.Single, ring *circulate.Ring) (float64, error) {
	conn, err := server.Conn(context.Background(), "")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var sum float64
	for shard := range ring.Shards() {
		n, err := redis.Int64(conn.Do("MEMORY", "USAGE", fmt.Sprintf("{%s:%02d}:accounts", ring.Namespace(), shard), "SAMPLES", 0))
		if err != nil {
			return 0, err
		}
		sum += float64(n)
	}
	return sum, nil
}
