package poller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// An attempt is on Redis' disk before its first byte leaves. While the disk does not sync, nothing
// leaves, and nothing counts as an attempt.
func TestAnAttemptIsOnTheDiskBeforeItLeaves(t *testing.T) {
	for _, unsynced := range []bool{false, true} {
		t.Run(fmt.Sprintf("confirm unsynced %t", unsynced), func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				var broken atomic.Bool
				var synced, early atomic.Int64 // when the disk was last synced, and what left before
				broken.Store(true)
				err := w.server.Miniredis().Server().Register("WAITAOF", func(c *server.Peer, _ string, _ []string) {
					c.WriteLen(2)
					if broken.Load() {
						c.WriteInt(0)
					} else {
						synced.Add(1)
						c.WriteInt(1)
					}
					c.WriteInt(0)
				})
				if err != nil {
					t.Fatal(err)
				}
				k := newTalker()
				k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
					if synced.Load() == 0 {
						early.Add(1)
					}
					return k.take(r), nil
				}
				w.chats("", "a")
				stop := w.startChecking(poller.Config{ConfirmUnsynced: unsynced}, k, testLog(t))
				defer func() { stop() }()
				id := w.queue("a", "anna", nil)
				time.Sleep(time.Minute)
				if unsynced {
					w.is(id, circulate.SendAccepted, "")
					return
				}
				w.is(id, circulate.SendQueued, "redis_not_synced")
				broken.Store(false)
				time.Sleep(time.Minute)
				w.is(id, circulate.SendAccepted, "")
				if s := w.sent(id); s.Attempts != 1 || early.Load() != 0 || len(k.has()) != 1 {
					t.Errorf("%d attempts, %d before the disk was synced, the third party has %q", s.Attempts, early.Load(), k.has())
				}
			})
		})
	}
}

// talks runs a replica with a talker, whose steps have fates.
func talks(b *faketime.World, k *talker, fate func(faketime.Step) faketime.Fate) (stop func()) {
	b.Helper()
	checkers, err := poller.NewCheckers(k)
	if err != nil {
		b.Fatal(err)
	}
	faulty := &faketime.Faulty{Server: b.Redis}
	pool, err := poller.New(b.Open(faulty), checkers, poller.Config{}, poller.Options{Log: faketime.Log(b.T)})
	if err != nil {
		b.Fatal(err)
	}
	faulty.Set(fate)
	return faketime.Go(b, pool.Run)
}

// says queues a text of an account a, which it registers first.
func says(b *faketime.World, more string, change func(*circulate.Send)) (id string) {
	b.Helper()
	b.Register(circulate.Registration{ID: "a", Record: fmt.Appendf(nil, `{"id":"a","kind":"talker","cadence":"every 24h"%s}`, more), Due: time.Now().Add(24 * time.Hour)})
	s := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "talker", Peer: "anna", Type: "text", Data: []byte(`{"text":"hello"}`)}
	if change != nil {
		change(&s)
	}
	if _, _, err := b.Ring.Sends().Queue(b.Context(), s, "", circulate.SendBounds{}); err != nil {
		b.Fatal(err)
	}
	return s.ID
}

func stateOf(b *faketime.World, id string) circulate.Send {
	b.Helper()
	s, err := b.Ring.Sends().Look(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// arg reports whether a step is a script with an argument.
func arg(s faketime.Step, text string) bool {
	return strings.HasPrefix(s.Command, "EVAL") && slices.ContainsFunc(s.Args, func(a any) bool { return a == any(text) })
}

// If the reply to the note of an attempt is lost, nothing has left. The attempt is withdrawn, and the
// send goes out soon, without a doubt.
func TestAnAttemptWhoseReplyIsLostIsWithdrawn(t *testing.T) {
	faketime.Run(t, 1, func(b *faketime.World) {
		k := newTalker()
		id := says(b, "", nil)
		var away time.Time // until then Redis is away
		var mu sync.Mutex
		stop := talks(b, k, func(s faketime.Step) faketime.Fate {
			mu.Lock()
			defer mu.Unlock()
			reply, _ := s.Reply.([]any)
			switch {
			case away.IsZero() && s.At == faketime.Called && arg(s, circulate.ReasonPaused) && len(reply) > 2:
				away = time.Now().Add(3 * time.Second)
				return faketime.ReplyLost
			case time.Now().Before(away):
				return faketime.NotDone
			}
			return faketime.Healthy
		})
		time.Sleep(20 * time.Second)
		stop()
		if s := stateOf(b, id); s.State != circulate.SendAccepted || s.Attempts != 1 || len(k.has()) != 1 || away.IsZero() {
			t.Errorf("it is %s after %d attempts, and the third party has %q", s.State, s.Attempts, k.has())
		}
	})
}

// If Redis is away when the third party has answered, the outcome is written later, and once.
func TestAnOutcomeIsWrittenWhenRedisIsBack(t *testing.T) {
	for name, fate := range map[string]faketime.Fate{"not done": faketime.NotDone, "replies lost": faketime.ReplyLost} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 1, func(b *faketime.World) {
				k := newTalker()
				id := says(b, "", nil)
				var until time.Time
				var mu sync.Mutex
				stop := talks(b, k, func(s faketime.Step) faketime.Fate {
					mu.Lock()
					defer mu.Unlock()
					if s.At != faketime.Call || !arg(s, string(circulate.AttemptAccepted)) {
						return faketime.Healthy
					}
					if until.IsZero() {
						until = time.Now().Add(20 * time.Second)
					}
					if time.Now().Before(until) {
						return fate
					}
					return faketime.Healthy
				})
				time.Sleep(40 * time.Second)
				stop()
				if s := stateOf(b, id); s.State != circulate.SendAccepted || s.VendorID == "" || s.Attempts != 1 || len(k.has()) != 1 || until.IsZero() {
					t.Errorf("it is %s (%s), and the third party has %q", s.State, s.Code, k.has())
				}
			})
		})
	}
}

