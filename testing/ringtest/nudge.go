package ringtest

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func (f *fixture) nudge(id string, n circulate.Nudge) {
	f.Helper()
	if err := f.ring.Account(id).Nudge(context.Background(), n); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) scheduled(id string) *circulate.Claim {
	f.Helper()
	f.register(id)
	c := f.claim(alice, id)[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	return c
}

func nudgeEarlier(f *fixture) {
	c := f.scheduled("a")
	f.nudge("a", circulate.Nudge{Within: 2 * time.Hour})
	if v := f.look("a"); v.Due.UnixMilli() != soon(c).UnixMilli() {
		f.Errorf("due %v, want %v: a nudge is never later", v.Due, soon(c))
	}
	f.nudge("a", circulate.Nudge{Within: time.Minute})
	if v := f.look("a"); v.Due.Sub(v.Now) > time.Minute {
		f.Errorf("due in %v, want within a minute", v.Due.Sub(v.Now))
	}
	f.nudge("a", circulate.Nudge{})
	f.claim(bob, "a")
	for id, want := range map[string]error{"never": circulate.ErrNotRegistered, "parked": circulate.ErrParked} {
		if id == "parked" {
			f.register(id)
			if _, err := f.ring.Park(context.Background(), 0, "gone", []string{id}); err != nil {
				f.Fatal(err)
			}
		}
		if err := f.ring.Account(id).Nudge(context.Background(), circulate.Nudge{}); !errors.Is(err, want) {
			f.Errorf("nudge of %s: %v, want %v", id, err, want)
		}
	}
	f.conserved()
}

func nudgeClaimed(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	f.nudge("a", circulate.Nudge{})
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Due: soon(c[0])})
	f.placed("a", circulate.Waiting) // checked again on return
	again := f.claim(alice, "a")[0]
	f.ret(circulate.Written, circulate.Return{Claim: again, Due: soon(again)})
	f.placed("a", circulate.Scheduled) // and once is enough
	f.nudge("b", circulate.Nudge{Within: 30 * time.Minute})
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Due: soon(c[1])})
	if v := f.look("b"); v.Place != circulate.Scheduled || v.Due.Sub(v.Now) > 30*time.Minute {
		f.Errorf("b is %s, due in %v", v.Place, v.Due.Sub(v.Now))
	}
}

func nudgeHint(f *fixture) {
	f.scheduled("a")
	f.nudge("a", circulate.Nudge{Hint: []byte("token"), Lives: time.Hour})
	c := f.claim(alice, "a")[0]
	if string(c.Hint) != "token" {
		f.Fatalf("hint %q", c.Hint)
	}
	// Its holder dies: the next check has the hint too.
	f.requeue(circulate.Moved, f.oldest()[0])
	c = f.claim(bob, "a")[0]
	if string(c.Hint) != "token" {
		f.Fatalf("hint %q after a requeue", c.Hint)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Mark: circulate.MarkOK})
	c = f.claim(bob, "a")[0]
	if c.Hint != nil {
		f.Errorf("hint %q came twice", c.Hint)
	}
	// The account is claimed: its next check brings the hint.
	f.nudge("a", circulate.Nudge{Hint: []byte("second"), Lives: time.Hour})
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	c = f.claim(bob, "a")[0]
	if string(c.Hint) != "second" {
		f.Errorf("hint %q, want second", c.Hint)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	f.nudge("a", circulate.Nudge{Hint: []byte("expired"), Lives: 0})
	if c := f.claim(bob, "a")[0]; c.Hint != nil {
		f.Errorf("an expired hint %q was used", c.Hint)
	}
	if f.number("EXISTS", f.key("nudges")) != 0 {
		f.Error("a nudge is left")
	}
}

// nudgeAgain: a nudge that comes while the check that obeys another is under way is obeyed after
// it, at its own time.
func nudgeAgain(f *fixture) {
	f.scheduled("a")
	f.nudge("a", circulate.Nudge{Hint: []byte("token"), Lives: time.Hour})
	c := f.claim(alice, "a")[0]
	f.nudge("a", circulate.Nudge{Within: 10 * time.Minute})
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: c.Due.Add(aDay), Mark: circulate.MarkOK})
	if v := f.look("a"); v.Place != circulate.Scheduled || v.Rule != circulate.RuleNudged || v.Due.Sub(v.Now) > 10*time.Minute || v.Due.Sub(v.Now) < 9*time.Minute {
		f.Errorf("%s, by %c, due in %v, want ten minutes", v.Place, v.Rule, v.Due.Sub(v.Now))
	}
}

func nudgesMerge(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	f.nudge("a", circulate.Nudge{Within: 10 * time.Minute, Hint: []byte("old"), Lives: time.Hour})
	f.nudge("a", circulate.Nudge{Within: 30 * time.Minute, Hint: []byte("new"), Lives: time.Hour})
	f.nudge("a", circulate.Nudge{Within: 20 * time.Minute})
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	v := f.look("a")
	if left := v.Due.Sub(v.Now); left > 10*time.Minute || left < 9*time.Minute {
		f.Errorf("due in %v, want the first nudge's ten minutes", left)
	}
	f.nudge("a", circulate.Nudge{})
	if c := f.claim(alice, "a")[0]; string(c.Hint) != "new" {
		f.Errorf("hint %q, want the newest", c.Hint)
	}
}

// nudgeInLine: an account that is nudged while it waits for its turn in a limit's line
// keeps the turn. What the nudge carries waits with it.
func nudgeInLine(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	turn := soon(c)
	f.nudge("a", circulate.Nudge{}) // while it is being denied
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: turn, Rule: circulate.RuleSlot})
	f.nudge("a", circulate.Nudge{Hint: []byte("token"), Lives: time.Hour})
	if v := f.look("a"); v.Place != circulate.Scheduled || v.Due.UnixMilli() != turn.UnixMilli() || v.Rule != circulate.RuleSlot {
		f.Fatalf("%s, due %v by %c, want %v", v.Place, v.Due, v.Rule, turn)
	}
	f.do("ZADD", f.key("schedule"), c.Due.UnixMilli(), "a") // its turn has come …
	c = f.claim(alice, "a")[0]
	if string(c.Hint) != "token" {
		f.Fatalf("hint %q", c.Hint)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: turn, Rule: circulate.RuleSlot}) // … and it is denied again
	f.do("ZADD", f.key("schedule"), c.Due.UnixMilli(), "a")
	c = f.claim(alice, "a")[0]
	if string(c.Hint) != "token" {
		f.Errorf("hint %q after it was put back unchecked", c.Hint)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: turn, Mark: circulate.MarkOK})
	f.do("ZADD", f.key("schedule"), c.Due.UnixMilli(), "a")
	if c = f.claim(alice, "a")[0]; c.Hint != nil {
		f.Errorf("hint %q after a check that had it", c.Hint)
	}
	f.conserved()
}
