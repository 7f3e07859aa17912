package delivery

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery/internal/refusals"
)

const (
	tick         = 250 * time.Millisecond // between two looks at the shards; a look costs Redis nothing
	heartbeat    = time.Second
	stepTimeout  = 5 * time.Second // for a step with Redis that is not part of handling
	farewell     = 2 * time.Second // for a handler to return once its context is done
	measureEvery = 15 * time.Second
	atOnce       = 32 // shards whose leases are asked for at once
)

// member is a running consumer: a member of its group.
type member struct {
	Consumer
	name     string
	hanging  *hanging
	work     context.Context // of handlers: done some time after Run's
	slots    chan struct{}   // batches in memory
	suspects chan struct{}   // messages that may kill the process: one at a time
	seed     maphash.Seed    // of the parts that batches are divided into
	losses   losses
	refused  *refusals.Record // messages that the handler failed to handle
	deferred *refusals.Record // messages that it put off
	takes    atomic.Bool      // the handler has handled a message of its last batch
	meters   meters
	waiting  atomic.Int64 // accounts with waiting messages
	outages  outages

	sessions map[int]*session           // shard -> its session; only manage uses it
	peers    map[string]group.Condition // only manage uses it

	made  time.Time    // when every shard had the group last, since this consumer joined; only manage uses it
	fresh atomic.Int64 // shards in which the group was made since the last log line
	told  time.Time    // when that was last logged; only manage uses it

	mu      sync.Mutex
	reached map[int]string   // shard -> the last position that this process has seen
	reading map[int]*session // shard -> its session
}

// manage sends this consumer's signs of life, and maintains a session for each shard of its part,
// until ctx is done. Then the sessions end by themselves.
func (g *member) manage(ctx context.Context) {
	ours := make([]bool, g.Ring.Shards())
	var beat, learned time.Time
	try := make(map[int]time.Time) // shard -> when to ask for its lease
	var alive []string
	aside := false
	for {
		now := time.Now()
		news := g.hanging.news()
		if aside = g.aside(aside); aside {
			alive, beat = nil, time.Time{}
		} else if news || now.Sub(beat) >= min(heartbeat, g.TakeOver/5) {
			beat = now
			if members, err := g.join(ctx); err == nil {
				alive, news = members, true
			} else {
				g.failed("join", err)
			}
			g.watchRefusals()
			if len(alive) > 1 && now.Sub(learned) >= g.TakeOver/3 {
				learned = now
				g.learn(ctx)
			}
		}
		if news {
			_, hang := g.hanging.all()
			g.peers[g.name] = group.Condition{Declined: hang}
			ours = g.self(g.TakeOver).Part(alive, g.peers)
		}
		g.make(ctx)
		g.tellLosses(gatherLosses)
		g.take(ctx, g.reviewSessions(ours, try), try)
		g.meters.shards.Set(float64(len(g.sessions)))
		if !sleep(ctx, tick) {
			return
		}
	}
}

// reviewSessions forgets sessions that have ended, tells sessions of shards that are no longer ours
// to end, and returns those of our shards for which a new session may be tried now.
func (g *member) reviewSessions(ours []bool, try map[int]time.Time) (missing []int) {
	now := time.Now()
	for shard := range ours {
		if s := g.sessions[shard]; s != nil {
			select {
			case <-s.ended:
				delete(g.sessions, shard)
				if s.stuck {
					continue // this consumer declines the shard: the group divides its shards again first
				}
			default:
				if !ours[shard] {
					s.yield()
				}
				continue
			}
		}
		if ours[shard] && !now.Before(try[shard]) {
			missing = append(missing, shard)
		}
	}
	return missing
}

// take asks for the leases of shards, several at a time, and begins sessions.
func (g *member) take(ctx context.Context, shards []int, try map[int]time.Time) {
	if len(shards) == 0 {
		return
	}
	step, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var mu sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(atOnce)
	for _, shard := range shards {
		asking.Go(func() error {
			begun, err := g.self(g.TakeOver).Begin(step, shard)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				g.failed("lease", err)
				try[shard] = time.Now().Add(time.Second)
			case begun.Lease == nil:
				// Its holder may be returning it just now, or be dead.
				try[shard] = time.Now().Add(min(begun.After, time.Second))
			default:
				g.sessions[shard] = g.begin(ctx, begun)
			}
			return nil
		})
	}
	_ = asking.Wait() // each has reported its own error
}

// self describes this consumer to its group, where it counts as gone when it is silent for ttl.
func (g *member) self(ttl time.Duration) group.Member {
	return group.Of(g.Ring).Member(g.Group, g.name, ttl)
}

func (g *member) join(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	_, hang := g.hanging.all()
	return g.self(g.TakeOver).Join(ctx, group.Condition{Declined: hang, Deferred: g.why()})
}

// askEvery is how often a consumer asks for events again, in case Redis lost the last request.
const askEvery = time.Minute

// make creates the group in every shard, including new shards and those that peers read, so that
// messages found from now on belong to the group in every shard. It also says in every shard
// whether the group asks for events.
func (g *member) make(ctx context.Context) {
	if g.made.IsZero() || g.Events && time.Since(g.made) >= askEvery {
		step, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		created, err := group.Of(g.Ring).Ensure(step, g.Group, g.after)
		g.fresh.Add(int64(created))
		if err == nil {
			err = group.Of(g.Ring).TellEvents(step, g.Group, g.Events)
		}
		if err != nil {
			g.failed("ensure group", err)
			return
		}
		g.made = time.Now()
	}
	g.tellMade()
}

// toldEach is the least time between two log lines about a created group.
const toldEach = time.Minute

// tellMade logs that the group was created, once for all its shards, and again if somebody
// removes it while this consumer runs.
func (g *member) tellMade() {
	if time.Since(g.told) < toldEach {
		return
	}
	if n := g.fresh.Swap(0); n > 0 {
		g.told = time.Now()
		g.Log.Info("consumer group created", "shards", n, "start", g.Start)
	}
}

// quit signs this consumer off, so that its peers need not wait.
func (g *member) quit() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.work), stepTimeout)
	defer cancel()
	if err := g.self(0).Quit(ctx); err != nil {
		g.failed("quit", err)
	}
}

// rest waits for calls to Redis that are under way on behalf of this consumer.
func (g *member) rest() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.work), stepTimeout)
	defer cancel()
	group.Of(g.Ring).Unwatched(ctx)
}

// failed counts a failed step. The ring logs once that Redis is away.
func (g *member) failed(step string, err error) {
	g.meters.redisErrors.WithLabelValues(g.Group, step).Inc()
	g.Log.Debug("step failed", "step", step, "error", err)
}

// reads notes the session of a shard; nil means that the shard has none any more.
func (g *member) reads(shard int, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s != nil {
		g.reading[shard] = s
	} else {
		delete(g.reading, shard)
	}
}

// isRead reports whether a shard has a session.
func (g *member) isRead(shard int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reading[shard] != nil
}

// reach notes how far this process has seen a shard.
func (g *member) reach(shard int, position string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reached[shard] = position
}

// after returns where the group should begin in a shard that does not have it: at the last position
// that this process has seen, so that a group that somebody removed goes on, or else at Start.
func (g *member) after(shard int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if position, ok := g.reached[shard]; ok {
		return position
	}
	return g.Start
}

// sleep waits and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
