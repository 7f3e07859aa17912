package poller_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller"
)

// thirdParty holds calls, and ends them when there is a message or when a test says so.
type thirdParty struct {
	mu     sync.Mutex
	queues map[string][]string // messages by account
	more   chan struct{}       // closed and replaced when something has come
	under  map[string]int      // calls under way
	over   bool                // an account had two calls at once
	end    error               // how calls end that are not held; nil: they are held
	cut    chan struct{}       // closed and replaced to cut all calls
}

func newThirdParty() *thirdParty {
	return &thirdParty{queues: make(map[string][]string), more: make(chan struct{}), under: make(map[string]int), cut: make(chan struct{})}
}

func (p *thirdParty) send(account string, ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues[account] = append(p.queues[account], ids...)
	close(p.more)
	p.more = make(chan struct{})
}

// restart cuts all calls.
func (p *thirdParty) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.cut)
	p.cut = make(chan struct{})
}

func (p *thirdParty) calls() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, under := range p.under {
		n += under
	}
	return n
}

// twice reports whether an account ever had two calls at once.
func (p *thirdParty) twice() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

var errCut = &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "reset", Message: "the connection broke off", Network: true, Err: io.ErrUnexpectedEOF}

// check gives what comes after the cursor, which is how many messages the account has had.
func (p *thirdParty) check(ctx context.Context, r poller.Request) (poller.Result, error) {
	poller.Begun(ctx)
	had := 0
	_, _ = fmt.Sscan(string(r.Cursor), &had)
	p.mu.Lock()
	p.under[r.Account]++
	p.over = p.over || p.under[r.Account] > 1
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.under[r.Account]--
		p.mu.Unlock()
	}()
	hold := time.NewTimer(r.Hold)
	defer hold.Stop()
	for {
		p.mu.Lock()
		queue, more, cut, end := p.queues[r.Account], p.more, p.cut, p.end
		p.mu.Unlock()
		if end != nil {
			return poller.Result{}, end
		}
		if len(queue) > had {
			var result poller.Result
			for _, id := range queue[had:] {
				result.Messages = append(result.Messages, poller.Message{ID: id})
			}
			result.Cursor = fmt.Append(nil, len(queue))
			return result, nil
		}
		select {
		case <-more:
		case <-cut:
			return poller.Result{}, errCut
		case <-hold.C:
			return poller.Result{}, nil
		case <-ctx.Done():
			return poller.Result{}, ctx.Err()
		}
	}
}

// replica starts another replica of the world's ring, with metrics of its own.
func (w *world) replica(config poller.Config) (stop func()) {
	w.Helper()
	w.newMetrics()
	return w.startHolding(config)
}

// Calls follow one another under one claim. Messages are in the stream at once, a call that ends
// without messages costs Redis nothing, and the account counts as checked all the time.
func TestAHeldAccountStays(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		w.registerHeld("a", "30", "every 0")
		var scripts atomic.Int64
		stop := w.startHolding(poller.Config{})
		defer func() { stop() }()
		time.Sleep(10 * time.Second)
		w.faulty.set(func(command string) fault {
			if command == "EVALSHA" {
				scripts.Add(1)
			}
			return healthy
		})
		if v := w.look("a"); v.Place != circulate.Claimed {
			t.Fatalf("it is %s", v.Place)
		}
		if held := w.counted("rounds_checks_held", ""); held != 1 {
			t.Errorf("%v held", held)
		}
		time.Sleep(10*time.Minute - 20*time.Second)
		heartbeats, looks := 300, 40 // and some claims of the idle ring
		if n := scripts.Load(); n > int64(heartbeats+looks+2*20) {
			t.Errorf("%d scripts in ten minutes", n)
		}
		if calls := len(w.checker.calls("a")); calls < 19 || calls > 21 {
			t.Errorf("%d calls in ten minutes", calls)
		}
		v := w.look("a")
		if since := v.Now.Sub(v.History.Succeeded); since > 3*time.Minute || v.Failures != 0 {
			t.Errorf("succeeded %v ago, with %d failures", since, v.Failures)
		}
		third.send("a", "1", "2")
		time.Sleep(time.Millisecond)
		third.send("a", "3")
		time.Sleep(time.Millisecond)
		if found := w.found("a"); fmt.Sprint(found) != "[1 2 3]" {
			t.Errorf("found %v", found)
		}
		ids := make(map[string]bool)
		for _, call := range w.checker.calls("a") {
			ids[call.request.CheckID] = true
		}
		if len(ids) != len(w.checker.calls("a")) {
			t.Error("two calls have the same check id")
		}
		time.Sleep(15 * time.Minute)
		if late := w.counted("rounds_lateness_seconds", ""); late > 1 {
			t.Errorf("lateness %v", late)
		}
		if third.twice() || w.look("a").Strikes != 0 {
			t.Error("two calls at once, or a strike")
		}
	})
}

