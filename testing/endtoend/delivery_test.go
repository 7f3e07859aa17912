package endtoend

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/pgtest"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	deliveryShards   = 8
	deliveryAccounts = 40
	postInterval     = 20 * time.Millisecond
)

// death is where a consumer dies, and at which time of getting there.
type death struct {
	at  point
	nth int32
}

// deaths are what happens to one consumer of a group after the other. Deaths during
// takeover follow one that leaves something to take over.
var deaths = map[string][]death{
	effectRedis: {
		{afterRead, 3}, {beforeRedelivery, 1}, {afterRedelivery, 1}, {effectSent, 2},
		{beforeEffect, 3}, {afterRedelivery, 1}, {afterEffect, 3}, {afterLease, 2},
	},
	effectRemembered: {{effectSent, 2}, {beforeEffect, 3}, {afterRedelivery, 1}, {afterEffect, 3}},
	effectSQLite: {
		{afterRead, 3}, {beforeRedelivery, 1}, {afterRedelivery, 1}, {inTransaction, 5},
		{afterHandling, 2}, {afterRedelivery, 1}, {beforeAck, 2}, {afterAck, 2},
	},
	effectPostgres: {
		{afterRead, 3}, {beforeRedelivery, 1}, {afterRedelivery, 1}, {inTransaction, 5},
		{afterHandling, 2}, {afterRedelivery, 1}, {beforeAck, 2}, {afterAck, 2},
	},
	effectWebhook: {{beforeHandling, 3}, {beforeRedelivery, 1}, {afterHandling, 2}, {afterRedelivery, 1}, {beforeAck, 2}, {afterAck, 2}},
}

// rewinds are the groups that may be rewound: they remember what was applied by account
// and message id, not only by what is pending.
var rewinds = []string{effectRemembered, effectSQLite, effectPostgres, effectWebhook}

// TestEachMessageIsAppliedOnce has a replica find messages, and consumer processes apply
// them in five ways, each a group of its own: in Redis with and without memory, in
// SQLite, in PostgreSQL, and at a webhook receiver. Consumers kill themselves with
// SIGKILL at each step. Some are frozen until they count as dead. Redis is killed twice
// and restarts from its AOF. The last consumers lose some requests and replies, and their
// connections are cut. Groups that can be rewound are rewound. In the end each message
// was applied exactly once, in the order of its account, and the receiver had each under
// one id.
//
// The AOF has appendfsync always, because exactly once needs a Redis that keeps what it
// has acknowledged. With everysec a machine that fails may lose the last second of
// streams and acknowledgements. Then what the two variants in Redis applied is lost with
// them, SQL recognises what is found again, and the receiver is sent it again under the
// same id.
func TestEachMessageIsAppliedOnce(t *testing.T) {
	w := newDeliveryWorld(t)
	w.source.check(t, w.ring, deliveryAccounts)
	stopPosting := w.source.postEvery(postInterval, deliveryAccounts)
	defer func() { stopPosting() }()

	var all errgroup.Group
	var fallen atomic.Int32
	total := 0
	for effect := range deaths {
		total += len(deaths[effect])
		all.Go(func() error {
			for _, d := range deaths[effect] {
				if err := w.dieOnce(effect, d); err != nil {
					return err
				}
				fallen.Add(1)
			}
			return nil
		})
	}
	eventually(t, time.Minute, "half of the consumers are dead", func() bool { return int(fallen.Load()) >= total/2 })
	w.redis.Kill()
	w.redis.Restart(t)
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}

	// A consumer that is frozen with messages in hand is declared dead, and does not know
	// it when it goes on. This is not done with a database, which it may keep locked
	// meanwhile.
	survivors := w.freeze(map[string]point{effectRedis: beforeEffect, effectRemembered: beforeEffect})
	frozen := len(survivors)
	for effect := range deaths {
		survivors = append(survivors,
			w.start(role{Redis: w.redis.URL(), Effect: effect, LoseEach: 31}),
			w.start(role{Redis: "redis://" + w.cut.Listen, Effect: effect}))
	}
	stopPosting()
	w.awaitRead("what the dead left is read")
	for _, p := range survivors[:frozen] {
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, p.Name+" learns what it missed", func() bool { return p.LogCount("leases lost") > 0 })
	}
	stopPosting = w.source.postEvery(postInterval, deliveryAccounts)
	for _, effect := range rewinds {
		w.rewind(effect)
	}
	w.redis.Kill()
	w.redis.Restart(t)
	stopPosting()
	w.awaitRead("all is read, twice where it was rewound")
	var ending errgroup.Group
	for _, p := range survivors {
		ending.Go(func() error { return p.Terminate(30 * time.Second) })
	}
	if err := ending.Wait(); err != nil {
		t.Error(err)
	}
	w.verify()
	if received, calls, _ := w.receiver.taken(); calls <= len(received)+len(received)/11 {
		t.Errorf("the receiver was called %d times for %d messages, though its group was rewound", calls, len(received))
	}
	t.Logf("%d consumers died; each of %d messages was applied once in each of %d ways", total, w.source.total(), len(deaths))
}

