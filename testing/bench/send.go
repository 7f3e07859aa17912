package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	sendCallers = 64              // who queue sends at once
	sendAhead   = 10_000          // how many sends may be queued and not at the third party
	sendPeers   = 10              // of each account
	sendWarm    = 3 * time.Second // before anything is measured
	sendEnd     = time.Minute     // within which what was queued must have ended
)

// sendBench measures the outbox: callers queue sends, and one whole replica makes them. The third
// party answers at once.
type sendBench struct {
	report   reporter
	length   time.Duration
	accounts int
	rate     int      // sends a second while their latency is measured
	disk     []string // what Redis does with its disk: see sendDisks
	profile  string
}

// sendDisk is a Redis that attempts wait for.
type sendDisk struct {
	options  []redistest.Option
	replicas int // which it has, and which must have an attempt before its call
}

// sendDisks are the ways in which Redis may treat its disk, by what --disk calls them.
func sendDisks() map[string]sendDisk {
	return map[string]sendDisk{
		"none":     {},
		"always":   {options: []redistest.Option{redistest.WithAOF()}},
		"everysec": {options: []redistest.Option{redistest.WithArgs("--appendonly", "yes", "--appendfsync", "everysec")}},
		"replica":  {replicas: 1},
	}
}

// flags adds the bench's own settings.
func (b *sendBench) flags(set *flag.FlagSet) {
	set.DurationVar(&b.length, "for", 20*time.Second, "how long each measurement runs")
	set.IntVar(&b.rate, "rate", 500, "sends a second while latency is measured")
	set.StringVar(&b.profile, "profile", "", "write a CPU profile of everything but Redis to this file")
	b.disk = []string{"none", "always"}
	set.Func("disk", "what Redis does with its disk, such as none,always,everysec, or replica for a second Redis that must have each attempt; each is measured (default none,always)", func(text string) error {
		b.disk = strings.Split(text, ",")
		return nil
	})
}

func (b *sendBench) validate() error {
	if b.accounts < 1 || b.rate < 1 || b.length < time.Second {
		return errors.New("accounts and rate must be at least 1, and for 1 s")
	}
	known := sendDisks()
	for _, disk := range b.disk {
		if _, ok := known[disk]; !ok {
			return fmt.Errorf("--disk: %q is not none, always, everysec or replica", disk)
		}
	}
	return nil
}

func (b *sendBench) run(ctx context.Context) error {
	end, err := startProfile(b.profile)
	if err != nil {
		return err
	}
	defer end()
	b.report.figure("send_accounts", float64(b.accounts), "accounts")
	for _, disk := range b.disk {
		if err := b.on(ctx, disk); err != nil {
			return fmt.Errorf("disk %s: %w", disk, err)
		}
	}
	return nil
}

// on measures with a Redis of its own.
func (b *sendBench) on(ctx context.Context, disk string) error {
	wanted := sendDisks()[disk]
	redis, server, stopRedis, err := startRedis(wanted.options...)
	if err != nil {
		return err
	}
	defer stopRedis()
	for range wanted.replicas {
		stopReplica, err := startReplica(ctx, redis)
		if err != nil {
			return err
		}
		defer stopReplica()
	}
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return err
	}
	if err := b.register(ctx, ring); err != nil {
		return err
	}
	waits, err := circulate.NewSyncer(ring, circulate.Durability{Disk: true}).Sync(ctx, 0)
	if err != nil {
		return err
	}
	third := &instant{times: make(map[string]int)}
	stop, err := start(ring, third, 1, poller.Config{Concurrency: 256, ConfirmReplicas: wanted.replicas}, nil)
	if err != nil {
		return err
	}
	stop = sync.OnceValue(stop)
	defer func() { _ = stop() }() // if something has failed
	// Callers have connections of their own, as if they were the API's.
	others, err := connect.OpenSingle(redis.URL(), connect.Options{})
	if err != nil {
		return err
	}
	defer others.Close()
	outbox, err := circulate.Open(ctx, others, circulate.Options{})
	if err != nil {
		return err
	}
	r := &sendRun{sendBench: b, ring: outbox, server: server, third: third, name: "send_" + disk + "_", note: "the attempts do not wait for the disk"}
	switch {
	case wanted.replicas > 0:
		r.note = "the attempts wait for a replica (WAIT)"
	case waits:
		r.note = "the attempts wait for the disk (WAITAOF)"
	}
	if err := pause(ctx, sendWarm); err != nil { // the replica is subscribed
		return err
	}
	if err := errors.Join(r.latency(ctx), r.throughput(ctx)); err != nil {
		return err
	}
	if err := r.ended(ctx); err != nil {
		return err
	}
	return stop()
}

