package sinktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// Namespace is the ring's namespace in all tests of the suite.
const Namespace = "rounds"

// Stored is a message that a place has.
type Stored struct {
	Key     string // sink.Key of the message
	Account string
	ID      string // the message's own
	Data    string // its data, JSON
}

// Place is where sinks of a test store messages.
type Place interface {
	// Open returns the sink of a new process, which is the only living one.
	Open(t testing.TB) delivery.Sink
	// KillAt has the process of the sink that was opened last die at its nth step from now on,
	// counted from 0: nothing that it does from then on reaches the place, and the step itself is
	// done half, or not at all.
	KillAt(n int)
	// Died reports whether that has happened.
	Died() bool
	// SetAway lets the place be unreachable, or be reached again.
	SetAway(away bool)
	// Stored returns everything that the place has, in its order. No sink is open then.
	Stored(t testing.TB) []Stored
}

// Suite says how a sink is tested.
type Suite struct {
	// New returns an empty place.
	New func(t *testing.T) Place
	// Doubles says that a kill, or an unknown outcome, may store a message twice under its key.
	Doubles bool
	// Fake says that the place works in a bubble of fake time, in which the tests then run.
	Fake bool
	// Back is how soon after an hour away everything is stored; 0: 2 min. Only for Fake.
	Back time.Duration
	// TooLarge is a size of data, in bytes, that the place cannot take; 0: it takes all that a
	// message may have.
	TooLarge int
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	s.run(t, "in order", s.order)
	s.run(t, "odd messages", s.odd)
	s.run(t, "killed at every step", s.kills)
	s.run(t, "away", s.away)
	s.run(t, "pressure", s.pressure)
	if s.TooLarge > 0 {
		s.run(t, "too large", s.tooLarge)
	}
	if s.Fake {
		t.Run("away for an hour", func(t *testing.T) { faketime.Run(t, 2, func(w *faketime.World) { s.hour(w) }) })
	}
}

func (s Suite) run(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		if s.Fake {
			synctest.Test(t, test)
		} else {
			test(t)
		}
	})
}

// Message returns message n of an account.
func Message(account string, n int) delivery.Delivery {
	return delivery.Delivery{Group: "webhook.test", Attempt: 1, Handle: "0:" + strconv.Itoa(n+1) + "-0", Found: circulate.Found{
		Position: strconv.Itoa(n+1) + "-0", Account: account, Kind: "feed", Message: circulate.Message{
			ID: fmt.Sprintf("%s-%d", account, n), Type: "text", Time: time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
		},
	}}
}

// Messages returns n messages of each account, in turn.
func Messages(n int, accounts ...string) (batch []delivery.Delivery) {
	for i := range n {
		for _, account := range accounts {
			batch = append(batch, Message(account, i))
		}
	}
	return batch
}

// hand hands a batch to a sink, and returns the messages that must be delivered again.
func hand(ctx context.Context, t testing.TB, to delivery.Sink, batch []delivery.Delivery) (again []delivery.Delivery) {
	t.Helper()
	errs := to.Handle(ctx, batch)
	if len(errs) != 0 && len(errs) != len(batch) {
		t.Fatalf("%d answers to %d messages", len(errs), len(batch))
	}
	failed := make(map[string]bool)
	for i, d := range batch {
		var err error
		if len(errs) > 0 {
			err = errs[i]
		}
		var dead *delivery.Dead
		if errors.As(err, &dead) {
			t.Errorf("%s is given up: %v", d.Message.ID, err)
		}
		if err == nil && failed[d.Account] {
			t.Errorf("%s is done before an earlier message of its account", d.Message.ID)
		}
		if err == nil {
			continue
		}
		failed[d.Account] = true
		var later *delivery.Later
		if !errors.As(err, &later) && !errors.Is(err, delivery.ErrHeld) {
			d.Attempt++
		}
		again = append(again, d)
	}
	return again
}

// finish hands over a batch until all of it is done.
func finish(ctx context.Context, t testing.TB, to delivery.Sink, batch []delivery.Delivery) {
	t.Helper()
	for tries := 0; len(batch) > 0; tries++ {
		if tries == 20 {
			t.Fatalf("%d messages are not done after %d tries", len(batch), tries)
		}
		batch = hand(ctx, t, to, batch)
	}
}

