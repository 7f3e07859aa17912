package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// line is a replica's network, which ends when the replica dies.
type line struct {
	*telegram.Telegram
	life   context.Context
	answer atomic.Pointer[context.CancelFunc] // called when an answer has arrived, before the checker has it
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	response, err := l.Telegram.RoundTrip(r.WithContext(ctx))
	if answer := l.answer.Load(); answer != nil && err == nil && response.StatusCode == http.StatusOK {
		(*answer)()
	}
	if l.life.Err() != nil {
		return nil, errors.New("killed")
	}
	return response, err
}

// start runs a replica. Once it is killed, nothing that it does has any effect.
func start(b *faketime.World, fake *telegram.Telegram, fate func(faketime.Step, context.CancelFunc) faketime.Fate) (l *line, kill context.CancelFunc, stop func()) {
	b.Helper()
	server := &faketime.Faulty{Server: b.Redis}
	l = &line{Telegram: fake}
	l.life, kill = context.WithCancel(context.Background())
	server.Set(func(s faketime.Step) faketime.Fate {
		switch {
		case l.life.Err() != nil:
			return faketime.NotDone
		case fate == nil:
			return faketime.Healthy
		}
		return fate(s, kill)
	})
	checkers, err := poller.NewCheckers(New(fetch.New(fetch.Options{Transport: l}), source()))
	if err != nil {
		b.Fatal(err)
	}
	pool, err := poller.New(b.Open(server), checkers, poller.Config{}, poller.Options{Log: faketime.Log(b.T)})
	if err != nil {
		b.Fatal(err)
	}
	stopped := faketime.Go(b, pool.Run)
	return l, kill, func() { stopped(); kill() }
}

// A replica is killed at each step between the answer and the commit, and another takes over.
// Nothing is lost and nothing comes twice: an update is confirmed only by the call after the
// commit.
func TestKilledAnywhereNothingIsLost(t *testing.T) {
	for name, tt := range map[string]struct {
		answered bool
		at       faketime.Point
		fate     faketime.Fate
	}{
		"while the call is held":               {},
		"when the answer has arrived":          {answered: true},
		"when the commit is about to be sent":  {at: faketime.Call, fate: faketime.NotDone},
		"when the commit is done, unanswered":  {at: faketime.Call, fate: faketime.ReplyLost},
		"when the commit's answer has arrived": {at: faketime.Called, fate: faketime.ReplyLost},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(b *faketime.World) {
				fake := telegram.New(telegram.Options{})
				fake.AddBot(tokenOf("a"))
				b.Register(circulate.Registration{ID: "a", Record: fmt.Appendf(nil, `{"id":"a","kind":%q,"cadence":"every 0","config":%s}`, kind, configOf("", "a", ""))})
				m, err := monitor.New(b.Open(b.Redis), monitor.Config{}, monitor.Options{Log: faketime.Log(b.T)})
				if err != nil {
					t.Fatal(err)
				}
				defer faketime.Go(b, m.Run)()
				var armed atomic.Bool
				l, kill, stop := start(b, fake, func(s faketime.Step, kill context.CancelFunc) faketime.Fate {
					if armed.Load() && tt.fate != faketime.Healthy && s.At == tt.at && s.ReturnsMessages() {
						kill()
						return tt.fate
					}
					return faketime.Healthy
				})
				defer stop()
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(10 * time.Second)
				armed.Store(true)
				switch {
				case tt.answered:
					l.answer.Store(&kill)
				case tt.fate == faketime.Healthy:
					kill()
					time.Sleep(time.Millisecond)
				}
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(time.Second)
				if l.life.Err() == nil {
					t.Error("it was not killed")
				}
				_, _, stopToo := start(b, fake, nil)
				defer stopToo()
				time.Sleep(30 * time.Second)
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(10 * time.Second)
				var got []int
				for _, f := range b.Found("a") {
					got = append(got, telegram.Number(f.Message.Data))
				}
				if !slices.Equal(got, []int{1, 2, 3, 4, 5, 6}) {
					t.Errorf("found %v", got)
				}
				if s := fake.Stats(tokenOf("a")); s.Kept != 0 || s.Conflicts > 0 {
					t.Errorf("got %+v", s)
				}
			})
		})
	}
}