// Held checks and other checks take no places from each other.
func TestHeldChecksHavePlacesOfTheirOwn(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		for i := range 50 {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		w.register("every 1s", "other")
		stop := w.startHolding(poller.Config{Concurrency: 1})
		time.Sleep(20 * time.Second)
		if n := third.calls(); n != 50 {
			t.Errorf("%d of 50 held", n)
		}
		if n := len(w.checker.calls("other")); n < 19 {
			t.Errorf("the other was checked %d times in 20 s", n)
		}
		stop()
	})
}

// If there are more accounts than places, each has its turn.
func TestHeldAccountsTakeTurns(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		for i := range 6 {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		w.register("every 5s", "other")
		stop := w.startHolding(poller.Config{HeldChecks: 2})
		time.Sleep(20 * time.Minute)
		fewest, most := math.MaxInt, 0
		for i := range 6 {
			n := len(w.checker.calls(fmt.Sprint("held-", i)))
			fewest, most = min(fewest, n), max(most, n)
		}
		if fewest < 6 || most > 2*fewest {
			t.Errorf("an account was called %d times, another %d", fewest, most)
		}
		if n := len(w.checker.calls("other")); n < 220 {
			t.Errorf("the other was checked %d times", n)
		}
		if n := third.calls(); n > 2 {
			t.Errorf("%d calls in 2 places", n)
		}
		stop()
	})
}

// A replica that stops ends its held calls at once, and another one has their accounts at once.
// Other checks have the whole grace period.
func TestStopEndsHeldCalls(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		for i := range 20 {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		stopFirst := w.startHolding(poller.Config{})
		time.Sleep(10 * time.Second)
		if n := third.calls(); n != 20 {
			t.Fatalf("%d held", n)
		}
		stopSecond := w.replica(poller.Config{})
		defer func() { stopSecond() }()
		time.Sleep(5 * time.Second)
		began := time.Now()
		stopFirst()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v to stop", took)
		}
		time.Sleep(2 * time.Second)
		if n := third.calls(); n != 20 || third.twice() {
			t.Errorf("%d held after two seconds, twice at once %t", n, third.twice())
		}
		for i := range 20 {
			if v := w.look(fmt.Sprint("held-", i)); v.Failures != 0 || v.Strikes != 0 {
				t.Errorf("account %d: %d failures, %d strikes", i, v.Failures, v.Strikes)
			}
		}
		third.send("held-7", "1")
		time.Sleep(time.Second)
		if found := w.found("held-7"); len(found) != 1 {
			t.Errorf("found %v", found)
		}
	})
}

// Very many accounts are released no faster than other replicas can connect. Until then their calls
// stay held here.
func TestHeldCallsEndInWaves(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		const accounts = 600
		for i := range accounts {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		stop := w.startHolding(poller.Config{})
		time.Sleep(10 * time.Second)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			stop()
		}()
		for before := accounts; before > 0; {
			time.Sleep(260 * time.Millisecond) // one wave or two, of 64 accounts and the rest of a shard's
			n := third.calls()
			if n == before || before-n > 200 {
				t.Fatalf("of %d calls %d go on after 260 ms", before, n)
			}
			before = n
		}
		<-stopped
	})
}

