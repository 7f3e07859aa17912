package weixin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// replica is a poller that can be killed: from then on nothing that it does has any effect.
type replica struct {
	*faketime.Faulty
	fake   *ilinkd.Server
	life   context.Context
	kill   context.CancelFunc
	answer atomic.Pointer[context.CancelFunc] // called when an answer with messages has arrived, before the checker has it
	mu     sync.Mutex
	fate   func(faketime.Step) faketime.Fate
}

var errKilled = errors.New("killed")

// RoundTrip is the replica's network.
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	given := r.fake.Stats(tokenOf("a")).Given
	response, err := r.fake.RoundTrip(request.WithContext(ctx))
	if answer := r.answer.Load(); answer != nil && r.fake.Stats(tokenOf("a")).Given > given {
		(*answer)()
	}
	if r.life.Err() != nil {
		return nil, errKilled
	}
	return response, err
}

// start runs a replica.
func start(b *faketime.World, fake *ilinkd.Server, config poller.Config) (r *replica, stop func()) {
	b.Helper()
	r = &replica{Faulty: &faketime.Faulty{Server: b.Redis}, fake: fake}
	r.life, r.kill = context.WithCancel(context.Background())
	r.Set(func(s faketime.Step) faketime.Fate {
		if r.life.Err() != nil {
			return faketime.NotDone
		}
		r.mu.Lock()
		fate := r.fate
		r.mu.Unlock()
		if fate == nil {
			return faketime.Healthy
		}
		return fate(s)
	})
	checkers, err := poller.NewCheckers(New(fetch.New(fetch.Options{Transport: r}), source()))
	if err != nil {
		b.Fatal(err)
	}
	pool, err := poller.New(b.Open(r), checkers, config, poller.Options{Log: faketime.Log(b.T)})
	if err != nil {
		b.Fatal(err)
	}
	stopped := faketime.Go(b, pool.Run)
	return r, func() { stopped(); r.kill() }
}

func (r *replica) set(fate func(faketime.Step) faketime.Fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = fate
}

// monitored runs a monitor that reaches Redis through a server.
func monitored(b *faketime.World, by circulate.Server) (stop func()) {
	m, err := monitor.New(b.Open(by), monitor.Config{}, monitor.Options{Log: faketime.Log(b.T)})
	if err != nil {
		b.Fatal(err)
	}
	return faketime.Go(b, m.Run)
}

func register(b *faketime.World, id string) {
	b.Register(circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":%q,"cadence":"every 0","config":{"token":{"secret":"T_%s"}}}`, id, Kind, id)})
}

// found returns the numbers of an account's messages, as they are in the stream.
func found(b *faketime.World, id string) (numbers []int) {
	for _, f := range b.Found(id) {
		numbers = append(numbers, ilinkd.Number(f.Message.Data))
	}
	return numbers
}

// A replica is killed at each step between the server's answer and the commit. It loses at most the
// page in hand, and only if Redis does not have that page. Nothing comes twice.
func TestKilledWithAPageInHand(t *testing.T) {
	for name, tt := range map[string]struct {
		answered bool // killed when the answer has arrived
		fate     faketime.Fate
		at       faketime.Point
		want     []int
	}{
		"while the call is held":               {want: []int{1, 2, 3, 4, 5, 6}},
		"when the answer has arrived":          {answered: true, want: []int{1, 2, 5, 6}},
		"when the commit is about to be sent":  {fate: faketime.NotDone, at: faketime.Call, want: []int{1, 2, 5, 6}},
		"when the commit is done, unanswered":  {fate: faketime.ReplyLost, at: faketime.Call, want: []int{1, 2, 3, 4, 5, 6}},
		"when the commit's answer has arrived": {fate: faketime.ReplyLost, at: faketime.Called, want: []int{1, 2, 3, 4, 5, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(b *faketime.World) {
				fake := newFake(ilink.Options{})
				register(b, "a")
				fake.PostN(tokenOf("a"), 2)
				first, stopFirst := start(b, fake, poller.Config{})
				defer stopFirst()
				defer monitored(b, b.Redis)()
				time.Sleep(10 * time.Second)
				switch {
				case tt.answered:
					first.answer.Store(&first.kill)
				case tt.fate != faketime.Healthy:
					first.set(func(s faketime.Step) faketime.Fate {
						if s.At == tt.at && s.ReturnsMessages() {
							first.kill()
							return tt.fate
						}
						return faketime.Healthy
					})
				default:
					first.kill()
					time.Sleep(time.Millisecond) // the server sees that the client is gone
				}
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(time.Second)
				if first.life.Err() == nil {
					t.Error("it was not killed")
				}
				_, stopSecond := start(b, fake, poller.Config{})
				defer stopSecond()
				time.Sleep(30 * time.Second)
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(10 * time.Second)
				if got := found(b, "a"); !slices.Equal(got, tt.want) {
					t.Errorf("found %v, want %v", got, tt.want)
				}
				if s := fake.Stats(tokenOf("a")); s.AtOnce > 1 {
					t.Errorf("%d calls at once", s.AtOnce)
				}
			})
		})
	}
}

