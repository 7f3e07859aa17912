package poller_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// confirming is a checker whose third party forgets what is older than a call's cursor.
type confirming struct{ *holding }

func (*confirming) Confirms() bool { return true }

// disk is how much of Redis' append-only file is on the disk, as WAITAOF reports it.
type disk struct {
	broken atomic.Bool
	asked  atomic.Int64
	synced atomic.Int64 // how many messages were found when it was last synced
}

// A call may make the third party forget messages that were found. It waits until Redis has those
// messages on its disk: after a page, and also after a claim, because another replica may have
// written the page. A disk that does not sync delays the call and counts against nobody. Other
// kinds never wait.
func TestACallThatConfirmsWaitsForTheDisk(t *testing.T) {
	for name, test := range map[string]struct {
		checker func(*scripted) poller.Checker
		record  string
		config  poller.Config
		waits   bool
	}{
		"held":             {func(s *scripted) poller.Checker { return &confirming{&holding{s}} }, `{"hold":30}`, poller.Config{}, true},
		"not held":         {func(s *scripted) poller.Checker { return &confirming{&holding{s}} }, `{}`, poller.Config{}, true},
		"given once":       {func(s *scripted) poller.Checker { return &forgetting{s} }, `{}`, poller.Config{}, true},
		"as the user says": {func(s *scripted) poller.Checker { return &confirming{&holding{s}} }, `{}`, poller.Config{ConfirmUnsynced: true}, false},
		"another kind":     {func(s *scripted) poller.Checker { return s }, `{}`, poller.Config{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				var disk disk
				var given atomic.Int64
				err := w.server.Miniredis().Server().Register("WAITAOF", func(c *server.Peer, _ string, _ []string) {
					disk.asked.Add(1)
					n := given.Load()
					time.Sleep(700 * time.Millisecond) // everysec
					c.WriteLen(2)
					if disk.broken.Load() {
						c.WriteInt(0)
					} else {
						disk.synced.Store(n)
						c.WriteInt(1)
					}
					c.WriteInt(0)
				})
				if err != nil {
					t.Fatal(err)
				}
				var early atomic.Int64
				w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
					confirmed, _ := strconv.Atoi(string(r.Cursor))
					if int64(confirmed) > disk.synced.Load() {
						early.Add(1)
					}
					select {
					case <-time.After(3 * time.Second):
					case <-ctx.Done():
						return poller.Result{}, ctx.Err()
					}
					id := strconv.FormatInt(given.Add(1), 10)
					return poller.Result{Messages: []circulate.Message{{ID: id}}, Cursor: []byte(id), HasMore: r.Hold == 0 && len(id)%2 == 0}, nil
				}
				w.registerRecord("a", `{"id":"a","kind":"scripted","config":`+test.record+`,"cadence":"every 0"}`)
				stop := w.startChecking(test.config, test.checker(w.checker), testLog(t))
				defer func() { stop() }()
				time.Sleep(time.Minute)
				if n := given.Load(); n < 10 || len(w.found("a")) < int(n)-1 {
					t.Errorf("%d pages, found %v", n, w.found("a"))
				}
				if !test.waits {
					if disk.asked.Load() != 0 || early.Load() == 0 {
						t.Errorf("asked %d times, %d calls were early", disk.asked.Load(), early.Load())
					}
					return
				}
				stop()
				stop = w.replicaOf(test.config, test.checker(w.checker)) // it wrote none of the pages
				disk.broken.Store(true)
				time.Sleep(10 * time.Second)
				before := given.Load()
				time.Sleep(time.Minute)
				if n := given.Load(); n != before {
					t.Errorf("%d calls while the disk did not sync", n-before)
				}
				if v := w.look("a"); v.Failures != 0 || v.Place == circulate.Parked {
					t.Errorf("the account is blamed: %+v", v)
				}
				disk.broken.Store(false)
				time.Sleep(5 * time.Minute)
				if n := given.Load(); n <= before+10 {
					t.Errorf("%d pages since the disk syncs again", n-before)
				}
				if n := early.Load(); n != 0 {
					t.Errorf("%d calls confirmed what was not on the disk", n)
				}
				if got := w.found("a"); !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) {
					t.Errorf("found %v", got)
				}
			})
		})
	}
}

// replicaOf starts another replica with a checker, with metrics of its own.
func (w *world) replicaOf(config poller.Config, checker poller.Checker) (stop func()) {
	w.Helper()
	w.newMetrics()
	return w.startChecking(config, checker, testLog(w.T))
}