// deliveryWorld is everything that consumers and oracles need.
type deliveryWorld struct {
	*testing.T
	redis    *redistest.Server
	server   redistest.Redis
	ring     *circulate.Ring
	cut      *toxiproxy.Proxy // a way to Redis on which connections are cut in the middle of replies
	source   *source
	receiver *receiver
	sqlite   *sql.DB
	postgres *sql.DB
	targets  map[string]string // effect -> where to
	self     string
}

func newDeliveryWorld(t *testing.T) *deliveryWorld {
	t.Helper()
	w := &deliveryWorld{T: t, source: &source{posted: make(map[string]int)}, receiver: startReceiver(t)}
	w.redis = redistest.Start(t, redistest.WithAOF())
	w.server = redistest.Connect(t, w.redis)
	var err error
	if w.ring, err = circulate.Open(t.Context(), w.server, circulate.Options{Shards: deliveryShards}); err != nil {
		t.Fatal(err)
	}
	if w.self, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	file := "file:" + filepath.Join(t.TempDir(), "effects.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"
	if w.sqlite, err = sql.Open("sqlite", file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.sqlite.Close() })
	makeTable(t, w.sqlite, "INTEGER PRIMARY KEY AUTOINCREMENT")
	cluster := pgtest.Start(t)
	database := cluster.URL(cluster.NewDatabase(t))
	w.postgres = pgtest.Open(t, database)
	makeTable(t, w.postgres, "BIGSERIAL PRIMARY KEY")
	w.targets = map[string]string{effectSQLite: file, effectPostgres: database, effectWebhook: w.receiver.endpoints()}

	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w.cut = toxiproxy.NewProxy(proxies, "redis", "127.0.0.1:0", w.redis.Addr())
	if err := w.cut.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cut.Stop)
	if _, err := w.cut.Toxics.AddToxicJson(strings.NewReader(`{"type":"limit_data","stream":"downstream","attributes":{"bytes":20000}}`)); err != nil {
		t.Fatal(err)
	}
	return w
}

// start starts a consumer process.
func (w *deliveryWorld) start(r role) *processes.Process {
	w.Helper()
	p, err := w.launch(r)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *deliveryWorld) launch(r role) (*processes.Process, error) {
	r.Target = w.targets[r.Effect]
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p, err := processes.Start(r.Effect, w.self, []string{consumerVariable + "=" + string(text)})
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() {
		p.Kill()
		log := p.Log()
		if strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
			w.Errorf("%s said:\n%s", p.Name, log)
		} else if w.Failed() {
			lines := strings.Split(log, "\n")
			w.Logf("%s said, at the end:\n%s", p.Name, strings.Join(lines[max(0, len(lines)-10):], "\n"))
		}
	})
	return p, nil
}