// A replica stops, is told to hurry, or learns that the token has changed, just when an answer
// arrives, at each moment from before its first byte until the page is written. Nothing is lost.
func TestAnAnswerThatHasBegunIsKept(t *testing.T) {
	for moment := -100 * time.Millisecond; moment <= 900*time.Millisecond; moment += 200 * time.Millisecond {
		for name, commits := range map[string]time.Duration{"": 0, ", the commit takes its time": 300 * time.Millisecond, ", the commit takes long": 4 * time.Second} {
			for _, event := range []string{"it stops", "the secret changes"} {
				t.Run(fmt.Sprint(event, " after ", moment, name), func(t *testing.T) {
					faketime.Run(t, 2, func(b *faketime.World) {
						fake := newFake(ilink.Options{Slow: 600 * time.Millisecond})
						for _, id := range []string{"a", "b", "c"} {
							fake.AddBot(tokenOf(id))
							register(b, id)
						}
						r, stopFirst := start(b, fake, poller.Config{})
						time.Sleep(50 * time.Second) // the second call is held, and its account stays
						r.set(func(s faketime.Step) faketime.Fate {
							if s.At == faketime.Call && hasMessages(s) {
								time.Sleep(commits)
							}
							return faketime.Healthy
						})
						time.AfterFunc(time.Second, func() {
							for _, id := range []string{"a", "b", "c"} {
								fake.PostN(tokenOf(id), 2)
							}
						})
						time.Sleep(time.Second + moment)
						if event == "it stops" {
							stopFirst()
							_, stop := start(b, fake, poller.Config{})
							defer stop()
						} else {
							defer stopFirst()
							for _, id := range []string{"a", "b", "c"} {
								if _, _, err := document.Of(b.Ring).Vault().Put(b.Context(), "T_"+id, []byte(tokenOf(id))); err != nil {
									t.Fatal(err)
								}
							}
						}
						time.Sleep(30 * time.Second)
						for _, id := range []string{"a", "b", "c"} {
							fake.PostN(tokenOf(id), 2)
						}
						time.Sleep(30 * time.Second)
						for _, id := range []string{"a", "b", "c"} {
							if got := found(b, id); !slices.Equal(got, []int{1, 2, 3, 4}) {
								t.Errorf("%s: found %v", id, got)
							}
							if s := fake.Stats(tokenOf(id)); s.AtOnce > 1 {
								t.Errorf("%s: %d calls at once", id, s.AtOnce)
							}
						}
					})
				})
			}
		}
	}
}

// hasMessages reports whether a step writes messages, of a page or of a return.
func hasMessages(s faketime.Step) bool {
	return slices.ContainsFunc(s.Args, func(a any) bool {
		text, ok := a.([]byte)
		return ok && bytes.Contains(text, []byte("create_time_ms"))
	})
}

