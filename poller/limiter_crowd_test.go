package poller

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// crowd is a number of accounts that become due as in a pool's shards. There are several
// shards, each looked at every 100 ms, in fake time.
type crowd struct {
	*testing.T
	limiter  *limiter
	kind     string
	held     func() time.Duration // how long a check takes
	interval time.Duration        // from a check's start to the next one's due time; 0: once

	accounts []*visitor
	starts   []time.Time
	running  map[string][]time.Time // limit -> when each running check ends
	denials  int
	asked    int

	firstDenied, firstStarted int // how many accounts were ever denied, and how many of them have started since
	displaced                 int // the most places by which one of them started out of order
}

// visitor is one account of a crowd.
type visitor struct {
	key      string
	due      time.Time
	promised time.Time
	checks   int
	denials  int // since its last check
	worst    int
	denied   int // its place in the order of first denials; less than 0: never denied
}

func inCrowd(t *testing.T, rules string, test func(c *crowd)) {
	t.Helper()
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		limits, err := ParseLimits(rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &crowd{
			T: t, kind: "http", held: func() time.Duration { return 0 }, running: make(map[string][]time.Time),
			limiter: newLimiter(ring, limits, time.Minute, slog.New(slog.DiscardHandler), NewMetrics(nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.limiter.run(ctx, context.WithoutCancel(ctx)); close(done) }()
		test(c)
		time.Sleep(time.Hour) // running checks end
		cancel()
		<-done
	})
}

func (c *crowd) come(n int, key func(i int) string) {
	now := time.Now()
	for i := range n {
		c.accounts = append(c.accounts, &visitor{key: key(i), due: now.Add(time.Duration(i) * time.Microsecond), denied: -1})
	}
}

const crowdShards = 4

// run lets time pass in which the shards are looked at.
func (c *crowd) run(d time.Duration) {
	c.Helper()
	// The pause must not be in step with any rate. Otherwise one shard would come first every
	// time.
	pause := between(15*time.Millisecond, 30*time.Millisecond)
	for round, end := 0, time.Now().Add(d); time.Now().Before(end); round++ {
		c.claim(round % crowdShards)
		time.Sleep(pause())
	}
}

// claim asks for the accounts of a shard that are due.
func (c *crowd) claim(shard int) {
	c.Helper()
	now := time.Now()
	var due []*visitor
	for i := shard; i < len(c.accounts); i += crowdShards {
		if v := c.accounts[i]; !v.due.After(now) {
			due = append(due, v)
		}
	}
	slices.SortFunc(due, func(a, b *visitor) int { return a.due.Compare(b.due) })
	due = due[:min(len(due), claimBatch)]
	candidates := make([]*candidate, len(due))
	for i, v := range due {
		candidates[i] = &candidate{kind: c.kind, limits: c.limiter.limits.Load().of(c.kind, v.key, ""), promised: v.promised,
			checkID: fmt.Sprint(shard, "-", c.asked)}
		c.asked++
	}
	c.limiter.ask(c.Context(), candidates)
	for i, v := range due {
		switch asked := candidates[i]; {
		case asked.err != nil:
			c.Fatal(asked.err)
		case asked.admitted():
			c.start(v, asked)
		default:
			if !asked.until.After(now) || asked.by == "" {
				c.Fatalf("denied by %q at %v until %v", asked.by, now, asked.until)
			}
			if v.denied < 0 {
				v.denied = c.firstDenied
				c.firstDenied++
			}
			v.due, v.promised = asked.until, asked.until
			v.denials++
			v.worst = max(v.worst, v.denials)
			c.denials++
		}
	}
}

func (c *crowd) start(v *visitor, asked *candidate) {
	now := time.Now()
	if v.denied >= 0 && v.checks == 0 {
		c.displaced = max(c.displaced, c.firstStarted-v.denied)
		c.firstStarted++
	}
	c.starts = append(c.starts, now)
	took := c.held()
	v.checks++
	v.denials, v.promised, v.due = 0, time.Time{}, now.Add(took+365*24*time.Hour)
	if c.interval > 0 {
		v.due = now.Add(max(took, c.interval))
	}
	for _, l := range asked.limits {
		if l == nil {
			continue
		}
		ends := slices.DeleteFunc(c.running[l.Name], func(end time.Time) bool { return !end.After(now) })
		c.running[l.Name] = append(ends, now.Add(took))
		if n := len(c.running[l.Name]); l.Concurrency > 0 && n > l.Concurrency {
			c.Fatalf("%d of %s run at once", n, l.Name)
		}
	}
	time.AfterFunc(took, func() { c.limiter.finish(asked.limits, asked.checkID) })
}

// holds expects no window to have more starts than the rate allows.
func (c *crowd) holds(every time.Duration, burst int) {
	c.Helper()
	for i := range c.starts {
		for j := i; j < len(c.starts); j++ {
			if allowed := burst + int(c.starts[j].Sub(c.starts[i])/every); j-i+1 > allowed {
				c.Fatalf("%d starts in %v", j-i+1, c.starts[j].Sub(c.starts[i]))
			}
		}
	}
}

// worst returns the most denials that an account had before one check.
func (c *crowd) worst() (worst int) {
	for _, v := range c.accounts {
		worst = max(worst, v.worst)
	}
	return worst
}

// checked returns the least and the most checks of one account.
func (c *crowd) checked() (least, most int) {
	least = c.accounts[0].checks
	for _, v := range c.accounts {
		least, most = min(least, v.checks), max(most, v.checks)
	}
	return least, most
}

func between(least, most time.Duration) func() time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	return func() time.Duration { return least + time.Duration(random.Int64N(int64(most-least+1))) }
}

func oneHost(int) string { return "host" }
