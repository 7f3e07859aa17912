package poller_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// forgetting is a scripted checker whose third party gives each message once.
type forgetting struct{ *scripted }

func (*forgetting) GivenOnce() bool { return true }

// Redis has no room just when a page arrives that the third party does not give again. The replica
// retains the page until there is room, and does not check the account before. Meanwhile it goes on
// with results without messages. Above the mark it writes a page that has arrived.
func TestAPageThatIsGivenOnceWaitsForRoom(t *testing.T) {
	for name, refused := range map[string]bool{"refused": true, "above the mark": false} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				memory := w.fill(50)
				var given atomic.Int64
				w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
					time.Sleep(3 * time.Second)
					if r.Account == "quiet" {
						return poller.Result{}, nil
					}
					now := given.Add(1)
					n := strconv.FormatInt(now, 10)
					if now == 2 {
						memory.refuses.Store(refused)
						memory.percent.Store(99)
						time.Sleep(5 * time.Second) // the replica has noticed
					}
					return poller.Result{Messages: []circulate.Message{{ID: n, Data: []byte(n)}}}, nil
				}
				w.register("every 30s", "a")
				w.register("every 10s", "quiet")
				stop := w.startChecking(poller.Config{}, &forgetting{w.checker}, testLog(w.T))
				defer stop()
				time.Sleep(2 * time.Minute)
				if got := given.Load(); got != 2 {
					t.Errorf("asked %d times", got)
				}
				want := []string{"1", "2"}
				if refused {
					want = want[:1]
				}
				if got := w.found("a"); !slices.Equal(got, want) {
					t.Errorf("found %v, want %v", got, want)
				}
				memory.percent.Store(50)
				memory.refuses.Store(false)
				time.Sleep(2 * time.Minute)
				w.gapless("a")
				if got := w.found("a"); len(got) < 4 || len(got) != int(given.Load()) {
					t.Errorf("found %v of %d", got, given.Load())
				}
			})
		})
	}
}

// A page that is given once and cannot be written at shutdown is lost, and the log says so. The
// shutdown does not wait for ever.
func TestAPageThatIsGivenOnceBoundsTheShutdown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		memory := w.fill(50)
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			memory.refuses.Store(true)
			return poller.Result{Messages: []circulate.Message{{ID: "1", Data: []byte("1")}}}, nil
		}
		w.register("every 30s", "a")
		stop := w.startChecking(poller.Config{GracePeriod: time.Second}, &forgetting{w.checker}, testLog(w.T))
		time.Sleep(time.Minute)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		if got := w.found("a"); len(got) != 0 {
			t.Errorf("found %v", got)
		}
	})
}