// As long as the replica lives, the page in hand is committed again until Redis has it, before
// the server is asked again.
func TestThePageInHandIsCommittedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		fate  faketime.Fate
		away  time.Duration
		alone bool // the monitors still reach Redis
		want  []int
	}{
		"the reply is lost":               {faketime.ReplyLost, 0, true, []int{1, 2, 3, 4}},
		"it does not arrive":              {faketime.NotDone, 0, true, []int{1, 2, 3, 4}},
		"Redis is away for minutes":       {faketime.NotDone, 4 * time.Minute, false, []int{1, 2, 3, 4}},
		"Redis is away for half an hour":  {faketime.NotDone, 30 * time.Minute, false, []int{1, 2, 3, 4}},
		"all replies are lost for one":    {faketime.ReplyLost, time.Minute, false, []int{1, 2, 3, 4}},
		"the replica alone was cut off":   {faketime.NotDone, time.Minute, true, []int{3, 4}}, // it counts as dead
		"the replica's replies were lost": {faketime.ReplyLost, time.Minute, true, []int{1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(b *faketime.World) {
				fake := newFake(ilink.Options{})
				register(b, "a")
				r, stop := start(b, fake, poller.Config{})
				defer stop()
				by := circulate.Server(r)
				if tt.alone {
					by = b.Redis
				}
				defer monitored(b, by)()
				time.Sleep(5 * time.Second)
				var mu sync.Mutex
				var until time.Time
				asked := 0
				r.set(func(s faketime.Step) faketime.Fate {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case s.At != faketime.Call || !s.ReturnsMessages() && until.IsZero():
						return faketime.Healthy
					case until.IsZero():
						until = time.Now().Add(tt.away)
						asked = fake.Stats(tokenOf("a")).Polls
						return tt.fate
					case time.Now().Before(until):
						if now := fake.Stats(tokenOf("a")).Polls; now != asked && !slices.Equal(found(b, "a"), []int{1, 2}) {
							t.Error("the server was asked while the page was in hand")
						}
						return tt.fate
					}
					return faketime.Healthy
				})
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(tt.away + 30*time.Second)
				mu.Lock()
				if until.IsZero() {
					t.Error("no commit failed")
				}
				mu.Unlock()
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(10 * time.Second)
				if got := found(b, "a"); !slices.Equal(got, tt.want) {
					t.Errorf("found %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// failures returns an account's failures in a row.
func failures(b *faketime.World, id string) int {
	b.Helper()
	return b.Look(id).Failures
}

// A hold may end with a time-out, a cut connection, a 502 or a 524. That is no failure, and the
// account is checked again at once.
func TestTheEndOfAHoldIsNoFailure(t *testing.T) {
	for name, f := range map[string]ilinkd.Fault{
		"524": {Status: 524, After: 30 * time.Second}, "502": {Status: 502, After: 20 * time.Second},
		"reset": {Reset: true, After: 25 * time.Second}, "no answer": {Hang: true}, "an empty answer": {Empty: true, After: 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(b *faketime.World) {
				fake := newFake(ilink.Options{})
				register(b, "a")
				_, stop := start(b, fake, poller.Config{})
				defer stop()
				time.Sleep(time.Minute)
				fake.Fail(ilinkd.GetUpdates, f)
				time.Sleep(10 * time.Minute)
				if polls := fake.Calls(ilinkd.GetUpdates); polls < 10 || polls > 40 || failures(b, "a") != 0 {
					t.Errorf("%d calls in ten minutes, %d failures", polls, failures(b, "a"))
				}
				fake.Heal()
				fake.Post(tokenOf("a"), "text")
				time.Sleep(time.Minute)
				if got := found(b, "a"); !slices.Equal(got, []int{1}) {
					t.Errorf("found %v", got)
				}
			})
		})
	}
}

// The server holds each call for exactly as long as it says, and then takes seconds more. The
// client does not give up before.
func TestEqualTimeOutsLoseNothing(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		fake := newFake(ilink.Options{Hold: 40 * time.Second, NextHold: 40 * time.Second, Latency: 3 * time.Second})
		register(b, "a")
		_, stop := start(b, fake, poller.Config{})
		defer stop()
		want := []int(nil)
		for n := 1; n <= 12; n++ {
			time.Sleep(43*time.Second - 500*time.Millisecond) // around the end of each hold
			fake.Post(tokenOf("a"), "text")
			want = append(want, n)
		}
		time.Sleep(time.Minute)
		if got := found(b, "a"); !slices.Equal(got, want) || failures(b, "a") != 0 {
			t.Errorf("found %v, %d failures", got, failures(b, "a"))
		}
	})
}

// Three replicas have one account between them: the server never has two calls of it at once,
// while replicas come and go.
func TestOneReplicaAsksAtATime(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		fake := newFake(ilink.Options{})
		register(b, "a")
		defer monitored(b, b.Redis)()
		posted := 0
		for round := range 6 {
			_, stop := start(b, fake, poller.Config{GracePeriod: time.Second})
			_, stopToo := start(b, fake, poller.Config{GracePeriod: time.Second})
			for range 5 {
				time.Sleep(time.Duration(7+round) * time.Second)
				posted = fake.Post(tokenOf("a"), "text")
			}
			time.Sleep(time.Second)
			stop()
			stopToo()
		}
		if s := fake.Stats(tokenOf("a")); s.AtOnce > 1 {
			t.Errorf("%d calls at once", s.AtOnce)
		}
		if got := found(b, "a"); len(got) != posted || !slices.IsSorted(got) {
			t.Errorf("found %v of %d", got, posted)
		}
	})
}

