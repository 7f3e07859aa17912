package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

type anyKind struct{}

func (anyKind) Validate(string, json.RawMessage) error { return nil }

var anna = access.Principal{Name: "anna", Role: access.Admin, Via: access.ViaKey}

// fixture is a ring with accounts and its jobs.
type fixture struct {
	*testing.T
	ring     *circulate.Ring
	registry *accounts.Registry
	jobs     *Jobs

	mu    sync.Mutex
	ended []Job

	states map[State]int // as the processes saw them last
	failed int           // steps
}

func newFixture(t *testing.T, server circulate.Server) *fixture {
	t.Helper()
	f := &fixture{T: t}
	f.ring, f.registry, f.jobs = f.process(server)
	return f
}

// process opens the ring as another process would.
func (f *fixture) process(server circulate.Server) (*circulate.Ring, *accounts.Registry, *Jobs) {
	f.Helper()
	ring, err := circulate.Open(f.Context(), server, circulate.Options{Shards: 4})
	f.must(err)
	registry := accounts.NewRegistry(ring, anyKind{})
	return ring, registry, New(ring, registry, Options{Ended: func(_ context.Context, j Job) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended = append(f.ended, j)
	}, Looked: func(states map[State]int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.states = states
	}, Failed: func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed++
	}})
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fill registers accounts a-000, a-001, …: of ten teams, each due in ten minutes at the latest.
func (f *fixture) fill(n int) {
	f.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"id":"a-%03d","kind":"plain","cadence":"every 10m","labels":{"team":"%d"}}`+"\n", i, i%10)
	}
	done, err := f.registry.Import(f.Context(), strings.NewReader(text.String()), func(b accounts.BadLine) error { return b.Faults })
	f.must(err)
	if done.Created != n {
		f.Fatal(done)
	}
}

func (f *fixture) start(o Order) Job {
	f.Helper()
	o.By, o.Via = "anna", access.ViaKey
	j, err := f.jobs.Start(f.Context(), o)
	f.must(err)
	return j
}

// work has a process work until nothing is left that it may take.
func (f *fixture) work(s *Jobs) {
	f.Helper()
	var all sync.WaitGroup
	f.must(s.turn(f.Context(), &all))
	all.Wait()
}

// done does an order to its end.
func (f *fixture) done(o Order) Job {
	f.Helper()
	id := f.start(o).ID
	f.work(f.jobs)
	return f.get(id)
}

func (f *fixture) get(id string) Job {
	f.Helper()
	j, err := f.jobs.Get(f.Context(), anna, id)
	f.must(err)
	return j
}

func (f *fixture) undo(id string) Job {
	f.Helper()
	j, err := f.jobs.Undo(f.Context(), anna, id)
	f.must(err)
	f.work(f.jobs)
	return f.get(j.ID)
}

func (f *fixture) account(id string) accounts.View {
	f.Helper()
	v, err := f.registry.Get(f.Context(), id)
	f.must(err)
	return v
}

func (f *fixture) park(reason string, ids ...string) {
	f.Helper()
	for _, id := range ids {
		f.must(f.ring.Account(id).Park(f.Context(), reason))
	}
}

func (f *fixture) count(s accounts.Selector) int {
	f.Helper()
	n, err := f.registry.CountWithin(f.Context(), s, 1_000_000)
	f.must(err)
	return n.Count
}

func reasons(of accounts.Reasons) string {
	var words []string
	for why, r := range of {
		words = append(words, fmt.Sprintf("%s %d", why, r.Count))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func TestSetAndUndo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		f := newFixture(t, server)
		f.fill(230)
		f.park("auth: 401", "a-030")
		f.park(circulate.ReasonPaused, "a-031")
		for _, id := range []string{"a-040", "a-041"} {
			_, _, err := f.registry.Patch(t.Context(), id, []byte(`{"cadence":"every 1h","labels":{"team":null,"shop":"x"}}`), accounts.Match{})
			f.must(err)
		}
		before := map[string]accounts.View{}
		for _, id := range []string{"a-000", "a-001", "a-030", "a-031", "a-040", "a-229"} {
			before[id] = f.account(id)
		}

		j := f.done(Order{Action: accounts.SetAll, Set: json.RawMessage(`{"cadence":"every 1h","priority":"low","labels":{"shop":"x","team":null}}`)})
		if j.State != Ended || j.Matched != 230 || j.Changed != 230 || j.Seen != 230 || j.Share() != 1 || j.Undoable().IsZero() {
			t.Fatalf("%+v", j)
		}
		for id := range before {
			v := f.account(id)
			if v.Cadence != "every 1h" || v.Priority != "low" || len(v.Labels) != 1 || v.Labels["shop"] != "x" || v.Revision.Number != before[id].Revision.Number+1 {
				t.Errorf("%s: %+v", id, v)
			}
		}
		// A change of a label is no reason to try an account that has no access.
		if v := f.account("a-030"); v.State.Reason != "auth: 401" {
			t.Errorf("%+v", v.State)
		}
		// It becomes due in its own slot, not with all the others.
		if n := f.count(accounts.Selector{States: []string{"scheduled"}}); n != 228 {
			t.Errorf("%d accounts are scheduled", n)
		}
		again := f.done(Order{Action: accounts.SetAll, Select: map[string][]string{"label": {"shop=x"}}, Set: json.RawMessage(`{"priority":"low"}`)})
		if same := again.Unchanged[accounts.WhySame]; again.Changed != 0 || same.Count != 230 || len(same.Examples) != 5 || !again.Undoable().IsZero() {
			t.Errorf("%+v", again)
		}

		// Undo leaves out what somebody changed since, even back and forth.
		for _, patch := range []string{`{"priority":"urgent"}`, `{"priority":"low"}`} {
			_, _, err := f.registry.Patch(t.Context(), "a-005", []byte(patch), accounts.Match{})
			f.must(err)
		}
		f.must(f.registry.Delete(t.Context(), "a-006"))
		back := f.undo(j.ID)
		if got := reasons(back.Unchanged); back.State != Ended || back.Changed != 228 || back.Matched != 230 || got != "changed 1, gone 1" {
			t.Errorf("%+v: %s", back, got)
		}
		if examples := back.Unchanged[accounts.WhyChanged].Examples; !slices.Equal(examples, []string{"a-005"}) {
			t.Errorf("%q", examples)
		}
		for id, was := range before {
			v := f.account(id)
			if v.Cadence != was.Cadence || v.Priority != was.Priority || fmt.Sprint(v.Labels) != fmt.Sprint(was.Labels) || v.State.Reason != was.State.Reason {
				t.Errorf("%s: %+v, was %+v", id, v, was)
			}
		}
		if _, err := f.jobs.Undo(t.Context(), anna, j.ID); !errors.Is(err, ErrUndone) || f.get(j.ID).Undone != back.ID {
			t.Errorf("taken back twice: %v", err)
		}
		if len(f.ended) != 3 || f.ended[2].By != "anna" {
			t.Errorf("%+v", f.ended)
		}
	})
}

func TestPauseAndUndo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		f := newFixture(t, server)
		f.fill(120)
		f.park("auth: 401", "a-000", "a-001")
		f.park(circulate.ReasonPaused, "a-002")
		j := f.done(Order{Action: accounts.PauseAll})
		if got := reasons(j.Unchanged); j.Changed != 117 || j.Matched != 120 || got != "parked 2, paused 1" {
			t.Errorf("%+v: %s", j, got)
		}
		// One that is resumed and paused by somebody else is not resumed.
		_, err := f.registry.Resume(t.Context(), "a-003")
		f.must(err)
		_, err = f.registry.Resume(t.Context(), "a-004")
		f.must(err)
		for now, err := f.ring.Now(t.Context(), 0); !now.After(j.Ended); now, err = f.ring.Now(t.Context(), 0) {
			f.must(err)
		}
		_, err = f.registry.Pause(t.Context(), "a-004")
		f.must(err)
		back := f.undo(j.ID)
		if got := reasons(back.Unchanged); back.Changed != 115 || got != "changed 2" {
			t.Errorf("%+v: %s", back, got)
		}
		if v := f.account("a-004"); v.State.Reason != circulate.ReasonPaused {
			t.Errorf("%+v", v.State)
		}
		if n := f.count(accounts.Selector{States: []string{accounts.StateActive}}); n != 116 {
			t.Errorf("%d circulate", n)
		}
		// What was parked for another reason gets that reason again.
		j = f.done(Order{Action: accounts.PauseAll, Select: map[string][]string{"reason": {"auth"}}})
		if j.Changed != 2 || f.account("a-000").State.Reason != circulate.ReasonPaused {
			t.Errorf("%+v", j)
		}
		if back = f.undo(j.ID); back.Changed != 2 || f.account("a-001").State.Reason != "auth: 401" {
			t.Errorf("%+v", back)
		}
	})
}

// Retry revives parked accounts and nudges the others, at one rate.
func TestRetry(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		f := newFixture(t, server)
		f.fill(12)
		_, err := f.ring.Claim(t.Context(), 0, "replica001", 100, 0)
		f.must(err)
		done := f.done(Order{Action: accounts.SetAll, Set: json.RawMessage(`{"cadence":"every 24h"}`)}) // due far from now
		f.park("auth: 401", "a-000", "a-001")
		f.park(circulate.ReasonPaused, "a-002")
		began := time.Now()
		j := f.done(Order{Action: accounts.RetryAll, Rate: 0.1})
		if got := reasons(j.Unchanged); done.Changed != 12 || j.Changed != 11 || got != "paused 1" {
			t.Errorf("%+v: %s", j, got)
		}
		var due []time.Duration
		for i := range 12 {
			if v := f.account(fmt.Sprintf("a-%03d", i)); v.State.Place == circulate.Scheduled {
				due = append(due, v.State.Due.Sub(began).Truncate(time.Second))
			}
		}
		slices.Sort(due)
		for i, d := range due {
			if want := time.Duration(i) * 10 * time.Second; d != want {
				t.Errorf("%d is due in %v, want %v", i, d, want)
			}
		}
		if len(due) != 11 {
			t.Errorf("%d are scheduled", len(due))
		}
	})
}

// A process may be killed before or after any of its calls. Another one goes on within 20
// seconds, each account is changed once, and the counts are right.
func TestKilledAnywhere(t *testing.T) {
	const n = 130
	for _, o := range []Order{
		{Action: accounts.SetAll, Set: json.RawMessage(`{"cadence":"every 1h","labels":{"shop":"x"}}`)},
		{Action: accounts.PauseAll},
		{Action: accounts.ResumeAll},
		{Action: accounts.DeleteAll},
		{Action: accounts.SetAll, Undoes: "yes", Set: json.RawMessage(`{"cadence":"every 1h"}`)},
		{Action: accounts.PauseAll, Undoes: "yes"},
	} {
		t.Run(fmt.Sprint(o.Action, o.Undoes), func(t *testing.T) {
			calls := 1
			for at := 1; at <= calls; at += 3 { // each third call, before it and after it by turns
				faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
					f := newFixture(t, server)
					f.fill(n)
					if o.Action == accounts.ResumeAll {
						f.done(Order{Action: accounts.PauseAll})
					}
					var id string
					if o.Undoes == "" {
						id = f.start(o).ID
					} else {
						before := f.done(Order{Action: o.Action, Set: o.Set})
						j, err := f.jobs.Undo(t.Context(), anna, before.ID)
						f.must(err)
						id = j.ID
					}
					faulty := &faketime.Faulty{Server: server}
					_, _, dying := f.process(faulty)
					var mu sync.Mutex
					seen := 0
					faulty.Set(func(s faketime.Step) faketime.Fate {
						mu.Lock()
						defer mu.Unlock()
						if s.At == faketime.Called || s.At == faketime.Receive {
							if seen++; seen == at && at%2 == 0 {
								return faketime.ReplyLost
							}
						}
						if seen >= at {
							return faketime.NotDone
						}
						return faketime.Healthy
					})
					ctx, kill := context.WithCancel(t.Context())
					dead := make(chan struct{})
					go func() { defer close(dead); _ = dying.Run(ctx) }()
					time.Sleep(10 * time.Second)
					kill()
					<-dead
					if at == 1 { // count the calls of an undisturbed run
						healthy := &faketime.Faulty{Server: server}
						_, _, other := f.process(healthy)
						healthy.Set(func(s faketime.Step) faketime.Fate {
							mu.Lock()
							defer mu.Unlock()
							if s.At == faketime.Called || s.At == faketime.Receive {
								calls++
							}
							return faketime.Healthy
						})
						time.Sleep(20 * time.Second)
						f.work(other)
					}
					began := time.Now()
					stop := faketime.Go(t, f.jobs.Run)
					for f.get(id).State != Ended {
						if time.Since(began) > 20*time.Second {
							t.Fatalf("killed at call %d: not done: %+v", at, f.get(id))
						}
						time.Sleep(time.Second)
					}
					stop()
					j := f.get(id)
					if j.Changed != n || j.Matched != n || j.Seen != n || j.Unchanged.Sum() != 0 || j.Unknown != 0 {
						t.Errorf("killed at call %d: %+v", at, j)
					}
					f.wantOnce(o, n)
				})
				if t.Failed() {
					return
				}
			}
			if calls < 10 {
				t.Errorf("only %d calls were seen", calls)
			}
		})
	}
}

// wantOnce checks that each of n accounts was changed once.
func (f *fixture) wantOnce(o Order, n int) {
	f.Helper()
	if o.Action == accounts.DeleteAll {
		if left := f.count(accounts.Selector{}); left != 0 {
			f.Errorf("%d are left", left)
		}
		return
	}
	for i := range n {
		v := f.account(fmt.Sprintf("a-%03d", i))
		revision, cadence, parked := 1, "every 10m", o.Action == accounts.PauseAll && o.Undoes == ""
		if o.Action == accounts.SetAll {
			revision, cadence = 2, "every 1h"
			if o.Undoes != "" {
				revision, cadence = 3, "every 10m"
			}
		}
		if v.Revision.Number != revision || v.Cadence != cadence || (v.State.Place == circulate.Parked) != parked {
			f.Fatalf("%s: %+v %+v", v.ID, v.Account, v.State)
		}
	}
}

// A job that is resumed before its stop has taken effect goes on.
func TestResumeBeforeTheStop(t *testing.T) {
	for _, resumed := range []State{Stopping, Stopped} { // what the process is about to write
		faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
			faulty := &faketime.Faulty{Server: server}
			f := newFixture(t, server)
			f.fill(300)
			_, _, worker := f.process(faulty)
			id := f.start(Order{Action: accounts.PauseAll}).ID
			stopped, again := false, false
			faulty.Set(func(s faketime.Step) faketime.Fate {
				writes := func(state State) bool {
					return slices.ContainsFunc(s.Args, func(arg any) bool { return strings.Contains(fmt.Sprintf("%s", arg), `"state":"`+string(state)+`"`) })
				}
				switch {
				case s.At != faketime.Call:
				case !stopped && slices.Contains(s.Args, any(circulate.ReasonPaused)):
					stopped = true
					_, err := f.jobs.Stop(t.Context(), anna, id)
					f.must(err)
				case stopped && !again && writes(resumed):
					again = true
					j, err := f.jobs.Resume(t.Context(), anna, id)
					f.must(err)
					if j.State != Running {
						t.Errorf("%+v", j)
					}
				}
				return faketime.Healthy
			})
			f.work(worker)
			if j := f.get(id); !again || j.State != Ended || j.Changed != 300 || !j.Until.IsZero() {
				t.Errorf("resumed before %s was written: %v %+v", resumed, again, j)
			}
		})
	}
}

// A stopped job stays where it is, and goes on there.
func TestStopAndResume(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		faulty := &faketime.Faulty{Server: server}
		f := newFixture(t, server)
		f.fill(300)
		_, _, worker := f.process(faulty)
		id := f.start(Order{Action: accounts.PauseAll}).ID
		asked := false
		faulty.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && !asked && slices.Contains(s.Args, any(circulate.ReasonPaused)) {
				asked = true
				if j, err := f.jobs.Stop(t.Context(), anna, id); err != nil || j.State != Stopping {
					t.Error(j, err)
				}
			}
			return faketime.Healthy
		})
		f.work(worker)
		j := f.get(id)
		if j.State != Stopped || j.Changed == 0 || j.Changed == 300 || j.Pending != 0 || j.Undoable().IsZero() {
			t.Fatalf("%+v", j)
		}
		if n := f.count(accounts.Selector{States: []string{accounts.StatePaused}}); n != j.Changed {
			t.Errorf("%d are paused, %d were counted", n, j.Changed)
		}
		if again, err := f.jobs.Stop(t.Context(), anna, id); err != nil || again.State != Stopped {
			t.Error(again, err)
		}
		f.work(f.jobs)
		if f.get(id).Changed != j.Changed {
			t.Error("a stopped job went on")
		}
		_, err := f.jobs.Resume(t.Context(), anna, id)
		f.must(err)
		f.work(f.jobs)
		if j = f.get(id); j.State != Ended || j.Changed != 300 || j.Matched != 300 {
			t.Errorf("%+v", j)
		}
		for _, refused := range []func(context.Context, access.Principal, string) (Job, error){f.jobs.Stop, f.jobs.Resume} {
			if _, err := refused(t.Context(), anna, id); !errors.Is(err, ErrEnded) {
				t.Error(err)
			}
		}
		if back := f.undo(id); back.Changed != 300 {
			t.Errorf("%+v", back)
		}
		// A job on which nobody works stops at once.
		id = f.start(Order{Action: accounts.PauseAll}).ID
		if j, err := f.jobs.Stop(t.Context(), anna, id); err != nil || j.State != Stopped {
			t.Error(j, err)
		}
		// After its hour it can be resumed, and not be taken back.
		_, err = f.jobs.Resume(t.Context(), anna, id)
		f.must(err)
		f.work(f.jobs)
		time.Sleep(UndoFor + time.Second)
		if _, err := f.jobs.Undo(t.Context(), anna, id); !errors.Is(err, ErrTooLate) {
			t.Error(err)
		}
	})
}

// A job of too many accounts goes on without notes, and nothing of them is left.
func TestTooManyToUndo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		f := newFixture(t, server)
		f.jobs.mostUndo = 100
		f.fill(230)
		j := f.done(Order{Action: accounts.PauseAll})
		if j.Changed != 230 || !j.NoUndo || j.Kept != 0 || j.KeptBytes != 0 {
			t.Errorf("%+v", j)
		}
		if _, err := f.jobs.Undo(t.Context(), anna, j.ID); !errors.Is(err, ErrTooMany) {
			t.Error(err)
		}
		for _, name := range []string{"0", "1", only} {
			if text, err := f.jobs.store.Chunk(t.Context(), j.ID, name); err == nil {
				t.Errorf("%s is left: %s", name, text)
			}
		}
	})
}

// Nothing grows for ever: ended jobs go after a day, and make room for new ones before.
func TestJobsAreBounded(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		f := newFixture(t, server)
		f.fill(1)
		first := f.done(Order{Action: accounts.PauseAll})
		time.Sleep(time.Minute)
		for range 49 {
			f.start(Order{Action: accounts.ResumeAll})
		}
		f.start(Order{Action: accounts.ResumeAll}) // in the place of the first
		if _, err := f.jobs.Get(t.Context(), anna, first.ID); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		if _, err := f.jobs.Start(t.Context(), Order{Action: accounts.PauseAll}); !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		stop := faketime.Go(t, f.jobs.Run)
		time.Sleep(5 * time.Minute)
		jobs, err := f.jobs.List(t.Context(), anna)
		f.must(err)
		if len(jobs) != 50 || slices.ContainsFunc(jobs, func(j Job) bool { return j.State != Ended }) {
			t.Errorf("%+v", jobs)
		}
		stop()
		if len(f.states) != 1 || f.states[Ended] != 50 || f.failed != 0 {
			t.Errorf("%v, %d steps failed", f.states, f.failed)
		}
		time.Sleep(endedFor)
		f.work(f.jobs)
		if jobs, err := f.jobs.List(t.Context(), anna); err != nil || len(jobs) != 0 {
			t.Errorf("%+v, %v", jobs, err)
		}
		if keys := server.Miniredis().Keys(); slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, ":jobs}") }) {
			t.Errorf("%q", keys)
		}
	})
}

func TestOrdersAreRefused(t *testing.T) {
	f := newFixture(t, redistest.Embedded(t))
	for want, o := range map[string]Order{
		"action":       {Action: "sell"},
		"set":          {Action: accounts.SetAll},
		"kind":         {Action: accounts.SetAll, Set: json.RawMessage(`{"kind":"feed"}`)},
		"cadence":      {Action: accounts.SetAll, Set: json.RawMessage(`{"cadence":"now and then"}`)},
		"priority":     {Action: accounts.SetAll, Set: json.RawMessage(`{"priority":7}`)},
		"labels.a":     {Action: accounts.SetAll, Set: json.RawMessage(`{"labels":{"a":1}}`)},
		"state":        {Action: accounts.PauseAll, Select: map[string][]string{"state": {"on"}}},
		"odd":          {Action: accounts.DeleteAll, Select: map[string][]string{"odd": {"x"}}},
		"rate":         {Action: accounts.PauseAll, Rate: 3},
		"id: must hav": {Action: accounts.PauseAll, Select: map[string][]string{"id": {strings.Repeat("x", 9000)}}},
	} {
		if _, err := f.jobs.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if _, err := f.jobs.Undo(t.Context(), anna, "none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	deleted := f.done(Order{Action: accounts.DeleteAll})
	if _, err := f.jobs.Undo(t.Context(), anna, deleted.ID); !errors.Is(err, ErrNoUndo) {
		t.Error(err)
	}
}

// A caller who is bound to labels changes only accounts with them, and sees only such jobs.
func TestBoundJobs(t *testing.T) {
	f := newFixture(t, redistest.Embedded(t))
	f.fill(40)
	bound := access.Principal{Name: "bea", Role: access.Operator, Labels: access.Labels{"team": "3"}}
	j := f.done(Order{Action: accounts.PauseAll, Labels: bound.Labels})
	if j.Changed != 4 || j.Seen != 4 || j.Matched != 4 {
		t.Errorf("%+v", j)
	}
	all := f.done(Order{Action: accounts.ResumeAll})
	if list, err := f.jobs.List(t.Context(), bound); err != nil || len(list) != 1 || list[0].ID != j.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.jobs.Stop(t.Context(), bound, all.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	// Nor can such a job take the labels away.
	j = f.done(Order{Action: accounts.SetAll, Labels: bound.Labels, Set: json.RawMessage(`{"labels":{"team":"4"}}`)})
	if got := reasons(j.Unchanged); j.Changed != 0 || got != "refused 4" {
		t.Errorf("%+v: %s", j, got)
	}
}

// A step that failed is counted and tried again.
func TestFailedStep(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		faulty := &faketime.Faulty{Server: server}
		f := newFixture(t, server)
		f.fill(30)
		_, _, worker := f.process(faulty)
		id := f.start(Order{Action: accounts.PauseAll}).ID
		cut := false
		faulty.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && !cut && slices.Contains(s.Args, any(circulate.ReasonPaused)) {
				cut = true
				return faketime.NotDone
			}
			return faketime.Healthy
		})
		f.work(worker)
		if j := f.get(id); j.State != Ended || j.Changed != 30 || f.failed != 1 || f.states[Running] != 1 {
			t.Errorf("%+v, %d steps failed, %v", j, f.failed, f.states)
		}
	})
}
