package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

const (
	// transactionLimit ends the transaction of a process that died, if nobody else does.
	transactionLimit = 40 * time.Second
	// readWithin bounds the reading of a shard's positions.
	readWithin = 90 * time.Second
	// positionLeast is how many messages an account's position has at least, if there were so many.
	positionLeast = 16
	// idleFor is how long the producer of a shard is kept that is not used.
	idleFor = 10 * time.Minute
)

// writer writes the messages of one shard in transactions. Each has records and the position that
// follows from them: for each account the ids of its last messages. The producer's name is the
// shard's, so the brokers refuse a process that has lost the shard, and complete or abort what it
// began, before the next one reads the positions.
type writer struct {
	shard int

	turn   chan struct{}       // has room for one, who may use:
	client *kgo.Client         // nil: positions must be read before anything is written
	last   map[string][]string // by account, the newest first; short
	used   time.Time
}

// writers are the writers of an endpoint's shards.
type writers struct {
	mu    sync.Mutex
	of    map[int]*writer
	swept time.Time
}

func (w *writers) get(shard int) *writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = make(map[int]*writer)
	}
	one := w.of[shard]
	if one == nil {
		one = &writer{shard: shard, turn: make(chan struct{}, 1)}
		w.of[shard] = one
	}
	return one
}

// sweep closes the producers that were not used for so long: others have the shards, or there was
// nothing to write.
func (w *writers) sweep(idle time.Duration) {
	w.mu.Lock()
	now := time.Now()
	if now.Sub(w.swept) < idle/2 {
		w.mu.Unlock()
		return
	}
	w.swept = now
	all := make([]*writer, 0, len(w.of))
	for _, one := range w.of {
		all = append(all, one)
	}
	w.mu.Unlock()
	for _, one := range all {
		select {
		case one.turn <- struct{}{}:
			if time.Since(one.used) >= idle {
				one.forget()
			}
			<-one.turn
		default: // it is used
		}
	}
}

// forget closes the producer. What its last transaction became is known once positions are read again.
func (w *writer) forget() {
	if w.client != nil {
		w.client.Close()
	}
	w.client, w.last = nil, nil
}

// HandlerTimeout returns the time that Handle needs at most.
func (s *Sink) HandlerTimeout() time.Duration {
	if s.positions == "" {
		return 3 * broker.Answer
	}
	return readWithin + 3*broker.Answer
}

// once stores the messages of a shard that are not stored yet, in one transaction.
func (s *Sink) once(ctx context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	w := s.writers.get(batch[0].Shard)
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return broker.Refuse(errs, s.later(ctx.Err()))
	}
	defer func() { <-w.turn }()
	w.used = time.Now()
	s.writers.sweep(idleFor)
	if w.client == nil {
		if err := s.begin(ctx, w); err != nil {
			w.forget()
			return broker.Refuse(errs, s.later(err))
		}
	}
	var fresh []int
	var records []*kgo.Record
	positions := make(map[string][]string)
	for i, d := range batch {
		id := short(sink.Key(s.Namespace, d))
		if slices.Contains(w.last[d.Account], id) {
			continue
		}
		record, err := s.record(d)
		if err != nil {
			errs[i] = err
			continue
		}
		fresh, records = append(fresh, i), append(records, record)
		positions[d.Account] = append([]string{id}, positions[d.Account]...)
	}
	if len(fresh) == 0 {
		return errs
	}
	for account, ids := range positions {
		if missing := positionLeast - len(ids); missing > 0 {
			ids = append(ids, w.last[account][:min(missing, len(w.last[account]))]...)
		}
		positions[account] = ids
		value, _ := json.Marshal(ids) // texts
		records = append(records, &kgo.Record{Topic: s.positions, Key: []byte(s.positionKey(w.shard) + account), Value: value})
	}
	if err := transact(ctx, w.client, records); err != nil {
		w.forget()
		for _, i := range fresh {
			errs[i] = s.later(err)
		}
		return errs
	}
	for account, ids := range positions {
		w.last[account] = ids
	}
	return errs
}

// transact writes records in a transaction. After an error nobody knows whether it was committed.
func transact(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	ctx, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	ended := make(chan error, len(records))
	for _, r := range records {
		client.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) { ended <- err })
	}
	for range records {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

// begin becomes the producer of a shard, and reads its positions.
func (s *Sink) begin(ctx context.Context, w *writer) error {
	starting, cancel := context.WithTimeout(ctx, broker.Answer)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-starting.Done():
		return starting.Err()
	}
	closed := s.closed
	<-s.turn
	if closed {
		return broker.Plain("the process ends")
	}
	client, err := s.connect(starting, kgo.WithHooks(&s.trouble), kgo.RecordPartitioner(partitioner{s.positions, w.shard}),
		kgo.TransactionalID(fmt.Sprintf("rounds.%s.%s.%d", s.Namespace, s.name, w.shard)), kgo.TransactionTimeout(transactionLimit))
	if err != nil {
		return err
	}
	w.client = client
	if _, _, err := client.ProducerID(starting); err != nil {
		return err
	}
	w.last, err = s.read(ctx, w.shard)
	return err
}

// read reads the positions of a shard.
func (s *Sink) read(ctx context.Context, shard int) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	reader, err := s.connect(ctx, kgo.WithHooks(&s.trouble), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	admin := kadm.NewClient(reader)
	asking, stop := context.WithTimeout(ctx, broker.Answer)
	defer stop()
	starts, err := admin.ListStartOffsets(asking, s.positions)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(asking, s.positions)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	partition := int32(shard % max(len(ends[s.positions]), 1))
	start, _ := starts.Lookup(s.positions, partition)
	end, _ := ends.Lookup(s.positions, partition)
	last := make(map[string][]string)
	if start.Offset >= end.Offset {
		return last, nil
	}
	reader.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.positions: {partition: kgo.NewOffset().At(start.Offset)}})
	prefix := s.positionKey(shard)
	for next := start.Offset; next < end.Offset; { // transactions of others in the partition are waited for
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			account, ok := strings.CutPrefix(string(r.Key), prefix)
			var ids []string
			if ok && !r.Attrs.IsControl() && json.Unmarshal(r.Value, &ids) == nil {
				last[account] = ids
			}
		})
	}
	return last, nil
}

// positionKey is what the keys of a shard's positions begin with; the account follows.
func (s *Sink) positionKey(shard int) string {
	return fmt.Sprintf("%s/%s/%d/", s.Namespace, s.name, shard)
}

// short is a part of a message's key that is enough among the messages of one account: 96 bits.
func short(key string) string { return key[len(key)-16:] }

// partitioner puts the positions of a shard into one partition, and records where their keys belong.
type partitioner struct {
	positions string
	shard     int
}

// ForTopic returns how the records of a topic are distributed.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if topic == p.positions {
		return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(_ *kgo.Record, n int) int { return p.shard % n }
		}).ForTopic(topic)
	}
	return kgo.StickyKeyPartitioner(nil).ForTopic(topic)
}
