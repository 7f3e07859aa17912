package monitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// fails enters an account that fails with a text, or is parked for a reason.
func (w *world) fails(id, kind, host, text, reason string) {
	w.Helper()
	w.enter(id, 40*time.Minute, "t+++++++", fmt.Sprintf(`{"id":%q,"kind":%q,"config":{"url":"https://%s/"},"cadence":"every 5m"}`, id, kind, host))
	shard := w.Ring.ShardOf(id)
	if text != "" {
		w.Do("HSET", key(w.Ring, shard, "errors"), id, fmt.Sprintf("%013d|%s", time.Now().UnixMilli(), text))
	}
	if reason != "" {
		if _, err := w.Ring.Park(w.Context(), shard, reason, []string{id}); err != nil {
			w.Fatal(err)
		}
	}
}

// failWhileShardsChange enters n accounts that fail, and n that are parked for a failure, and begins to
// change the number of shards.
func (w *world) failWhileShardsChange(n, to int) {
	w.Helper()
	for i := range n {
		w.fails(fmt.Sprint("press", i), "feed", "news.example", "http_404: no item", "")
		w.fails(fmt.Sprint("gone", i), "feed", "news.example", "http_410: Gone", "gone: http_410: Gone")
	}
	if _, err := w.Ring.Mover().Begin(w.Context(), to); err != nil {
		w.Fatal(err)
	}
	w.Ring = w.Open(w.Redis)
}

// The summary is there within a minute, is never older than one, and follows all changes.
func TestProblemsAreSummedUp(t *testing.T) {
	inFakeTime(t, 8, func(w *world) {
		for i := range 300 {
			w.fails(fmt.Sprint("press", i), "feed", "news.example", fmt.Sprintf("http_404: no item %d", i), "")
		}
		w.fails("mail", "imap", "mail.example", "auth: refused", "auth: auth: refused")
		w.fails("gone", "imap", "mail.example", "http_410: Gone", "gone: http_410: Gone")
		w.fails("paused", "feed", "news.example", "http_404: no item 1", circulate.ReasonPaused)
		w.register("well")
		stop := w.run(monitor.Config{ProbeInterval: 6 * time.Hour})
		last := func() problem.Summary {
			w.Helper()
			s, now, ok, err := problem.Last(w.Context(), w.Ring)
			if err != nil || !ok {
				w.Fatalf("no summary, %v", err)
			}
			if age := now.Sub(s.At); age < 0 || age > time.Minute {
				w.Errorf("it is %v old", age)
			}
			return s
		}
		time.Sleep(20 * time.Second)
		for range 20 {
			time.Sleep(7 * time.Second)
			last()
		}
		s := last()
		if want := (problem.Counts{Accounts: 302, Failing: 300, Newly: 300, Parked: 2}); s.Counts != want || s.AtRest != 1 || s.LeftOut != 0 || len(s.Groups) != 3 {
			w.Errorf("got %+v", s)
		}
		if g := s.Groups[0]; g.Host != "news.example" || g.Code != "http_404" || g.Accounts != 300 {
			w.Errorf("got %+v", g)
		}
		for _, g := range s.Groups[1:] {
			want := map[string]string{"auth": problem.StepProbed, "http_410": problem.StepStays}[g.Code]
			if g.Parked != 1 || len(g.Next) != 1 || g.Next[0].Code != want {
				w.Errorf("got %+v", g)
			}
		}
		if _, err := w.Ring.Deregister(w.Context(), w.Ring.ShardOf("gone"), []string{"gone"}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := last(); s.Parked != 1 || len(s.Groups) != 2 {
			w.Errorf("got %+v", s)
		}
		stop()
	})
}

// While the number of shards changes, an account that is found in its old shard and in its new one
// is counted once, and no account is left out because its shard has more than others.
func TestProblemsCountAnAccountThatMovesOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const n = 40
		old := w.Ring.Tag(0)
		w.failWhileShardsChange(n, 2)
		for _, name := range []string{"tickets", "errors", "accounts"} { // as if all had moved just after they were counted
			for shard := w.Ring.Sources(); shard < w.Ring.Shards(); shard++ {
				w.Do("COPY", old+":"+name, w.Ring.Tag(shard)+":"+name)
			}
		}
		stop := w.run(monitor.Config{})
		time.Sleep(20 * time.Second)
		stop()
		s, _, ok, err := problem.Last(w.Context(), w.Ring)
		if err != nil || !ok || s.Failing != n || s.Parked != n || s.LeftOut != 0 {
			t.Errorf("%+v, %t, %v", s, ok, err)
		}
		// The scan cannot tell accounts apart, so it says what it may have done.
		if text, err := w.Ring.LastStaleness(w.Context()); err != nil || !strings.Contains(string(text), `"shards_change":true`) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// An account that moves into a new shard before its old one was looked at is counted there, although
// the new shard had no such account when the turn began.
func TestProblemsCountAccountsThatMoveToEmptyShards(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		const n = 40
		last := w.Ring.Tag(1)
		w.failWhileShardsChange(n, 3)
		stop := w.run(monitor.Config{})
		time.Sleep(50 * time.Millisecond) // the turn rests after the first shard
		for _, name := range []string{"tickets", "errors", "accounts", "parked"} {
			w.Do("RENAME", last+":"+name, w.Ring.Tag(w.Ring.Shards()-1)+":"+name)
		}
		time.Sleep(20 * time.Second)
		stop()
		if s, _, ok, err := problem.Last(w.Context(), w.Ring); err != nil || !ok || s.Failing != n || s.Parked != n {
			t.Errorf("%+v, %t, %v", s, ok, err)
		}
	})
}

// An account that is parked after its shard's failing accounts were counted is counted once, so
// that the sum neither falls nor jumps when an account gets worse.
func TestProblemsCountAnAccountThatIsParkedMeanwhileOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.fails("gone", "feed", "news.example", "http_410: Gone", "gone: http_410: Gone")
		for _, id := range []string{"press1", "press2", "press3"} {
			w.fails(id, "feed", "news.example", "http_404: no item", "")
		}
		stop := w.run(monitor.Config{})
		time.Sleep(50 * time.Millisecond) // the turn rests before it looks at parked accounts
		if _, err := w.Ring.Park(w.Context(), 0, "retry budget: http_404: no item", []string{"press3"}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		sum := func() problem.Counts {
			s, _, ok, err := problem.Last(w.Context(), w.Ring)
			if err != nil || !ok {
				w.Fatal(ok, err)
			}
			return s.Counts
		}
		if s := sum(); s.Accounts != 4 || s.Failing != 3 || s.Parked != 1 {
			w.Errorf("while it is parked: %+v", s)
		}
		time.Sleep(time.Minute)
		if s := sum(); s.Accounts != 4 || s.Failing != 2 || s.Parked != 2 {
			w.Errorf("once it is parked: %+v", s)
		}
		stop()
	})
}