// After code -14 the check repeats its call once if there is time for a whole hold. Otherwise the
// next check makes the call, because a call that outlasts its check could lose what it brings.
func TestTheSecondCallAfterAStaleCode(t *testing.T) {
	for after, again := range map[time.Duration]bool{time.Second: true, 4 * time.Second: true, 6 * time.Second: false, 30 * time.Second: false} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFake(ilink.Options{})
				w.Fail(ilinkd.GetUpdates, ilinkd.Fault{Times: 1, After: after, Code: -14})
				ctx, cancel := context.WithTimeout(t.Context(), hold+10*time.Second)
				defer cancel()
				r, err := asked(ctx, w, nil)
				calls := 1
				if again {
					calls = 2
				}
				if err != nil || r.HasMore == again || w.Calls(ilinkd.GetUpdates) != calls || w.Calls(ilinkd.NotifyStart) != 1 {
					t.Errorf("%d calls: %+v, %v", w.Calls(ilinkd.GetUpdates), r, err)
				}
			})
		})
	}
}

// Ten texts go within a window, and any number of typing notices beside them. The eleventh text is
// refused until the person writes again.
func TestTypingTakesNothingFromTheWindow(t *testing.T) {
	faketime.Run(t, 1, func(b *faketime.World) {
		fake := newFake(ilink.Options{})
		register(b, "a")
		fake.Post(tokenOf("a"), "text")
		_, stop := start(b, fake, poller.Config{})
		defer stop()
		time.Sleep(10 * time.Second)
		queue := func(kind, data string) error {
			s := circulate.Send{
				ID: circulate.NewSendID("a"), Account: "a", Kind: Kind, Peer: person, Type: kind, Data: []byte(data), Windowed: true, Free: kind == "typing",
			}
			_, _, err := b.Ring.Sends().Queue(b.Context(), s, "", circulate.SendBounds{})
			return err
		}
		for n := range 10 {
			err := errors.Join(queue("typing", `{"on":true}`), queue("text", fmt.Sprintf(`{"text":"%d"}`, n)))
			if err != nil {
				t.Fatalf("text %d: %v", n, err)
			}
			time.Sleep(time.Duration(n%2) * time.Second) // some stand in line behind others
		}
		var closed *circulate.WindowError
		if err := queue("text", `{"text":"x"}`); !errors.As(err, &closed) {
			t.Errorf("an eleventh text: %v", err)
		}
		time.Sleep(10 * time.Second)
		if texts, notices := fake.Sent(tokenOf("a")), fake.Typing(tokenOf("a")); len(texts) != 10 || len(notices) != 10 || fake.Calls(ilinkd.SendMessage) != 10 {
			t.Errorf("%d texts and %d notices were sent", len(texts), len(notices))
		}
		fake.Post(tokenOf("a"), "text")
		time.Sleep(time.Second)
		if err := queue("text", `{"text":"x"}`); err != nil {
			t.Error(err)
		}
	})
}
