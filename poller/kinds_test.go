package poller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// of is a scripted checker of a kind.
type of struct {
	scripted
	kind string
}

func (c *of) Kind() string { return c.kind }

func newOf(kind string) *of { return &of{scripted{seen: make(map[string][]call)}, kind} }

// startKinds runs a pool with those checkers in a world of its own.
func startKinds(w *world, name string, checkers ...poller.Checker) (in *world, stop func()) {
	w.Helper()
	in = w.another()
	pool := in.pool(poller.Config{Replica: name}, poller.Options{Log: testLog(w.T), Metrics: poller.NewMetrics(in.metrics)}, checkers...)
	return in, faketime.Go(w, pool.Run)
}

// Two programs share a namespace, and each checks only its own kind. After the first look at
// an account, neither claims the other's accounts except to learn their kinds again. Each
// account keeps its cadence, even in shards that are the other program's part.
func TestProgramsOfDifferentKindsShareANamespace(t *testing.T) {
	inFakeTime(t, func(w *world) {
		const each = 8
		kinds := []*of{newOf("feeds"), newOf("mails")}
		for _, c := range kinds {
			for _, id := range names(c.kind, each) {
				w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":%q,"cadence":"every 1m"}`, id, c.kind))
			}
		}
		a, stopA := startKinds(w, "alice00000", kinds[0])
		b, stopB := startKinds(w, "bob0000000", kinds[1])
		defer stopA()
		const minutes = 8
		time.Sleep(minutes * time.Minute)
		for _, c := range kinds {
			for _, id := range names(c.kind, each) {
				calls := c.calls(id)
				if n := len(calls); n < minutes-2 || n > minutes+2 {
					t.Errorf("%s was checked %d times in %d minutes", id, n, minutes)
				}
				for i := 3; i < len(calls); i++ {
					if late := calls[i].at.Sub(calls[i-1].at) - time.Minute; late > 200*time.Millisecond {
						t.Errorf("check %d of %s was %v late", i, id, late)
						break
					}
				}
				if v := w.look(id); v.Failures != 0 || v.Error != "" {
					t.Errorf("%s has %d failures, %q", id, v.Failures, v.Error)
				}
			}
		}
		for _, in := range []*world{a, b} {
			// Once at first, and once more where the kinds were learned again meanwhile.
			if n := in.counted("rounds_put_back_total", "handed_over"); n == 0 || n > each*2 {
				t.Errorf("%v accounts were handed over in %d minutes", n, minutes)
			}
			if n := in.counted("rounds_put_back_total", "unknown_kind"); n > each {
				t.Errorf("%v accounts were put back, once the other was there", n)
			}
		}

		// The other program leaves for good. Its accounts wait for a minute, and then show why
		// nobody checks them.
		stopB()
		m, err := monitor.New(w.ring, monitor.Config{}, monitor.Options{Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer faketime.Go(w, m.Run)()
		time.Sleep(3 * time.Minute)
		for _, id := range names("mails", each) {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Error == "" || v.Failures != 0 {
				t.Errorf("%s is %s, %q, with nobody who checks it", id, v.Place, v.Error)
			}
		}
		// The program comes back, and everything is as before.
		before := len(kinds[1].calls(names("mails", each)[0]))
		_, stopB = startKinds(w, "carol00000", kinds[1])
		defer stopB()
		time.Sleep(5 * time.Minute)
		if n := len(kinds[1].calls(names("mails", each)[0])) - before; n < 3 {
			t.Errorf("checked %d times in five minutes after it came back", n)
		}
	})
}

// Two replicas check one kind, and only one of them knows a new kind as well. The accounts of
// both kinds are checked, each by a replica that knows its kind.
func TestANewKindIsRolledOut(t *testing.T) {
	inFakeTime(t, func(w *world) {
		feeds, feedsToo, mails := newOf("feeds"), newOf("feeds"), newOf("mails")
		for _, id := range names("feeds", 8) {
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"feeds","cadence":"every 1m"}`, id))
		}
		for _, id := range names("mails", 8) {
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"mails","cadence":"every 1m"}`, id))
		}
		_, stopOld := startKinds(w, "alice00000", feeds)
		_, stopNew := startKinds(w, "bob0000000", feedsToo, mails)
		defer stopNew()
		time.Sleep(8 * time.Minute)
		for _, id := range names("mails", 8) {
			if n := len(mails.calls(id)); n < 6 {
				t.Errorf("%s was checked %d times in 8 minutes", id, n)
			}
		}
		for _, id := range names("feeds", 8) {
			if n := len(feeds.calls(id)) + len(feedsToo.calls(id)); n < 6 || n > 10 {
				t.Errorf("%s was checked %d times in 8 minutes", id, n)
			}
		}
		// The old replica is replaced. A while later no account waits by its kind, and no kind
		// is remembered.
		stopOld()
		time.Sleep(3 * time.Minute)
		for shard := range w.ring.Shards() {
			if kinds, err := w.ring.Kinds().Waiting(w.Context(), shard); err != nil || len(kinds) > 0 {
				t.Errorf("the kinds %q are waited by, %v", kinds, err)
			}
		}
	})
}
