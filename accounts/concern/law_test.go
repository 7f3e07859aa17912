package concern_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/faketime"
)

type lawWorld struct{ *faketime.World }

func inFakeTime(t *testing.T, test func(w *lawWorld)) {
	t.Helper()
	faketime.Run(t, 4, func(w *faketime.World) { test(&lawWorld{w}) })
}

// law reads the law and expects a state.
func (w *lawWorld) law(want concern.State) concern.Law {
	w.Helper()
	l, err := concern.Read(w.Context(), w.Ring)
	if err != nil {
		w.Fatal(err)
	}
	if l.State != want {
		w.Errorf("the law is %s, want %s: %+v", l.State, want, l)
	}
	return l
}

func (w *lawWorld) resume() *concern.Run {
	w.Helper()
	run, err := concern.Resume(w.Context(), w.Ring, 10*time.Minute)
	if err != nil {
		w.Fatal(err)
	}
	return run
}

// audited audits the whole ring in a given time, and returns the findings given for one
// of its shards.
func (w *lawWorld) audited(took time.Duration, one circulate.Audited) {
	w.Helper()
	run := w.resume()
	time.Sleep(took)
	run.Shard(&one)
	for run.Audited < run.Shards {
		run.Shard(&circulate.Audited{Accounts: 10})
	}
	if err := run.Complete(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func found(kind circulate.Violation, repaired bool) circulate.Audited {
	return circulate.Audited{Accounts: 10, Findings: []circulate.Finding{{Kind: kind, ID: "a", Repaired: repaired}}}
}

func TestStates(t *testing.T) {
	for name, test := range map[string]struct {
		one  circulate.Audited
		want concern.State
	}{
		"kept":     {circulate.Audited{Accounts: 10}, concern.Kept},
		"repaired": {found(circulate.Lost, true), concern.Repaired},
		"unjudged": {circulate.Audited{Accounts: 10, Unjudged: 3}, concern.Unjudged},
		"flawed":   {found(circulate.Orphan, false), concern.Flawed},
		"lost":     {found(circulate.Lost, false), concern.Violated},
		"doubled":  {found(circulate.Doubled, false), concern.Violated},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *lawWorld) {
				w.audited(time.Minute, test.one)
				time.Sleep(3 * time.Minute)
				l := w.law(test.want)
				if l.Last.Accounts != 40 || l.Last.Audited != 4 || l.Last.Took() != time.Minute || l.Now.Sub(l.Last.At) != 3*time.Minute || l.Every != 600 || l.Running != nil || l.Broken != nil {
					w.Errorf("%+v, %+v", l, l.Last)
				}
				if len(l.Last.Findings) != len(test.one.Findings) {
					w.Errorf("findings: %+v", l.Last.Findings)
				}
			})
		})
	}
}

// The last audit counts for about as long as two more take. After that it is unknown
// whether the law holds, until the next audit is complete.
func TestAnAuditGetsOld(t *testing.T) {
	for _, test := range []struct{ took, young, old time.Duration }{
		{time.Second, 30 * time.Minute, 31 * time.Minute},
		{2 * time.Hour, 4*time.Hour + 10*time.Minute, 4*time.Hour + 11*time.Minute},
	} {
		inFakeTime(t, func(w *lawWorld) {
			w.law(concern.Never)
			w.audited(test.took, circulate.Audited{})
			time.Sleep(test.young)
			w.law(concern.Kept)
			time.Sleep(test.old - test.young)
			w.law(concern.Old)
			run := w.resume()
			w.law(concern.Old)
			for run.Audited < run.Shards {
				run.Shard(&circulate.Audited{})
			}
			if err := run.Complete(w.Context()); err != nil {
				w.Fatal(err)
			}
			w.law(concern.Kept)
		})
	}
}

// Audits that begin again and again, as while the number of shards changes, do not make the last
// complete one younger.
func TestAuditsThatBeginAgainHideNoOldOne(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		w.audited(time.Second, circulate.Audited{})
		for range 31 {
			run := w.resume()
			run.Shard(&circulate.Audited{Accounts: 10})
			time.Sleep(time.Minute)
			if err := run.BreakOff(w.Context(), nil); err != nil {
				w.Fatal(err)
			}
			w.resume()
			if l, err := concern.Read(w.Context(), w.Ring); err != nil || l.Last == nil || l.Last.Accounts != 30 {
				w.Fatalf("%+v, %v", l, err)
			}
		}
		w.law(concern.Old)
	})
}

func TestTheFirstAuditShowsHowFarItIs(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		run := w.resume()
		run.Shard(&circulate.Audited{Accounts: 10})
		if err := run.Report(w.Context()); err != nil {
			w.Fatal(err)
		}
		if l := w.law(concern.First); l.Running.Audited != 0 {
			w.Errorf("it reported twice in a moment: %+v", l.Running)
		}
		time.Sleep(10 * time.Second)
		if err := run.Report(w.Context()); err != nil {
			w.Fatal(err)
		}
		l := w.law(concern.First)
		if l.Running.Audited != 1 || l.Running.Shards != 4 || l.Running.Accounts != 10 || l.Last != nil {
			w.Errorf("%+v", l)
		}
		one := found(circulate.Doubled, false)
		run.Shard(&one)
		time.Sleep(10 * time.Second)
		if err := run.Report(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.law(concern.Violated) // nobody waits for the end to tell
	})
}