// Even with on_unknown retry, a send is not repeated after it has expired, nor a day after it was
// queued: an answer of yesterday may surprise.
func TestALateUnknownSendIsNotRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		expires time.Duration // 0: never
		away    time.Duration // from the lost answer until a replica runs again
		repeats bool
	}{
		"soon":                 {0, time.Minute, true},
		"within its time":      {time.Hour, time.Minute, true},
		"after it has expired": {time.Minute, 2 * time.Minute, false},
		"a day later":          {0, 25 * time.Hour, false},
		"a day later, in time": {48 * time.Hour, 25 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 1, func(b *faketime.World) {
				k := newTalker()
				id := says(b, `,"on_unknown":"retry"`, func(s *circulate.Send) {
					if tt.expires > 0 {
						s.Expires = time.Now().Add(tt.expires)
					}
				})
				answered := make(chan struct{})
				k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
					sent := k.take(r)
					if r.Attempt == 1 {
						close(answered)
						return poller.Sent{}, errors.New("cut")
					}
					return sent, nil
				}
				stop := talks(b, k, nil)
				<-answered
				stop()
				if s := stateOf(b, id); s.State != circulate.SendUnknown {
					t.Fatalf("it is %s", s.State)
				}
				time.Sleep(tt.away)
				stop = talks(b, k, nil)
				time.Sleep(5 * time.Minute)
				stop()
				state, times := circulate.SendUnknown, 1
				if tt.repeats {
					state, times = circulate.SendAccepted, 2
				}
				if s := stateOf(b, id); s.State != state || len(k.has()) != times {
					t.Errorf("it is %s, and was sent %d times", s.State, len(k.has()))
				}
			})
		})
	}
}

// A fleeting send, such as a typing notice, is attempted once and at once. Whatever becomes of it, it
// neither waits nor is in doubt, and what is behind it goes on.
func TestAFleetingSendIsAttemptedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func() error // of the first attempt; nil: the replica dies
		late  time.Duration
		times int
		state circulate.SendState
		code  string
	}{
		"accepted":            {func() error { return nil }, 0, 1, circulate.SendAccepted, ""},
		"refused for now":     {func() error { return &poller.SendError{After: time.Minute, Code: "busy", Message: "later"} }, 0, 1, circulate.SendRejected, "busy"},
		"unreached":           {func() error { return &poller.SendError{Unsent: true, Code: "connect", Message: "no connection"} }, 0, 1, circulate.SendRejected, "connect"},
		"cut":                 {func() error { return &poller.CheckError{Code: "reset", Message: "it broke"} }, 0, 1, circulate.SendRejected, "reset"},
		"a panic":             {func() error { panic("x") }, 0, 1, circulate.SendRejected, "panic"},
		"late":                {func() error { return nil }, time.Minute, 0, circulate.SendRejected, "late"},
		"its replica is dead": {nil, 0, 1, circulate.SendRejected, "late"},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 1, func(b *faketime.World) {
				k := newTalker()
				k.fleet = []string{"typing"}
				more := `,"on_unknown":"retry"`
				if tt.end == nil {
					more = "" // nobody decides
				}
				id := says(b, more, func(s *circulate.Send) { s.Type, s.Windowed, s.Free = "typing", false, true })
				behind := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "talker", Peer: "anna", Type: "text", Data: []byte(`{"text":"hello"}`)}
				if _, _, err := b.Ring.Sends().Queue(b.Context(), behind, "", circulate.SendBounds{}); err != nil {
					t.Fatal(err)
				}
				if tt.end == nil { // a replica that has noted an attempt is dead
					o := circulate.AttemptOrder{Replica: circulate.NewReplica(), Step: "step", Kinds: []string{"talker"}, Most: 1, Lasts: time.Minute}
					if taken, _, err := b.Ring.Sends().Attempt(b.Context(), 0, o); err != nil || len(taken) != 1 {
						t.Fatal(taken, err)
					}
					if _, err := b.Ring.Sends().Sweep(b.Context(), 0, 100, 0, nil); err != nil {
						t.Fatal(err)
					}
				}
				calls := 0
				k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
					sent := k.take(r)
					if r.Type == "typing" {
						calls++
						return sent, tt.end()
					}
					return sent, nil
				}
				time.Sleep(tt.late)
				stop := talks(b, k, nil)
				time.Sleep(10 * time.Minute)
				stop()
				if tt.end == nil {
					calls++ // by the dead one
				}
				if s := stateOf(b, id); s.State != tt.state || s.Code != tt.code || calls != tt.times {
					t.Errorf("it is %s (%s) after %d calls, want %s (%s) after %d", s.State, s.Code, calls, tt.state, tt.code, tt.times)
				}
				if s := stateOf(b, behind.ID); s.State != circulate.SendAccepted {
					t.Errorf("the one behind it is %s", s.State)
				}
			})
		})
	}
}