// A replica that joins gets its part of the held accounts when their calls end.
func TestHeldAccountsMoveToAReplicaThatJoins(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		for i := range 40 {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		stopFirst := w.startHolding(poller.Config{Replica: "FIRSTAAAAA"})
		defer func() { stopFirst() }()
		time.Sleep(10 * time.Second)
		stopSecond := w.replica(poller.Config{Replica: "SECONDAAAA"})
		defer func() { stopSecond() }()
		time.Sleep(time.Minute)
		moved := 0
		for i := range 40 {
			id := fmt.Sprint("held-", i)
			want := circulate.Preferred(w.ring.ShardOf(id), []string{"FIRSTAAAAA", "SECONDAAAA"})
			if got := w.look(id).Replica; got != want {
				t.Errorf("%s is held by %s, want %s", id, got, want)
			}
			if want == "SECONDAAAA" {
				moved++
			}
		}
		if moved == 0 || third.twice() || third.calls() != 40 {
			t.Errorf("%d moved, %d calls, twice at once %t", moved, third.calls(), third.twice())
		}
	})
}

// A call that ends with nothing after it was held for a while is no failure, however it ends. Calls
// that keep ending so at once are one.
func TestHowAHoldMayEnd(t *testing.T) {
	failed := func(code string) error {
		return &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: code, Message: "it ended"}
	}
	for name, tt := range map[string]struct {
		err   error
		after time.Duration // 0: at once
		fails bool
	}{
		"a cut connection":                 {errCut, 20 * time.Second, false},
		"a gateway that gives up":          {failed("http_524"), 20 * time.Second, false},
		"a bad gateway":                    {failed("http_502"), 20 * time.Second, false},
		"an end of file":                   {fmt.Errorf("read: %w", io.EOF), 20 * time.Second, false},
		"no answer":                        {context.DeadlineExceeded, time.Hour, false},
		"a cut connection at once":         {errCut, 0, true},
		"a bad gateway at once":            {failed("http_502"), 0, true},
		"an error":                         {failed("http_500"), 20 * time.Second, true},
		"a time-out before the hold":       {failed("timeout"), 20 * time.Second, true},
		"a cut connection after a moment":  {errCut, time.Second, true},
		"an error that nobody has classed": {fmt.Errorf("it broke"), 20 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
					select {
					case <-time.After(tt.after):
						return poller.Result{}, tt.err
					case <-ctx.Done():
						return poller.Result{}, ctx.Err()
					}
				}
				w.registerHeld("a", "30", "every 0")
				stop := w.startHolding(poller.Config{})
				time.Sleep(4 * time.Minute)
				v := w.look("a")
				if fails := v.Error != ""; fails != tt.fails {
					t.Errorf("%d failures, error %q", v.Failures, v.Error)
				}
				if n := len(w.checker.calls("a")); n > 40 {
					t.Errorf("%d calls in four minutes", n)
				}
				stop()
			})
		})
	}
}

// No answer leads to a hot loop: neither an empty one at once, nor the same messages at once, nor
// messages with a cursor that never moves.
func TestNoHotLoop(t *testing.T) {
	for name, answer := range map[string]poller.Result{
		"nothing":               {},
		"nothing, and more":     {HasMore: true},
		"a message":             {Messages: []poller.Message{{ID: "1"}}},
		"a message, and more":   {Messages: []poller.Message{{ID: "1"}}, HasMore: true},
		"nothing, and a cursor": {Cursor: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) { return answer, nil }
				w.registerHeld("a", "30", "every 0")
				stop := w.startHolding(poller.Config{})
				time.Sleep(3 * time.Minute)
				if n := len(w.checker.calls("a")); n > 210 {
					t.Errorf("%d calls in three minutes", n)
				}
				stop()
			})
		})
	}
}