// dieOnce starts a consumer and waits until it has killed itself.
func (w *deliveryWorld) dieOnce(effect string, d death) error {
	p, err := w.launch(role{Redis: w.redis.URL(), Effect: effect, Dies: d.at, Nth: d.nth})
	if err != nil {
		return err
	}
	for deadline := time.After(time.Minute); !p.Ended(); {
		select {
		case <-deadline:
			return fmt.Errorf("%s: a consumer does not get to %q", effect, d.at)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if !strings.Contains(p.Log(), fmt.Sprint(lastWords, " ", d.at)) {
		return fmt.Errorf("%s: a consumer that was to die at %q ended otherwise:\n%s", effect, d.at, p.Log())
	}
	return nil
}

// freeze starts a consumer for each effect and waits until they have frozen.
func (w *deliveryWorld) freeze(at map[string]point) (frozen []*processes.Process) {
	w.Helper()
	for effect, p := range at {
		frozen = append(frozen, w.start(role{Redis: w.redis.URL(), Effect: effect, Dies: p, Nth: 3, Freezes: true}))
	}
	for _, p := range frozen {
		eventually(w.T, 30*time.Second, p.Name+" is frozen", func() bool { return p.LogCount(freezes) > 0 })
	}
	return frozen
}

// readWithin is how long consumers may take to read what was posted. What several consumers may
// have died of they are given one by one, each step from a Redis whose requests and replies are
// lost. The longer the deaths took, the more there is.
const readWithin = 3 * time.Minute

// awaitRead waits until all posted messages are in the streams, and all groups have read
// and acknowledged them. Nothing may be posted meanwhile.
func (w *deliveryWorld) awaitRead(what string) {
	w.Helper()
	posted := w.source.total()
	missing := ""
	defer func() {
		if missing != "" {
			w.Log(missing)
		}
	}()
	took := eventually(w.T, readWithin, what, func() bool {
		var err error
		missing, err = w.unread(posted)
		if err != nil && !circulate.Unavailable(err) { // a connection from before a restart is unavailable
			w.Fatal(err)
		}
		return missing == "" && err == nil
	})
	w.Logf("%s: after %v", what, took.Round(time.Millisecond))
}

// unread returns what is missing until so many messages are in the streams, and all
// groups have read and acknowledged them.
func (w *deliveryWorld) unread(posted int) (string, error) {
	found := 0
	for shard := range w.ring.Shards() {
		count, err := w.ring.Count(w.Context(), shard)
		if err != nil {
			return "", err
		}
		found += count.Messages
	}
	for name := range deaths {
		for shard := range w.ring.Shards() {
			s, err := w.ring.Streams().GroupState(w.Context(), shard, name)
			if err != nil && !errors.Is(err, circulate.ErrNoGroup) {
				return "", err
			}
			if s.Lag > 0 || s.Pending > 0 {
				return fmt.Sprintf("group %s, shard %d: %+v", name, shard, s), nil
			}
		}
	}
	if found < posted {
		return fmt.Sprintf("%d of %d messages were found", found, posted), nil
	}
	return "", nil
}

// rewind sets a group back to the start of all streams.
func (w *deliveryWorld) rewind(name string) {
	w.Helper()
	conn, err := w.redis.Dial()
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	for shard := range w.ring.Shards() {
		if _, err := conn.Do("XGROUP", "SETID", w.ring.Tag(shard)+":messages", name, "0"); err != nil {
			w.Fatal(err)
		}
	}
}

// verify asks the oracles.
func (w *deliveryWorld) verify() {
	w.Helper()
	received, _, bad := w.receiver.taken()
	for effect, all := range map[string]applied{
		effectRedis:      inRedis(w.T, w.redis, w.ring, effectRedis),
		effectRemembered: inRedis(w.T, w.redis, w.ring, effectRemembered),
		effectSQLite:     inTable(w.T, w.sqlite),
		effectPostgres:   inTable(w.T, w.postgres),
		effectWebhook:    received,
	} {
		for _, fault := range all.faults(w.source) {
			w.Errorf("%s: %s", effect, fault)
		}
	}
	for _, fault := range bad {
		w.Errorf("receiver: %s", fault)
	}
	for shard := range w.ring.Shards() {
		letters, err := group.Of(w.ring).DeadLetters(w.Context(), shard, circulate.StreamStart, 10)
		if err != nil {
			w.Fatal(err)
		}
		for _, l := range letters {
			w.Errorf("dead letter of %s: %s/%s after %d deliveries: %s", l.Group, l.Account, l.Message.ID, l.Deliveries, l.Error)
		}
	}
}
