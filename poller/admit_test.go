package poller_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

func names(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%02d", prefix, i)
	}
	return ids
}

// While our own network is down, failures do not count against accounts, however long it
// lasts. Each host is still tried now and then. Afterwards every account is checked at its
// phase again, with no more checks a second than before.
func TestOwnOutageIsHeldAgainstNobody(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var down atomic.Bool
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			if down.Load() {
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "timeout", Message: "no answer", Network: true}
			}
			return poller.Result{}, nil
		}
		ids := names("a", 30)
		for i, id := range ids {
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 1m","config":{"host":"h%d"}}`, id, i%6))
		}
		stop := w.start(poller.Config{})
		time.Sleep(5 * time.Minute)
		down.Store(true)
		began := time.Now()
		time.Sleep(30 * time.Minute)
		if w.counted("rounds_outage_suspected", "") != 1 || w.counted("rounds_put_back_total", "outage") == 0 || !w.reported().Outage {
			t.Error("the outage was not suspected")
		}
		tries, blameless := 0, 0
		for _, id := range ids {
			v := w.look(id)
			if v.Place != circulate.Scheduled || v.Failures > 1 {
				t.Errorf("%s is %s with %d failures after an outage", id, v.Place, v.Failures)
			}
			if accounts.RuleWord(v.Rule) != accounts.RuleOutage {
				t.Errorf("%s: rule %c", id, v.Rule)
			}
			if accounts.MarkWord(v.History.Marks[0]) == accounts.MarkBlameless {
				blameless++
			}
			tries += len(w.checker.calls(id))
		}
		if most := 6 * 4 * 32; tries > most {
			t.Errorf("%d tries, at most %d", tries, most)
		}
		if blameless == 0 {
			t.Error("no account tells that a failure was not its fault")
		}
		down.Store(false)
		back := time.Now()
		time.Sleep(5 * time.Minute)
		perSecond := make(map[int64]int)
		for _, id := range ids {
			var before, after []call
			for _, c := range w.checker.calls(id) {
				switch {
				case c.at.Before(began):
					before = append(before, c)
				case c.at.After(back):
					after = append(after, c)
					perSecond[c.at.Unix()]++
				}
			}
			if len(after) < 4 || after[0].at.Sub(back) > 75*time.Second {
				t.Fatalf("%s was checked %d times after the outage, first after %v", id, len(after), after[0].at.Sub(back))
			}
			phase := before[len(before)-1].at.Sub(time.Unix(0, 0)) % time.Minute
			last := after[len(after)-1].at.Sub(time.Unix(0, 0)) % time.Minute
			if off := (last - phase).Abs(); off > time.Second && off < time.Minute-time.Second {
				t.Errorf("%s: checked at phase %v before the outage and at %v after it", id, phase, last)
			}
		}
		for at, n := range perSecond {
			if n > 10 {
				t.Errorf("%d checks in the second %d after the outage", n, at)
			}
		}
		if w.counted("rounds_outage_suspected", "") != 0 || w.reported().Outage {
			t.Error("the outage is still suspected")
		}
		stop()
	})
}

// One host that is down does not mean that our own network is down.
func TestAHostThatIsDownIsNoOutage(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if r.Account == "down" {
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "connect", Network: true}
			}
			return poller.Result{}, nil
		}
		w.register("every 1m", names("a", 3)...)
		w.registerRecord("down", `{"id":"down","kind":"scripted","cadence":"every 1m","retry_budget":5}`)
		stop := w.start(poller.Config{})
		time.Sleep(30 * time.Minute)
		stop()
		if v := w.look("down"); v.Place != circulate.Parked || v.Failures != 5 {
			t.Errorf("%s with %d failures, want it parked", v.Place, v.Failures)
		}
		if n := w.counted("rounds_put_back_total", "outage"); n != 0 {
			t.Errorf("%v checks were put off", n)
		}
	})
}

// Accounts with strikes are checked one at a time: if one of them kills a replica, the others
// get no further strike.
func TestSuspectsAreCheckedOneAtATime(t *testing.T) {
	inFakeTime(t, func(w *world) {
		suspects := names("s", 20)
		var running, most atomic.Int32
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			if r.Account[0] == 's' && len(w.checker.calls(r.Account)) == 1 {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(2 * time.Second)
				running.Add(-1)
			}
			return poller.Result{}, nil
		}
		w.register("every 10m", suspects...)
		w.register("every 10m", names("innocent", 20)...)
		for _, id := range suspects {
			w.strike(id, 2)
		}
		stop := w.start(poller.Config{})
		time.Sleep(time.Second)
		for _, id := range names("innocent", 20) {
			if len(w.checker.calls(id)) != 1 {
				t.Errorf("%s waits for the suspects", id)
			}
		}
		if most.Load() != 1 {
			t.Errorf("%d suspects were checked at once", most.Load())
		}
		isolated := 0
		for _, id := range suspects {
			if v := w.look(id); accounts.RuleWord(v.Rule) == accounts.RuleIsolation && v.Strikes == 2 && v.Place == circulate.Scheduled {
				isolated++
			}
		}
		if isolated != len(suspects)-1 {
			t.Errorf("%d are isolated, want %d", isolated, len(suspects)-1)
		}
		time.Sleep(8 * time.Minute)
		stop()
		for _, id := range suspects {
			if v := w.look(id); v.Strikes != 0 || len(w.checker.calls(id)) == 0 {
				t.Errorf("%s has %d strikes and was checked %d times", id, v.Strikes, len(w.checker.calls(id)))
			}
		}
		if most.Load() != 1 {
			t.Errorf("%d suspects were checked at once", most.Load())
		}
	})
}

// Two monitors may count one entry. The second takes its strike back at once, and that strike makes
// nobody a suspect.
func TestAStrikeThatIsTakenBackIsolatesNobody(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			time.Sleep(2 * time.Second)
			return poller.Result{}, nil
		}
		struck := names("s", 10)
		w.register("every 10m", struck...)
		for _, id := range struck {
			w.strike(id, 2)
		}
		taken := make(map[string]bool)
		w.faulty.set(func(string) fault {
			for shard := range w.ring.Shards() {
				held, err := redis.Strings(w.bubble().Do("LRANGE", w.ring.Tag(shard)+":processing_list", 0, -1), nil)
				if err != nil {
					t.Error(err)
				}
				for _, entry := range held {
					if id := entry[strings.LastIndexByte(entry, '|')+1:]; !taken[id] {
						taken[id] = true
						w.strike(id, -1)
					}
				}
			}
			return healthy
		})
		stop := w.start(poller.Config{})
		time.Sleep(5 * time.Second)
		w.faulty.set(nil)
		stop()
		for _, id := range struck {
			if v := w.look(id); len(w.checker.calls(id)) != 1 || v.Strikes != 0 {
				t.Errorf("%s was checked %d times and has %d strikes", id, len(w.checker.calls(id)), v.Strikes)
			}
		}
		if len(taken) != len(struck) || w.counted("rounds_put_back_total", "isolation") != 0 {
			t.Errorf("%d strikes were taken back, %v accounts isolated", len(taken), w.counted("rounds_put_back_total", "isolation"))
		}
	})
}

// strike adds strikes to an account, as a monitor does when it takes one from a dead replica.
func (w *world) strike(id string, times int) {
	w.Helper()
	conn, err := w.server.Conn(w.Context(), "")
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("HINCRBY", fmt.Sprintf("{rounds:%d}:strikes", w.ring.ShardOf(id)), id, times); err != nil {
		w.Fatal(err)
	}
}