// A change, a pause or a deletion of a record ends the account's held call. The next call has the
// new record, and nothing that the old call still brings is written.
func TestAChangeEndsAHeldCall(t *testing.T) {
	record := `{"id":"a","kind":"scripted","config":{"hold":30,"n":2},"cadence":"every 0"}`
	for name, tt := range map[string]struct {
		change func(w *world) error
		calls  int
	}{
		"changed": {func(w *world) error {
			_, err := w.ring.Upsert(w.Context(), w.ring.ShardOf("a"), []circulate.Registration{{ID: "a", Record: []byte(record)}})
			return err
		}, 1},
		"paused": {func(w *world) error {
			_, err := w.ring.Park(w.Context(), w.ring.ShardOf("a"), "paused", []string{"a"})
			return err
		}, 0},
		"deleted": {func(w *world) error {
			_, err := w.ring.Deregister(w.Context(), w.ring.ShardOf("a"), []string{"a"})
			return err
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				third := newThirdParty()
				w.checker.check = third.check
				w.registerHeld("a", "30", "every 0")
				stop := w.startHolding(poller.Config{})
				time.Sleep(10 * time.Second)
				if err := tt.change(w); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				seen := w.checker.calls("a")
				last := string(seen[len(seen)-1].request.Config)
				if n := third.calls(); n != tt.calls || tt.calls == 1 && last != `{"hold":30,"n":2}` {
					t.Errorf("%d calls, the last with %s; want %d", n, last, tt.calls)
				}
				stop()
			})
		})
	}
}

// A change of a stored secret ends the held calls of the accounts that use it. Their next calls
// begin when every process has the new value.
func TestAChangedSecretEndsAHeldCall(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		for id, name := range map[string]string{"a": "TOKEN", "b": "TOKEN2"} {
			w.registerRecord(id, `{"id":"`+id+`","kind":"scripted","config":{"hold":30,"token":{"secret":"`+name+`"}},"cadence":"every 0"}`)
		}
		stop := w.startHolding(poller.Config{})
		time.Sleep(time.Second)
		if _, _, err := document.Of(w.ring).Vault().Put(w.Context(), "TOKEN", []byte("new")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if n := third.calls(); n != 1 {
			t.Errorf("%d calls right after the change", n)
		}
		time.Sleep(5 * time.Second)
		if n := third.calls(); n != 2 || len(w.checker.calls("a")) != 2 || len(w.checker.calls("b")) != 1 {
			t.Errorf("%d calls, %d and %d in all", n, len(w.checker.calls("a")), len(w.checker.calls("b")))
		}
		if v := w.look("a"); v.Failures != 0 || v.Error != "" {
			t.Errorf("%d failures, %q", v.Failures, v.Error)
		}
		stop()
	})
}

// Redis is away during a hold, and for longer than the hold. The call goes on, a message that it
// brings waits, and is written once.
func TestRedisIsAwayDuringAHold(t *testing.T) {
	for _, away := range []time.Duration{10 * time.Second, 80 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				third := newThirdParty()
				w.checker.check = third.check
				w.registerHeld("a", "30", "every 0")
				stop := w.startHolding(poller.Config{})
				time.Sleep(10 * time.Second)
				w.faulty.set(func(string) fault { return notDone })
				time.Sleep(time.Second)
				third.send("a", "1")
				time.Sleep(away)
				if n := len(w.checker.calls("a")); n != 1 {
					t.Errorf("the third party was asked again before its message was written: %d calls", n)
				}
				w.faulty.set(nil)
				time.Sleep(5 * time.Second)
				third.send("a", "2")
				time.Sleep(35 * time.Second)
				if found := w.found("a"); fmt.Sprint(found) != "[1 2]" || third.twice() {
					t.Errorf("found %v", found)
				}
				stop()
			})
		})
	}
}

