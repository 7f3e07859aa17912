package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

const (
	reshardEvery = 10 * time.Second
	reshardTo    = 6
)

// counting is an upstream that has a new message for each check. Its cursor counts them. It takes
// sends as well.
type counting struct {
	mu       sync.Mutex
	started  map[string]time.Time
	late     time.Duration // the most by which a check began too late
	latest   string
	takes    func(account string) time.Duration
	watching bool
	arrived  []string // the sends that it took, in order
}

func (*counting) Kind() string                   { return "counting" }
func (*counting) Validate(json.RawMessage) error { return nil }
func (*counting) RateKey(json.RawMessage) string { return "" }

func (c *counting) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	n := 0
	if len(r.Cursor) > 0 {
		var err error
		if n, err = strconv.Atoi(string(r.Cursor)); err != nil {
			return poller.Result{}, err
		}
	}
	c.began(r.Account)
	select {
	case <-ctx.Done():
		return poller.Result{}, ctx.Err()
	case <-time.After(c.takes(r.Account)):
	}
	next := strconv.Itoa(n + 1)
	return poller.Result{Cursor: []byte(next), Messages: []poller.Message{{ID: next, Type: "text", Time: time.Now(), Data: []byte(next)}}}, nil
}

func (*counting) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"text"}}
}

func (*counting) PrepareSend(json.RawMessage, *poller.Outgoing, *poller.Message) error { return nil }

func (c *counting) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	c.mu.Lock()
	c.arrived = append(c.arrived, r.ID)
	c.mu.Unlock()
	return poller.Sent{}, wait(ctx, c.takes(r.Account)/2)
}

func (c *counting) began(account string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if before, ok := c.started[account]; ok && c.watching {
		if late := now.Sub(before) - reshardEvery; late > c.late {
			c.late, c.latest = late, account
		}
	}
	c.started[account] = now
}

func (c *counting) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching = true
}

// member is a process of the service: a poller and a monitor.
type member struct {
	link   *replicas.Link
	cancel context.CancelFunc
	done   chan error
}

func startMember(w *replicas.World, name string, checker poller.Checker, metrics *poller.Metrics) *member {
	w.Helper()
	link := w.NewLink(name)
	link.Set(replicas.Conditions{Latency: 2 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{link, cancel, make(chan error, 1)}
	checkers, err := poller.NewCheckers(checker)
	if err != nil {
		w.Fatal(err)
	}
	open := func(ctx context.Context) (*circulate.Ring, error) { return w.Open(ctx, link) }
	ring, err := open(ctx)
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		m.done <- circulate.Follow(ctx, ring, open, func(ctx context.Context, ring *circulate.Ring) error {
			pool, err := poller.New(ring, checkers, poller.Config{Concurrency: 64}, poller.Options{Log: w.Journal.Logger(name), Metrics: metrics})
			if err != nil {
				return err
			}
			monitor, err := monitor.New(ring, monitor.Config{}, monitor.Options{Log: w.Journal.Logger(name)})
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return pool.Run(ctx) })
			group.Go(func() error { return monitor.Run(ctx) })
			return group.Wait()
		})
	}()
	return m
}

func (m *member) kill() {
	m.link.Kill()
	m.cancel()
}

// Pollers and monitors go on while the number of shards changes, and learn of it by
// themselves. No account is lost or doubled, no message is missing or doubled, and no
// account is checked late. No send arrives twice, those of a peer arrive in order, and each is
// accepted, or unknown if processes are killed.
func TestReshardUnderWay(t *testing.T) {
	for _, test := range []struct {
		name  string
		seeds int
		kills bool
		late  time.Duration // the most; what a dead process held is requeued within 20 s
	}{
		{"in peace", 1, false, circulate.MoveGate + time.Second},
		{"while processes are killed", killedSeeds, true, 25 * time.Second},
	} {
		for seed := range uint64(test.seeds) {
			t.Run(fmt.Sprintf("%s, seed %d", test.name, seed), func(t *testing.T) {
				t.Parallel()
				replicas.Run(t, replicas.Options{Seed: seed, Shards: 4}, func(w *replicas.World) {
					checker := &counting{started: make(map[string]time.Time), takes: func(account string) time.Duration {
						return time.Duration(replicas.Mix(seed, uint64(len(account)), uint64(time.Now().UnixNano()))%1500) * time.Millisecond
					}}
					late := reshardUnderWay(w, checker, poller.NewMetrics(nil), seed, test.kills)
					t.Logf("at most %v late", late)
					if late > test.late {
						t.Errorf("%q was checked %v late, at most %v is allowed", checker.latest, late, test.late)
					}
				})
			})
		}
	}
}