// Another monitor continues an audit soon, and begins a new one later.
func TestAnAuditIsContinued(t *testing.T) {
	for _, late := range []bool{false, true} {
		inFakeTime(t, func(w *lawWorld) {
			run := w.resume()
			one := found(circulate.Lost, true)
			run.Shard(&one)
			if err := run.Store(w.Context()); err != nil {
				w.Fatal(err)
			}
			began := run.Began
			time.Sleep(59 * time.Second)
			w.law(concern.First)
			time.Sleep(time.Second)
			if l := w.law(concern.Broken); l.Broken.Why != "stopped" || l.Broken.Audited != 1 {
				w.Errorf("%+v", l.Broken)
			}
			if late {
				time.Sleep(10 * time.Minute)
			}
			run = w.resume()
			if late {
				if run.Audited != 0 || len(run.Kinds) != 0 || run.Began.Equal(began) {
					w.Errorf("%+v", run.AuditResult)
				}
				return
			}
			if run.Audited != 1 || !run.Began.Equal(began) {
				w.Errorf("%+v", run.AuditResult)
			}
			for run.Audited < run.Shards {
				run.Shard(&circulate.Audited{Accounts: 10})
			}
			if err := run.Complete(w.Context()); err != nil {
				w.Fatal(err)
			}
			if l := w.law(concern.Repaired); l.Last.Accounts != 40 {
				w.Errorf("%+v", l.Last)
			}
			if run = w.resume(); run.Audited != 0 {
				w.Error("a complete audit was continued")
			}
		})
	}
}

// An audit that waits for a part of Redis says so, is continued, and notes what it repaired.
func TestAnAuditWaitsForRedis(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		run := w.resume()
		run.Shard(&circulate.Audited{Accounts: 10})
		one := found(circulate.Lost, true)
		one.Findings = append(one.Findings, found(circulate.Doubled, false).Findings...)
		if err := run.Wait(w.Context(), &one); err != nil {
			w.Fatal(err)
		}
		if l := w.law(concern.Broken); l.Broken.Why != "redis" || l.Broken.Audited != 1 || len(l.Broken.Kinds) != 1 || l.Broken.Kinds[0].Kind != circulate.Lost {
			w.Errorf("%+v", l.Broken)
		}
		run = w.resume()
		if run.Audited != 1 || !run.Resumed() || run.Resumed() {
			w.Errorf("%+v", run.AuditResult)
		}
		if err := run.Store(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.law(concern.First)
	})
}

func TestAnAuditOfOtherShardsIsNotContinued(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		text := `{"layout":"0:8","shards":8,"shards_audited":3,"began":"2000-01-01T00:00:00Z"}`
		if _, err := document.Of(w.Ring).Notices().Post(w.Context(), "audit", []byte(text)); err != nil {
			w.Fatal(err)
		}
		if run := w.resume(); run.Audited != 0 || run.Shards != 4 {
			w.Errorf("%+v", run.AuditResult)
		}
	})
}

// The findings of a broken audit count, and it shows that the audit did not look at the
// rest.
func TestAnAuditBreaksOff(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		w.audited(time.Second, circulate.Audited{Accounts: 10})
		time.Sleep(time.Minute)
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		_, away := w.Ring.Now(w.Context(), 0)
		w.Miniredis().SetError("")
		for _, test := range []struct {
			because error
			why     string
		}{{redis.Error("WRONGTYPE"), "failed"}, {away, "redis"}} {
			run := w.resume()
			w.law(concern.Kept)
			run.Shard(&circulate.Audited{Accounts: 10})
			if err := run.BreakOff(w.Context(), test.because); err != nil {
				w.Fatal(err)
			}
			l := w.law(concern.Broken)
			if l.Broken.Why != test.why || l.Broken.Audited != 1 || l.Last.Audited != 4 {
				w.Errorf("%+v", l)
			}
			time.Sleep(time.Minute)
		}
		run := w.resume()
		if run.Audited != 0 {
			w.Error("a broken audit was continued")
		}
		one := found(circulate.Lost, false)
		run.Partly(&one)
		if err := run.BreakOff(w.Context(), redis.Error("WRONGTYPE")); err != nil {
			w.Fatal(err)
		}
		w.law(concern.Violated)
	})
}

func TestStrangersDocumentsCountAsMissing(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		for _, text := range []string{"[]", "{", `"text"`, `{"began":1}`} {
			for _, name := range []string{"law", "audit", "audit_by_hand"} {
				if _, err := document.Of(w.Ring).Notices().Post(w.Context(), name, []byte(text)); err != nil {
					w.Fatal(err)
				}
			}
			w.law(concern.Never)
			if run := w.resume(); run.Audited != 0 || run.Shards != 4 {
				w.Errorf("%s: %+v", text, run.AuditResult)
			}
			if err := concern.ByHand(w.Context(), w.Ring, concern.Part{To: 2}); err != nil {
				w.Errorf("%s: %v", text, err)
			}
		}
	})
}