// A reply to a page is lost. The page is not written twice, and the account goes on.
func TestAHeldPageOfUnknownOutcome(t *testing.T) {
	for name, fate := range map[string]fault{"lost": replyLost, "cut": notDone} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				third := newThirdParty()
				w.checker.check = third.check
				w.registerHeld("a", "30", "every 0")
				stop := w.startHolding(poller.Config{})
				time.Sleep(10 * time.Second)
				var once atomic.Bool
				w.faulty.set(func(command string) fault {
					if command == "EVALSHA" && !once.Swap(true) {
						return fate
					}
					return healthy
				})
				third.send("a", "1")
				time.Sleep(time.Minute)
				third.send("a", "2")
				time.Sleep(time.Minute)
				if found := w.found("a"); fmt.Sprint(found) != "[1 2]" || third.twice() {
					t.Errorf("found %v, twice at once %t", found, third.twice())
				}
				stop()
			})
		})
	}
}

// The third party restarts. The calls come back spread, and no other account is late.
func TestAllHoldsEndAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		var mu sync.Mutex
		began := make(map[time.Time]int)
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			if r.Hold > 0 {
				mu.Lock()
				began[time.Now().Truncate(10*time.Millisecond)]++
				mu.Unlock()
			}
			return third.check(ctx, r)
		}
		const accounts = 400
		for i := range accounts {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		w.register("every 1s", "other")
		stop := w.startHolding(poller.Config{})
		time.Sleep(10 * time.Second)
		mu.Lock()
		clear(began)
		mu.Unlock()
		third.restart()
		time.Sleep(2 * time.Second)
		if n := third.calls(); n != accounts {
			t.Errorf("%d calls after the restart", n)
		}
		mu.Lock()
		for at, n := range began {
			if n > 31 {
				t.Errorf("%d calls within 10 ms of %v", n, at)
			}
		}
		mu.Unlock()
		if others := len(w.checker.calls("other")); others < 11 {
			t.Errorf("the other was checked %d times in 12 s", others)
		}
		stop()
	})
}

// Calls that do not reach their third party do not all try again at once, and calls to other third
// parties do not wait long for them.
func TestCallsBeginFewAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var began, most atomic.Int64
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			most.Store(max(most.Load(), began.Add(1)))
			defer began.Add(-1)
			select {
			case <-time.After(time.Second): // to connect
			case <-ctx.Done():
				return poller.Result{}, ctx.Err()
			}
			began.Add(-1)
			poller.Begun(ctx)
			<-ctx.Done()
			began.Add(1)
			return poller.Result{}, ctx.Err()
		}
		for i := range 600 {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		stop := w.startHolding(poller.Config{})
		time.Sleep(5 * time.Second)
		if n := most.Load(); n != 256 || began.Load() != 0 {
			t.Errorf("%d at once, %d still begin", n, began.Load())
		}
		stop()
	})
}

// A monitor took an account from a replica that only seemed dead, and another replica claimed it.
// The loser ends its call, and only one of the two writes.
func TestTwoReplicasHoldOneAccount(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		w.registerHeld("a", "30", "every 0")
		stopFirst := w.startHolding(poller.Config{})
		defer func() { stopFirst() }()
		time.Sleep(10 * time.Second)
		shard := w.ring.ShardOf("a")
		held, _, err := w.ring.Oldest(w.Context(), shard, 0, 1)
		if err != nil || len(held) != 1 {
			t.Fatal(held, err)
		}
		stopSecond := w.replica(poller.Config{})
		defer func() { stopSecond() }()
		time.Sleep(time.Second)
		if _, _, err := w.ring.Requeue(w.Context(), shard, held[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.ring.Wake(w.Context(), shard); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := third.calls(); n != 1 {
			t.Errorf("%d calls", n)
		}
		third.send("a", "1")
		time.Sleep(time.Minute)
		if found := w.found("a"); len(found) != 1 {
			t.Errorf("found %v", found)
		}
	})
}
