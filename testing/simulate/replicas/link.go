package replicas

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Conditions are how well a link works. Chances are for each exchange: a command, or a
// pipeline with its replies.
type Conditions struct {
	NotDone   float64       // the connection breaks before anything was done
	ReplyLost float64       // the connection breaks after all was done
	Late      float64       // the caller gets no reply in time; it is done all the same, later
	LateBy    time.Duration // the most by which it is late
	Latency   time.Duration // in each direction, at most

	// Spares exempts keys from all that except the latency; nil: none.
	Spares func(key string) bool
}

var (
	errCut     = errors.New("connection cut")
	errTimeout = errors.New("i/o timeout")
	errRefused = errors.New("connection refused")
)

// Link is one process's way to Redis. It implements circulate.Server.
type Link struct {
	world *World
	name  string
	id    uint64

	mu         sync.Mutex
	conditions Conditions
	cut, dead  bool
	hung       chan struct{} // closed when it ends; nil: it does not hang
	paused     chan struct{} // closed when it ends; nil: it is not paused
	armed      *arm
	lost       chan struct{} // closed when subscriptions break
	millis     int64         // when the last exchange was
	nth        uint64        // how many exchanges there were at that time
	counts     Faults
}

// Faults counts what a link did.
type Faults struct{ Exchanges, NotDone, ReplyLost, Late, Cut, TimedOut int }

type arm struct {
	left  int
	after bool // it ends after the command was done
	then  func()
}

// NewLink makes a link without faults.
func (w *World) NewLink(name string) *Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &Link{world: w, name: name, id: uint64(len(w.links)), lost: make(chan struct{})}
	w.links = append(w.links, l)
	return l
}

// Name returns what the link was made with.
func (l *Link) Name() string { return l.name }

// Set changes the conditions.
func (l *Link) Set(c Conditions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conditions = c
}

// Cut breaks the link until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	l.cut = true
	l.mu.Unlock()
	l.hangUp()
}

// Hang lets nothing through until Heal. Callers only see silence.
func (l *Link) Hang() {
	l.mu.Lock()
	if l.hung == nil {
		l.hung = make(chan struct{})
	}
	l.mu.Unlock()
	l.hangUp() // a subscription would notice its silence within a second
}

// Pause stops the process whenever it calls Redis, until Heal.
func (l *Link) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused == nil {
		l.paused = make(chan struct{})
	}
}

// Heal ends all faults except death.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.conditions, l.armed = false, Conditions{}, nil
	if l.hung != nil {
		close(l.hung)
		l.hung = nil
	}
	if l.paused != nil {
		close(l.paused)
		l.paused = nil
	}
}

// Kill breaks the link for ever.
func (l *Link) Kill() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.Heal()
	l.hangUp()
}

// killAt kills the process at the n-th exchange from now, before or after it is done, and
// then calls a function.
func (l *Link) killAt(n int, after bool, then func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = &arm{n, after, then}
}

// Counts returns what the link did so far.
func (l *Link) Counts() Faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// hangUp breaks subscriptions.
func (l *Link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.lost)
	l.lost = make(chan struct{})
}

// stand waits while the process is paused, and returns how long that was.
func (l *Link) stand() time.Duration {
	began := time.Now()
	for {
		l.mu.Lock()
		paused := l.paused
		l.mu.Unlock()
		if paused == nil {
			return time.Since(began)
		}
		<-paused
	}
}

// WhilePaused waits while the process is paused.
func (l *Link) WhilePaused() { l.stand() }

func (l *Link) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.dead {
		l.counts.Cut++
		return errCut
	}
	return nil
}

// Conn lends a connection, which reaches the server when it is used.
func (l *Link) Conn(ctx context.Context, key string) (redis.Conn, error) {
	l.stand()
	if err := l.broken(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	hung := l.hung
	l.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if l.world.isDown() {
		return nil, errRefused
	}
	return &conn{link: l, key: key}, nil
}

// fate is what happens to one exchange.
type fate struct {
	verdict       verdict
	there, back   time.Duration
	late          time.Duration
	afterAll      bool // a coin for what is left to chance
	diesBefore    bool
	diesAfterward bool
	then          func()
}

type verdict uint8

const (
	healthy verdict = iota
	notDone
	replyLost
	late
)

// roll decides an exchange's fate.
func (l *Link) roll(key string) fate {
	now := time.Now().UnixMilli()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Exchanges++
	if now != l.millis {
		l.millis, l.nth = now, 0
	}
	l.nth++
	chance := func(what uint64) float64 { return Chance(l.world.seed, l.id, uint64(now), l.nth, what) }
	c := l.conditions
	f := fate{
		there: time.Duration(chance(1) * float64(c.Latency)), back: time.Duration(chance(2) * float64(c.Latency)),
		late: time.Duration(chance(3) * float64(c.LateBy)), afterAll: chance(4) < 0.5,
	}
	if a := l.armed; a != nil {
		if a.left--; a.left <= 0 {
			l.armed, l.dead = nil, true
			f.diesBefore, f.diesAfterward, f.then = !a.after, a.after, a.then
		}
	}
	if c.Spares != nil && c.Spares(key) {
		return f
	}
	switch p := chance(5); {
	case p < c.NotDone:
		f.verdict = notDone
		l.counts.NotDone++
	case p < c.NotDone+c.ReplyLost:
		f.verdict = replyLost
		l.counts.ReplyLost++
	case p < c.NotDone+c.ReplyLost+c.Late:
		f.verdict = late
		l.counts.Late++
	}
	return f
}

func (l *Link) timedOut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.TimedOut++
	return fmt.Errorf("%s: %w", l.name, errTimeout)
}

// Counts returns what all links of the world did.
func (w *World) Counts() Faults {
	var sum Faults
	for _, l := range w.all() {
		sum.Add(l.Counts())
	}
	return sum
}

// Add adds the counts of another.
func (f *Faults) Add(more Faults) {
	f.Exchanges += more.Exchanges
	f.NotDone += more.NotDone
	f.ReplyLost += more.ReplyLost
	f.Late += more.Late
	f.Cut += more.Cut
	f.TimedOut += more.TimedOut
}
