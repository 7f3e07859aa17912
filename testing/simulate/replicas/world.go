package replicas

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/mutants"
)

// Options are a world's settings.
type Options struct {
	Seed   uint64
	Shards int // of its one namespace; 0 means circulate.DefaultShards

	// Mutate changes the text of every script before Redis gets it, to test whether a
	// broken rule is noticed; nil: no script is changed.
	Mutate func(text string) (string, error)
}

// World is an embedded Redis and all that reaches it.
type World struct {
	*testing.T
	Journal *Journal

	redis   *connect.Embedded
	seed    uint64
	mutants *mutants.Rewriter
	ring    *circulate.Ring // through a link without faults

	mu      sync.Mutex
	down    bool
	offset  time.Duration // of Redis' clock
	refusal string        // the error that answers every command
	links   []*Link
	pollers int
}

// Run runs a test of a world in a bubble of fake time. All that the test started
// must have ended when it returns.
func Run(t *testing.T, o Options, test func(w *World)) {
	t.Helper()
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		w := &World{T: t, Journal: &Journal{}, redis: server, seed: o.Seed, mutants: mutants.NewRewriter(o.Mutate)}
		server.SetClock(w.Now)
		if err := w.serve(); err != nil {
			t.Fatal(err)
		}
		ring, err := circulate.Open(t.Context(), w.NewLink("observer"), circulate.Options{Shards: o.Shards})
		if err != nil {
			t.Fatal(err)
		}
		w.ring = ring
		test(w)
	})
}

// Ring returns the ring through a link without faults.
func (w *World) Ring() *circulate.Ring { return w.ring }

// Open opens the ring through a link, and logs to the world's journal.
func (w *World) Open(ctx context.Context, l *Link) (*circulate.Ring, error) {
	return circulate.Open(ctx, l, circulate.Options{Shards: w.ring.Shards(), Log: w.Journal.Logger(l.name)})
}

// serve starts the server, or starts it again.
func (w *World) serve() error {
	conn, err := w.redis.Miniredis().Dial()
	if err != nil {
		return err
	}
	return conn.Close()
}

// refused returns the error with which Redis refuses commands, or "".
func (w *World) refused() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusal
}

// Restart ends the server, and starts it again after a while, with its data but without
// its scripts and connections.
func (w *World) Restart(after time.Duration) {
	w.Helper()
	w.setDown(true)
	w.redis.Miniredis().Close()
	for _, l := range w.all() {
		l.hangUp()
	}
	time.Sleep(after)
	if err := w.serve(); err != nil {
		w.Fatal(err)
	}
	w.setDown(false)
	w.Forget()
}

func (w *World) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

func (w *World) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

// Forget drops the scripts that Redis has.
func (w *World) Forget() {
	w.Helper()
	if _, err := w.Do("SCRIPT", "FLUSH"); err != nil {
		w.Error(err)
	}
}

// Refuse has Redis answer every command with an error; "" ends that.
func (w *World) Refuse(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = text
}

// Serves reports whether Redis serves.
func (w *World) Serves() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.down && w.refusal == ""
}

// Jump moves Redis' clock.
func (w *World) Jump(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset += by
}

// Now returns the time by Redis' clock.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

// past calls a function with a connection that no link is in. A connection that a restart
// cut is not noticed before it is used, so it tries again with others.
func (w *World) past(do func(conn redis.Conn) error) error {
	for {
		conn, err := w.redis.Conn(context.Background(), "")
		if err != nil {
			return err
		}
		err = do(conn)
		cut := conn.Err() != nil
		_ = conn.Close() // it goes back to its pool
		if !cut {
			return err
		}
	}
}

// Do does a command without any link.
func (w *World) Do(name string, args ...any) (reply any, err error) {
	err = w.past(func(conn redis.Conn) (err error) {
		reply, err = conn.Do(name, args...)
		return err
	})
	return reply, err
}

// Key returns the name of a shard's key.
func (w *World) Key(shard int, name string) string {
	return fmt.Sprintf("{%s:%0*d}:%s", w.ring.Namespace(), len(fmt.Sprint(w.ring.Shards()-1)), shard, name)
}

func (w *World) all() []*Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Link(nil), w.links...)
}

// Mix returns a number that follows from others but looks random.
func Mix(numbers ...uint64) uint64 {
	x := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers { // the finalizer of SplitMix64
		x += n + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// Chance is Mix as a number in [0, 1).
func Chance(numbers ...uint64) float64 { return float64(Mix(numbers...)>>11) / (1 << 53) }