// startReplica starts a replica of a server, and waits until it has all data.
func startReplica(ctx context.Context, of *redistest.Server) (stop func(), err error) {
	_, replica, stop, err := startRedis()
	if err != nil {
		return nil, err
	}
	conn, err := replica.Conn(ctx, "")
	if err == nil {
		_, err = conn.Do("REPLICAOF", "127.0.0.1", of.Port)
		_ = conn.Close()
	}
	for end := time.Now().Add(sendEnd); err == nil; {
		var info map[string]string
		if info, err = infoOf(replica, "replication"); info["master_link_status"] == "up" {
			return stop, nil
		}
		if err == nil && time.Now().After(end) {
			err = errors.New("the replica has not got the data")
		}
		if err == nil {
			err = pause(ctx, 100*time.Millisecond)
		}
	}
	stop()
	return nil, err
}

// register registers the accounts. No check is due while the bench runs.
func (b *sendBench) register(ctx context.Context, ring *circulate.Ring) error {
	due := time.Now().Add(24 * time.Hour)
	shards := make([][]circulate.Registration, ring.Shards())
	for i := range b.accounts {
		id := sendAccount(i)
		s := ring.ShardOf(id)
		shards[s] = append(shards[s], circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"instant","cadence":"every 24h"}`, id), Due: due})
	}
	return eachShard(ring, func(shard int) error {
		for items := range slices.Chunk(shards[shard], 500) {
			if _, err := ring.Register(ctx, shard, items); err != nil {
				return err
			}
		}
		return nil
	})
}

func sendAccount(i int) string { return fmt.Sprintf("account%06d", i) }

// sendRun is the measurements with one Redis.
type sendRun struct {
	*sendBench
	ring   *circulate.Ring
	server *connect.Single
	third  *instant
	name   string // what the figures' names begin with
	note   string
	queued atomic.Int64
}

// queue queues a send of a random account to one of its peers. Its data is when it was to be queued.
func (r *sendRun) queue(ctx context.Context, at time.Time) error {
	account := sendAccount(rand.IntN(r.accounts))
	id := circulate.NewSendID(account)
	send := circulate.Send{ID: id, Account: account, Kind: "instant", Peer: fmt.Sprint("peer", rand.IntN(sendPeers)), Type: "text",
		Data: strconv.AppendInt(nil, at.UnixNano(), 10)}
	if _, _, err := r.ring.Sends().Queue(ctx, send, "key of "+id, circulate.SendBounds{}); err != nil {
		return err
	}
	r.queued.Add(1)
	return nil
}

// latency queues sends at an even rate, and tells how long each takes from then to the third party.
// A send that is queued late, because the one before took long, counts from when it was to be.
func (r *sendRun) latency(ctx context.Context) error {
	n := int(r.length.Seconds() * float64(r.rate))
	due := make(chan time.Time, n) // nothing is left out
	errs := make(chan error, sendCallers)
	var callers sync.WaitGroup
	for range sendCallers {
		callers.Go(func() {
			for at := range due {
				if err := r.queue(ctx, at); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	began := time.Now()
	for i := range n {
		at := began.Add(time.Duration(i) * time.Second / time.Duration(r.rate))
		if err := pause(ctx, time.Until(at)); err != nil {
			break
		}
		due <- at
	}
	close(due)
	callers.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if err := r.arrived(ctx); err != nil {
		return err
	}
	all := r.third.took()
	at := fmt.Sprintf("at_%d_", r.rate)
	r.report.quantile(r.name+at+"p%.0f_ms", all, 0.5, "ms from queueing to the third party; "+r.note)
	r.report.quantile(r.name+at+"p%.0f_ms", all, 0.99, "ms")
	r.report.figure(r.name+at+"worst_ms", slices.Max(all), "ms")
	return nil
}

// throughput queues as many sends as the replica can make.
func (r *sendRun) throughput(ctx context.Context) error {
	queueing, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, sendCallers)
	var callers sync.WaitGroup
	for range sendCallers {
		callers.Go(func() {
			for queueing.Err() == nil {
				if r.queued.Load()-r.third.count.Load() > sendAhead {
					_ = pause(queueing, time.Millisecond)
					continue
				}
				if err := r.queue(ctx, time.Now()); err != nil {
					errs <- err
					stop()
					return
				}
			}
		})
	}
	_ = pause(queueing, sendWarm)
	before, err := sample(r.server)
	if err != nil {
		return err
	}
	first := r.third.count.Load()
	_ = pause(queueing, r.length)
	after, err := sample(r.server)
	if err != nil {
		return err
	}
	sends := float64(r.third.count.Load() - first)
	stop()
	callers.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if sends == 0 {
		return errors.New("the third party got nothing")
	}
	seconds := after.at.Sub(before.at).Seconds()
	r.report.figure(r.name+"per_s", sends/seconds, "sends/s; "+r.note)
	r.report.figure(r.name+"redis_us", 1e6*(after.redis-before.redis)/sends, "µs of Redis' processor a send")
	r.report.figure(r.name+"own_us", 1e6*(after.own-before.own)/sends, "µs of the replica's and the callers' processor a send")
	r.report.figure(r.name+"commands", (after.commands-before.commands)/sends, "commands a send, those of scripts among them")
	return r.arrived(ctx)
}

// arrived waits until the third party has all that was queued.
func (r *sendRun) arrived(ctx context.Context) error {
	for end := time.Now().Add(sendEnd); r.third.count.Load() < r.queued.Load(); {
		if time.Now().After(end) {
			return fmt.Errorf("%d sends were queued, and the third party has %d", r.queued.Load(), r.third.count.Load())
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// ended expects that every send has ended, and that the third party got none twice.
func (r *sendRun) ended(ctx context.Context) error {
	var left circulate.SendCount
	for end := time.Now().Add(sendEnd); ; {
		left = circulate.SendCount{}
		for shard := range r.ring.Shards() {
			c, err := r.ring.Sends().Count(ctx, shard)
			if err != nil {
				return err
			}
			left.Add(c)
		}
		if left == (circulate.SendCount{}) || time.Now().After(end) {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if twice := r.third.twice(); left != (circulate.SendCount{}) || twice > 0 {
		return fmt.Errorf("of %d sends, %d went out twice, and %+v have not ended", r.queued.Load(), twice, left)
	}
	return nil
}

// instant is a third party that accepts each send at once.
type instant struct {
	sleeper
	count atomic.Int64

	mu    sync.Mutex
	times map[string]int // by the send's id
	ms    []float64      // from when each was to be queued
}

func (*instant) Kind() string { return "instant" }

func (*instant) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"text"}}
}

func (*instant) PrepareSend(json.RawMessage, *poller.Outgoing, *poller.Message) error { return nil }

// Send accepts a send.
func (t *instant) Send(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
	at, err := strconv.ParseInt(string(r.Data), 10, 64)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", "is no time")
	}
	t.mu.Lock()
	t.ms = append(t.ms, ms(time.Since(time.Unix(0, at))))
	t.times[r.ID]++
	t.mu.Unlock()
	t.count.Add(1)
	return poller.Sent{VendorID: "v" + r.ID}, nil
}

// took returns how many milliseconds the sends so far took.
func (t *instant) took() []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.ms)
}

// twice returns how many sends it got more than once.
func (t *instant) twice() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, times := range t.times {
		if times > 1 {
			n++
		}
	}
	return n
}