func ready(t testing.TB, to delivery.Sink) {
	t.Helper()
	if err := to.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func closed(t testing.TB, to delivery.Sink) {
	t.Helper()
	if err := to.Close(); err != nil {
		t.Error(err)
	}
}

// has expects a place to have the messages, each account's in order.
func (s Suite) has(t testing.TB, at Place, doubles bool, want ...delivery.Delivery) {
	t.Helper()
	seen, order, wanted := make(map[string]int), make(map[string][]string), make(map[string][]string)
	for _, m := range at.Stored(t) {
		if seen[m.Key]++; seen[m.Key] == 1 {
			order[m.Account] = append(order[m.Account], m.ID+" "+m.Data)
		}
	}
	for _, d := range want {
		switch n := seen[sink.Key(Namespace, d)]; {
		case n == 0:
			t.Errorf("%s is lost", d.Message.ID)
		case n > 1 && !(doubles && s.Doubles):
			t.Errorf("%s is stored %d times", d.Message.ID, n)
		}
		wanted[d.Account] = append(wanted[d.Account], d.Message.ID+" "+string(d.Message.Data))
	}
	if len(seen) != len(want) {
		t.Errorf("%d messages are stored, want %d", len(seen), len(want))
	}
	for account := range wanted {
		if !slices.Equal(order[account], wanted[account]) {
			t.Errorf("%s: stored %q, want %q", account, order[account], wanted[account])
		}
	}
}

// Messages of several accounts come in several batches, and the sink is closed and opened in between.
func (s Suite) order(t *testing.T) {
	at := s.New(t)
	all := Messages(30, "a", "b", "c")
	for part := range slices.Chunk(all, 18) {
		to := at.Open(t)
		ready(t, to)
		finish(t.Context(), t, to, part[:7])
		finish(t.Context(), t, to, part[7:])
		closed(t, to)
	}
	s.has(t, at, false, all...)
}

// Texts that strangers chose arrive as they are.
func (s Suite) odd(t *testing.T) {
	at := s.New(t)
	to := at.Open(t)
	ready(t, to)
	var all []delivery.Delivery
	for i, data := range []string{`"line\nbreak"`, `{"html":"<b>&amp;</b>"}`, `null`, `"\u0000"`, `"\ud800"`, `"中文 🎉"`, `[[[[[[]]]]]]`, `1e400`} {
		d := Message("odd/账户 <1>", i)
		d.Message.Data = json.RawMessage(data)
		all = append(all, d)
	}
	long := Message("odd/账户 <1>", len(all))
	long.Message.ID = strings.Repeat("é", 512)
	all = append(all, long)
	finish(t.Context(), t, to, all)
	closed(t, to)
	s.has(t, at, false, all...)
}

// A process dies at each of its steps. The next one gets everything that was not acknowledged, as
// a consumer delivers it.
func (s Suite) kills(t *testing.T) {
	died := 0
	for n := range 200 {
		at := s.New(t)
		all := Messages(9, "a", "b")
		to := at.Open(t)
		at.KillAt(n)
		again := slices.Clone(all[6:])
		if to.Prepare(t.Context()) == nil {
			first := hand(t.Context(), t, to, all[:6])
			again = append(first, again...)
			if len(first) == 0 {
				again = hand(t.Context(), t, to, all[6:])
			}
			if !at.Died() {
				_ = to.Close() // may be where it dies
			}
		} else {
			again = all
		}
		if !at.Died() {
			if len(again) > 0 {
				t.Errorf("without a death %d messages were not done", len(again))
			}
			s.has(t, at, false, all...)
			if died == 0 && n == 0 {
				t.Error("nothing was killed: the place has no step at which it could die")
			}
			return
		}
		died++
		next := at.Open(t)
		ready(t, next)
		finish(t.Context(), t, next, again)
		more := Message("a", 9)
		finish(t.Context(), t, next, []delivery.Delivery{more})
		closed(t, next)
		s.has(t, at, true, append(all, more)...)
		if t.Failed() {
			t.Fatalf("it was killed at step %d", n)
		}
	}
	t.Error("there are too many steps")
}

// While the place is away no message is to blame, and the sink answers soon. Then it goes on.
func (s Suite) away(t *testing.T) {
	at := s.New(t)
	all := Messages(6, "a", "b")
	to := at.Open(t)
	ready(t, to)
	finish(t.Context(), t, to, all[:4])
	at.SetAway(true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	errs := to.Handle(ctx, all[4:])
	for i, err := range errs {
		var later *delivery.Later
		if !errors.As(err, &later) && !errors.Is(err, delivery.ErrHeld) {
			t.Errorf("%s: %v", all[4+i].Message.ID, err)
		}
	}
	if len(errs) != len(all)-4 || ctx.Err() != nil {
		t.Fatalf("%d answers, %v", len(errs), ctx.Err())
	}
	at.SetAway(false)
	deadline := time.Now().Add(time.Minute)
	for again := all[4:]; ; {
		if again = hand(t.Context(), t, to, again); len(again) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place is back, and the sink does not go on")
		}
		time.Sleep(20 * time.Millisecond) // a client may reconnect in the background
	}
	closed(t, to)
	s.has(t, at, true, all...)
}

// Many batches come at once, as from many shards. All end, also those whose context is done.
func (s Suite) pressure(t *testing.T) {
	at := s.New(t)
	to := at.Open(t)
	ready(t, to)
	var all []delivery.Delivery
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range 16 {
		batch := Messages(20, fmt.Sprint("account-", i))
		mu.Lock()
		all = append(all, batch...)
		mu.Unlock()
		running.Go(func() {
			for part := range slices.Chunk(batch, 5) {
				finish(t.Context(), t, to, part)
			}
		})
	}
	running.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late := Messages(1, "late")
	rest := hand(gone, t, to, late)
	finish(t.Context(), t, to, rest)
	closed(t, to)
	s.has(t, at, true, append(all, late...)...)
}

// A message that the place can never take fails alone.
func (s Suite) tooLarge(t *testing.T) {
	at := s.New(t)
	to := at.Open(t)
	ready(t, to)
	large := Message("a", 0)
	large.Message.Data = json.RawMessage(`"` + strings.Repeat("x", s.TooLarge) + `"`)
	good := Messages(3, "b")
	errs := to.Handle(t.Context(), append([]delivery.Delivery{large}, good...))
	var later *delivery.Later
	if len(errs) == 0 || errs[0] == nil || errors.As(errs[0], &later) {
		t.Errorf("got %v", errs)
	}
	for _, err := range errs[min(1, len(errs)):] {
		if err != nil {
			t.Errorf("another message: %v", err)
		}
	}
	after := Message("a", 1)
	finish(t.Context(), t, to, []delivery.Delivery{after})
	closed(t, to)
	s.has(t, at, false, append(good, after)...)
}

// A consumer delivers while the place is away for an hour. Then everything is stored soon, in order, and no message became a dead letter.
func (s Suite) hour(w *faketime.World) {
	at := s.New(w.T)
	to := at.Open(w)
	var all []delivery.Delivery
	write := func(n int) {
		for _, account := range []string{"a", "b", "c"} {
			m := Message(account, n)
			w.Do("XADD", w.Key(w.Ring.ShardOf(account), "messages"), "*", "account", account, "kind", m.Kind, "id", m.Message.ID, "type", m.Message.Type,
				"time", m.Message.Time.Format(time.RFC3339), "data", string(m.Message.Data))
			all = append(all, m)
		}
	}
	stop := faketime.Go(w, delivery.Consumer{Ring: w.Ring, Group: "webhook.test", Handler: to, MaxDeliveries: 34, Log: faketime.Log(w)}.Run)
	for n := range 3 {
		write(n)
		time.Sleep(time.Second)
	}
	at.SetAway(true)
	for n := range 60 {
		write(3 + n)
		time.Sleep(time.Minute)
	}
	at.SetAway(false)
	time.Sleep(cmp.Or(s.Back, 2*time.Minute))
	stop()
	closed(w, to)
	for shard := range w.Ring.Shards() {
		if n := w.Do("XLEN", w.Key(shard, "dead")); n != int64(0) {
			w.Errorf("%v dead letters", n)
		}
	}
	s.has(w, at, true, all...)
}
