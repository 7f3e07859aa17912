package delivery_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a ring with messages in it.
type world struct {
	*testing.T
	server  circulate.Server
	ring    *circulate.Ring
	metrics *prometheus.Registry
	shards  int
	written []string       // ACCOUNT/ID in order
	count   map[string]int // account -> how many
	names   *scriptNames
}

func newWorld(t *testing.T, server circulate.Server, shards int) *world {
	t.Helper()
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: shards, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, server: server, ring: ring, metrics: prometheus.NewRegistry(), shards: shards, count: make(map[string]int), names: &scriptNames{of: make(map[string]string)}}
}

// inFakeTime runs a test in a bubble, on the embedded server.
func inFakeTime(t *testing.T, shards int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := connect.NewEmbedded()
		defer func() {
			_ = server.Close()
			synctest.Wait()
		}()
		test(newWorld(t, server, shards))
	})
}

// add writes n messages of each account, in turns, numbered from where the last
// add of it ended.
func (w *world) add(n int, accounts ...string) {
	w.Helper()
	for range n {
		for _, account := range accounts {
			w.write(fmt.Sprintf("%s/%d", account, w.count[account]))
			w.count[account]++
		}
	}
}

func (w *world) write(name string) {
	w.Helper()
	account, id, _ := strings.Cut(name, "/")
	w.do("XADD", w.key(account, "messages"), "*", "account", account, "kind", "feed", "id", id, "type", "text", "time", "", "data", `{"n":1}`)
	w.written = append(w.written, name)
}

func (w *world) key(account, name string) string {
	return w.ring.Tag(w.ring.ShardOf(account)) + ":" + name
}

func (w *world) do(name string, args ...any) any {
	w.Helper()
	conn, err := w.server.Conn(context.Background(), "")
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	if err != nil {
		w.Fatalf("%s %v: %v", name, args, err)
	}
	return reply
}

// consumer is one that runs.
type consumer struct {
	*cuttable
	cancel context.CancelFunc
	done   chan error
}

// start runs a consumer with connections of its own until it is stopped.
func (w *world) start(c delivery.Consumer) *consumer {
	w.Helper()
	server := &cuttable{Server: w.server, names: w.names}
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Log: testLog(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	c.Ring, c.Log = ring, testLog(w.T)
	if c.Group == "" {
		c.Group = "g"
	}
	if effect, ok := c.Handler.(*delivery.Effect); ok {
		own := *effect
		own.Ring = ring
		c.Handler = &own
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := &consumer{cuttable: server, cancel: cancel, done: make(chan error, 1)}
	go func() { running.done <- c.Run(ctx) }()
	return running
}

// stop ends a consumer as a signal does.
func (c *consumer) stop(t testing.TB) {
	t.Helper()
	c.cancel()
	if err := <-c.done; err != nil {
		t.Error(err)
	}
}

// cuttable is a server that a process may die in front of: from then on nothing
// that it sends arrives.
type cuttable struct {
	circulate.Server

	mu    sync.Mutex
	dead  bool
	names *scriptNames
	die   func(step string) death
	calls map[string]int

	freezeAt       string
	freeze, frozen <-chan struct{}
}

type death uint8

const (
	lives  death = iota
	before       // it dies, and the step is not done
	after        // the step is done, and it dies before the reply
)

func (c *cuttable) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *cuttable) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// at has the process die as told, by steps: the names of scripts, and commands.
func (c *cuttable) at(die func(step string) death) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.die = die
}

var errCut = errors.New("connection cut")

func (c *cuttable) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if c.isDead() {
		return nil, errCut
	}
	conn, err := c.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &cuttableConn{conn, c}, nil
}

type cuttableConn struct {
	redis.Conn
	server *cuttable
}

var scriptName = regexp.MustCompile(`(?m)^-- (\w+): `)

// scriptNames knows scripts that any consumer has sent once in full.
type scriptNames struct {
	mu sync.Mutex
	of map[string]string // SHA-1 -> name
}

func (n *scriptNames) name(command string, args []any) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch command {
	case "EVAL":
		text := args[0].(string)
		all := scriptName.FindAllStringSubmatch(text, -1)
		sum := sha1.Sum([]byte(text))
		name := all[len(all)-1][1]
		n.of[hex.EncodeToString(sum[:])] = name
		return name
	case "EVALSHA":
		return n.of[args[0].(string)]
	}
	return command
}

// step names what a command does, and counts it.
func (c *cuttable) step(command string, args []any) string {
	name := c.names.name(command, args)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[string]int)
	}
	c.calls[name]++
	return name
}

func (c *cuttable) verdict(step string) death {
	d, frozen := c.decide(step)
	if frozen != nil {
		<-frozen
	}
	return d
}

func (c *cuttable) decide(step string) (death, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return before, nil
	}
	if c.freeze != nil && step == c.freezeAt {
		c.frozen = c.freeze
	}
	if c.die == nil {
		return lives, c.frozen
	}
	d := c.die(step)
	c.dead = d != lives
	return d, c.frozen
}

// freezes stops the process when it is about to do a step, until thawed is closed.
func (c *cuttable) freezes(step string, thawed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freezeAt, c.freeze = step, thawed
}

func (c *cuttableConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	switch c.server.verdict(c.server.step(name, args)) {
	case before:
		return nil, errCut
	case after:
		_, _ = redis.DoWithTimeout(c.Conn, timeout, name, args...)
		return nil, errCut
	}
	reply, err := redis.DoWithTimeout(c.Conn, timeout, name, args...)
	if c.server.isDead() {
		return nil, errCut
	}
	return reply, err
}

// Send is how pipelines begin.
func (c *cuttableConn) Send(name string, args ...any) error {
	if c.server.verdict(c.server.step(name, args)) != lives {
		return errCut
	}
	return c.Conn.Send(name, args...)
}

func (c *cuttableConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

// commands is how many commands the consumer has sent.
func (c *cuttable) commands() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.calls {
		sum += n
	}
	return sum
}

// journal is a Handler's memory of what it was given.
type journal struct {
	mu     sync.Mutex
	lines  []string // ACCOUNT/ID#ATTEMPT
	times  []time.Time
	answer func(d delivery.Delivery) error
}

func (j *journal) handle(_ context.Context, d delivery.Delivery) error {
	j.mu.Lock()
	j.lines = append(j.lines, fmt.Sprintf("%s/%s#%d", d.Account, d.Message.ID, d.Attempt))
	j.times = append(j.times, time.Now())
	answer := j.answer
	j.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(d)
}

func (j *journal) handler() delivery.Handler { return delivery.Each(j.handle) }

// all gives what was handed over, and when the last was.
func (j *journal) all() (lines []string, last time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.times); n > 0 {
		last = j.times[n-1]
	}
	return append(lines, j.lines...), last
}

func (j *journal) total() int {
	lines, _ := j.all()
	return len(lines)
}

// answers has the journal answer otherwise from now on.
func (j *journal) answers(answer func(d delivery.Delivery) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answer = answer
}

// of gives what was handed over of an account, in order.
func (j *journal) of(account string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var got []string
	for _, line := range j.lines {
		if strings.HasPrefix(line, account+"/") {
			got = append(got, strings.TrimPrefix(line, account+"/"))
		}
	}
	return got
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}