func reshardUnderWay(w *replicas.World, checker *counting, metrics *poller.Metrics, seed uint64, kills bool) time.Duration {
	ctx := context.Background()
	registered := make(map[string]bool)
	register := func(ring *circulate.Ring, id, cadence string) {
		w.Helper()
		record := fmt.Appendf(nil, `{"id":%q,"kind":"counting","cadence":%q}`, id, cadence)
		o, err := ring.Register(ctx, ring.ShardOf(id), []circulate.Registration{{ID: id, Record: record}})
		if err != nil || o[0] != circulate.Created {
			w.Fatalf("register %q: %c, %v", id, o, err)
		}
		registered[id] = true
	}
	for n := range 150 {
		register(w.Ring(), fmt.Sprintf("account-%03d", n), "every 10s")
	}
	register(w.Ring(), "tight-1", "every 0s")
	register(w.Ring(), "tight-2", "every 0s")
	members := make([]*member, 3)
	for i := range members {
		members[i] = startMember(w, fmt.Sprintf("member%d", i), checker, metrics)
	}
	time.Sleep(35 * time.Second)
	checker.watch()

	if _, err := w.Ring().Mover().Begin(ctx, reshardTo); err != nil {
		w.Fatal(err)
	}
	ring, err := w.Open(ctx, w.NewLink("registry"))
	if err != nil {
		w.Fatal(err)
	}
	var retired []*member
	var sends []circulate.Send
	began := time.Now()
	for n := 0; ; n++ {
		now, err := ring.Mover().State(ctx)
		if err != nil {
			w.Fatal(err)
		}
		if now.Phase == circulate.Draining {
			break
		}
		if time.Since(began) > 10*time.Minute {
			w.Fatal("it does not come to an end")
		}
		// Accounts begin to move after some seconds. Kills are rare enough that accounts
		// that wait for the end of one process are not held by the next one that dies.
		if i := int(seed % 3); kills && n%70 == 11+int(seed) {
			members[i].kill()
			retired = append(retired, members[i])
			members[i] = startMember(w, fmt.Sprintf("member%d-%d", i, n), checker, metrics)
		}
		if n < 30 {
			register(ring, fmt.Sprintf("late-%d", n), "every 10s")
			id := fmt.Sprintf("account-%03d", n)
			if k, err := ring.Deregister(ctx, ring.ShardOf(id), []string{id}); err != nil || k != 1 {
				w.Fatalf("deregister %q: %d, %v", id, k, err)
			}
			delete(registered, id)
		}
		account := fmt.Sprintf("account-%03d", 30+n%100)
		send := circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: "counting", Peer: "peer"}
		if _, _, err := ring.Sends().Queue(ctx, send, "", circulate.SendBounds{}); err != nil {
			w.Fatal(err)
		}
		sends = append(sends, send)
		send.ID, send.Account = circulate.NewSendID("tight-1"), "tight-1" // it has sends under way all the time
		if _, _, err := ring.Sends().Queue(ctx, send, "", circulate.SendBounds{}); err != nil {
			w.Fatal(err)
		}
		sends = append(sends, send)
		time.Sleep(time.Second / 2)
	}
	w.Logf("moved in %v", time.Since(began))
	time.Sleep(35 * time.Second)
	for _, m := range append(retired, members...) {
		m.cancel()
		if err := <-m.done; err != nil {
			w.Error(err)
		}
	}
	expectAll(w, ring, registered)
	expectSends(w, ring, sends, checker.arrived, kills)
	return checker.late
}

// expectSends expects that each send arrived once and is accepted, in the order in which those of its
// account were queued. One that was under way when a process was killed is unknown.
func expectSends(w *replicas.World, ring *circulate.Ring, sends []circulate.Send, arrived []string, kills bool) {
	w.Helper()
	places := make(map[string][]int)
	for at, id := range arrived {
		places[id] = append(places[id], at)
	}
	last, unknown := make(map[string]int), 0
	for i, send := range sends {
		got, err := ring.Sends().Look(context.Background(), send.ID)
		if err != nil {
			w.Fatalf("send %d: %v", i, err)
		}
		at := places[send.ID]
		switch {
		case len(at) > 1:
			w.Errorf("send %d arrived %d times, and is %s", i, len(at), got.State)
		case kills && got.State == circulate.SendUnknown:
			unknown++
		case got.State != circulate.SendAccepted || len(at) == 0:
			w.Errorf("send %d of %s arrived %d times, and is %s, %s", i, send.Account, len(at), got.State, got.Code)
		case at[0] < last[send.Account]:
			w.Errorf("send %d of %s arrived before an earlier one", i, send.Account)
		default:
			last[send.Account] = at[0]
		}
	}
	w.Logf("%d sends, %d of them unknown", len(sends), unknown)
}

// expectAll expects the accounts, each in one place, and each with its messages from the
// first to the last, once.
func expectAll(w *replicas.World, ring *circulate.Ring, registered map[string]bool) {
	w.Helper()
	ctx := context.Background()
	audited, err := ring.Audit(ctx, circulate.AuditOptions{Records: true})
	if err != nil || len(audited.Findings) > 0 || audited.Accounts != len(registered) {
		w.Errorf("%d accounts, want %d; %+v, %v", audited.Accounts, len(registered), audited.Findings, err)
	}
	last := make(map[string]int)
	for shard := range ring.Shards() { // the shards that accounts left come first
		found, err := ring.Streams().Messages(ctx, shard, circulate.StreamStart, 1_000_000)
		if err != nil {
			w.Fatal(err)
		}
		for _, f := range found {
			if n, err := strconv.Atoi(f.Message.ID); err != nil || n != last[f.Account]+1 {
				w.Fatalf("%q: message %s follows %d", f.Account, f.Message.ID, last[f.Account])
			}
			last[f.Account]++
		}
	}
	for id := range registered {
		views, err := ring.Look(ctx, ring.ShardOf(id), []string{id})
		if err != nil || len(views) != 1 || last[id] < 3 {
			w.Errorf("%q: %v, %v, %d messages", id, views, err, last[id])
		}
	}
}
