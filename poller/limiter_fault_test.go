package poller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// cutting is a server whose connections break before an awaited reply arrives.
type cutting struct {
	*connect.Embedded
	replies int // that still arrive; less than 0: all
	asked   int // scripts sent
}

func (s *cutting) Conn(ctx context.Context, key string) (redis.Conn, error) {
	server := &faketime.Faulty{Server: s.Embedded}
	server.Set(s.fate)
	return server.Conn(ctx, key)
}

func (s *cutting) fate(step faketime.Step) faketime.Fate {
	switch step.At {
	case faketime.Send:
		s.asked++
	case faketime.Receive:
		if s.replies == 0 {
			return faketime.ReplyLost
		}
		s.replies--
	}
	return faketime.Healthy
}

// counted returns the sum of a collector's counters.
func counted(t *testing.T, c prometheus.Collector) (sum float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

// limiterAt tests a limiter by itself, in fake time.
func limiterAt(t *testing.T, rules string, test func(t *testing.T, l *limiter, server *cutting)) {
	t.Helper()
	faketime.Redis(t, func(t *testing.T, embedded *connect.Embedded) {
		server := &cutting{Embedded: embedded, replies: -1}
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		limits, err := ParseLimits(rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		server.asked = 0
		test(t, newLimiter(ring, limits, time.Minute, slog.New(slog.DiscardHandler), NewMetrics(nil)), server)
	})
}

func (l *limiter) candidates(kind string, keys ...string) (all []*candidate) {
	for i, key := range keys {
		all = append(all, &candidate{kind: kind, limits: l.limits.Load().of(kind, key, ""), checkID: fmt.Sprint(kind, key, i)})
	}
	return all
}

// flush reports to the limits which checks have ended.
func (l *limiter) flush(ctx context.Context) {
	gone, cancel := context.WithCancel(ctx)
	cancel()
	l.run(gone, ctx)
}

func leasesOf(t *testing.T, server *cutting, limit string) int {
	t.Helper()
	ids, err := server.Miniredis().ZMembers("rounds:limits:{" + limit + "}:leases")
	if err != nil {
		return 0 // no such key
	}
	return len(ids)
}

func TestWithoutARuleNothingIsAsked(t *testing.T) {
	limiterAt(t, "http concurrency=1", func(t *testing.T, l *limiter, server *cutting) {
		server.Miniredis().SetError("ERR something was sent")
		for _, c := range l.candidates("feed", "a", "b", "") {
			l.ask(t.Context(), []*candidate{c})
			if !c.admitted() {
				t.Errorf("not admitted: %v, %v", c.until, c.err)
			}
			l.finish(c.limits, c.checkID)
		}
		l.flush(t.Context())
		if server.asked != 0 {
			t.Errorf("%d commands were sent", server.asked)
		}
	})
}

func TestWhatIsNotKnownMayNotRunAndHoldsNothing(t *testing.T) {
	// The limits of two rate keys answer first, then the kind's limit.
	for replies, admitted := range []int{0, 0, 0, 3} {
		t.Run(fmt.Sprint(replies, " answers"), func(t *testing.T) {
			limiterAt(t, "http concurrency=5; http/* concurrency=5 rate=1/s burst=5", func(t *testing.T, l *limiter, server *cutting) {
				warm := l.candidates("http", "a")
				l.ask(t.Context(), warm) // now the scripts are loaded
				l.finish(warm[0].limits, warm[0].checkID)
				l.flush(t.Context())

				server.replies = replies
				all := append(l.candidates("http", "a", "b", "a"), l.candidates("feed", "x")...)
				l.ask(t.Context(), all)
				server.replies = -1
				for i, c := range all[:3] {
					if c.admitted() != (admitted == 3) || c.err != nil && !circulate.Unknown(c.err) {
						t.Errorf("candidate %d: admitted %v, %v", i, c.admitted(), c.err)
					}
				}
				if !all[3].admitted() {
					t.Error("one without limits was held up")
				}
				l.flush(t.Context())
				for name, want := range map[string]int{"http": admitted, "http/a": admitted - admitted/3, "http/b": admitted / 3} {
					if n := leasesOf(t, server, name); n != want {
						t.Errorf("%s has %d leases, want %d", name, n, want)
					}
				}
			})
		})
	}
}

func TestRedisThatRefusesAdmitsNobody(t *testing.T) {
	limiterAt(t, "http rate=1/s", func(t *testing.T, l *limiter, server *cutting) {
		server.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		all := l.candidates("http", "a")
		l.ask(t.Context(), all)
		if err := all[0].err; !circulate.Unavailable(err) || circulate.Unknown(err) {
			t.Errorf("%v", err)
		}
		if n := counted(t, l.errors); n != 1 {
			t.Errorf("%v errors were counted", n)
		}
	})
}

// A check that the kind's limit denies uses up nothing of the rate key's limit.
func TestDeniedByTheSecondLimitIsRefundedByTheFirst(t *testing.T) {
	limiterAt(t, "http concurrency=1; http/* rate=1/h burst=1 concurrency=1", func(t *testing.T, l *limiter, server *cutting) {
		holder := l.candidates("http", "a")
		l.ask(t.Context(), holder)
		denied := l.candidates("http", "b", "b")[1:]
		l.ask(t.Context(), denied)
		if !holder[0].admitted() || denied[0].by != "http" || denied[0].until.IsZero() {
			t.Fatalf("holder %+v, denied %+v", holder[0], denied[0])
		}
		if n := leasesOf(t, server, "http/b"); n != 0 {
			t.Errorf("the rate key has %d leases", n)
		}
		if n := counted(t, l.denied); n != 1 {
			t.Errorf("%v denials were counted", n)
		}
		l.finish(holder[0].limits, holder[0].checkID)
		l.flush(t.Context())
		time.Sleep(time.Until(denied[0].until))
		again := &candidate{kind: "http", limits: denied[0].limits, checkID: "again", promised: denied[0].until}
		l.ask(t.Context(), []*candidate{again})
		if !again.admitted() {
			t.Errorf("denied by %s until %v: its rate was not given back", again.by, again.until)
		}
	})
}

func TestLeasesAreLeftWhenRedisIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := limit.Limit{Name: "a", Concurrency: 1, Lease: time.Minute}
		var away atomic.Bool
		away.Store(true)
		var sent []string
		failed := prometheus.NewCounter(prometheus.CounterOpts{Name: "x"})
		l := newFinisher(func(_ context.Context, batch []limit.Finished) error {
			if away.Load() {
				return context.DeadlineExceeded
			}
			n := 0
			for _, of := range batch {
				sent = append(sent, of.CheckIDs...)
				n += len(of.CheckIDs)
			}
			if n > circulate.MaxBatch {
				t.Errorf("a batch of %d", n)
			}
			return nil
		}, slog.New(slog.DiscardHandler), failed)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.run(ctx, t.Context()); close(done) }()

		const more = 5
		for i := range finishPending + more {
			of := one
			of.Name = fmt.Sprint(i % 3)
			l.add(of, fmt.Sprint(i))
		}
		l.add(limit.Limit{Name: "rate", Every: time.Second, Burst: 1}, "no lease")
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries := counted(t, failed) - more; tries < 20 || tries > 60 {
			t.Errorf("%v tries in a minute", tries)
		}
		away.Store(false)
		time.Sleep(2 * finishRetryMax)
		synctest.Wait()
		unique := slices.Clone(sent)
		slices.Sort(unique)
		if n := len(slices.Compact(unique)); n != finishPending {
			t.Errorf("%d were told, want %d", n, finishPending)
		}
		// At the end everything is reported. What cannot be reported is dropped.
		told := len(sent)
		l.add(one, "last")
		cancel()
		<-done
		if last := sent[told:]; !slices.Equal(last, []string{"last"}) {
			t.Errorf("told %q at the end", last)
		}
		away.Store(true)
		l.add(one, "lost")
		l.run(ctx, t.Context())
		if !l.empty() {
			t.Error("something is left")
		}
	})
}
