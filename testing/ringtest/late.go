package ringtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// late has an account late, as one that was last checked one interval before it was due.
// Its mark is that of its last check.
func (f *fixture) late(id string, by, interval time.Duration, mark string) {
	f.Helper()
	due := f.now().Add(-by)
	field := f.text("HGET", f.key("tickets"), id)
	field = field[:16] + fmt.Sprintf("%08x", due.Add(-interval).Unix()) + mark + field[25:]
	f.do("HSET", f.key("tickets"), id, field)
	f.due(id, due)
}

// some returns n ids with a name before their numbers.
func some(name string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%03d", name, i)
	}
	return ids
}

// taken returns the ids that a claim takes.
func (f *fixture) taken(n int) (ids []string) {
	f.Helper()
	for _, c := range f.batch(alice, n).Claims {
		ids = append(ids, c.ID)
	}
	return ids
}

// claimLatest: the relatively latest go first, whenever they were due. After a failure the
// last success says little about the interval.
func claimLatest(f *fixture) {
	daily := some("daily", 40)
	f.register(append(daily, "failing", "hourly", "often", "new", "calm")...)
	for i, id := range daily {
		f.late(id, 4*time.Hour+time.Duration(i)*time.Second, 24*time.Hour, "+")
	}
	f.late("hourly", 3*time.Hour, time.Hour, "+")         // 3 intervals
	f.late("often", 20*time.Second, 10*time.Second, "+")  // 2
	f.late("failing", 90*time.Minute, 240*time.Hour, "p") // 1.5 waits
	f.late("new", time.Minute, 0, "-")                    // 1, counted as a minute
	f.late("calm", 12*time.Hour, 24*time.Hour, "+")       // 0.5
	if got := strings.Join(f.taken(5), " "); got != "hourly often failing new calm" {
		f.Errorf("%s were taken first", got)
	}
	f.conserved()
	for range 3 {
		f.batch(alice, 20)
	}
	if c := f.counted(); c.Claimed != 45 {
		f.Errorf("%d of 45 were taken at last", c.Claimed)
	}
	f.conserved()
}

// claimInTime: while nobody is late, the longest waiting goes first, as ever.
func claimInTime(f *fixture) {
	f.register("daily", "often", "b", "c")
	f.late("daily", 9*time.Second, 24*time.Hour, "+")
	for _, id := range []string{"often", "b", "c"} {
		f.late(id, 5*time.Second, time.Second, "+")
	}
	f.claim(alice, "daily")
}

// lateStarves: an account that is late by little of its interval is taken all the same,
// however many others come before it again and again.
func lateStarves(f *fixture) {
	quick := some("quick", 80)
	f.register(append(quick, "daily")...)
	f.late("daily", time.Minute, 24*time.Hour, "+")
	for _, id := range quick {
		f.late(id, 50*time.Second, time.Second, "+")
	}
	for range 8 {
		b := f.batch(alice, 16)
		for i := range b.Claims {
			c := &b.Claims[i]
			if c.ID == "daily" {
				f.conserved()
				return
			}
			f.ret(circulate.Written, circulate.Return{Claim: c, Due: c.Due.Add(time.Hour)})
			f.late(c.ID, 50*time.Second, time.Second, "+")
		}
	}
	f.Error("the earliest due account was never taken")
}

// lateLanes: priorities hold where all are late. An account that is asked for now is found
// behind any number of others, in the schedule and in message_queue.
func lateLanes(f *fixture) {
	ids := some("account", 900)
	for from := 0; from < len(ids); from += 300 {
		f.register(ids[from : from+300]...)
	}
	f.registerIn(circulate.Urgent, "urgent")
	f.registerIn(circulate.Low, "low")
	for i, id := range ids {
		f.due(id, f.now().Add(-time.Hour+time.Duration(i)*time.Millisecond))
	}
	f.late("urgent", 2*time.Hour, 24*time.Hour, "+")
	f.late("low", 2*time.Hour, time.Second, "+")
	if got := f.taken(2); got[0] != "urgent" || got[1] == "low" {
		f.Errorf("%q were taken first", got)
	}
	c := f.counted()
	if normal := c.Waiting - c.Urgent - c.Low; normal > 16 || c.Low != 1 {
		f.Errorf("%d wait in the normal lane, %d in low", normal, c.Low)
	}
	asked := ""
	for _, id := range ids[500:] {
		if f.look(id).Place == circulate.Scheduled {
			asked = id
			break
		}
	}
	f.due(asked, f.now().Add(time.Hour))
	f.nudge(asked, circulate.Nudge{})
	if got := f.taken(1); got[0] != asked {
		f.Errorf("%q was taken, and %s was asked for", got, asked)
	}
	f.conserved()
}

// nudgeOverdue: an overdue account that is asked for goes before any number of others that
// are later than it, and still tells since when it was due.
func nudgeOverdue(f *fixture) {
	ids := some("account", 800)
	for from := 0; from < len(ids); from += 200 {
		f.register(ids[from : from+200]...)
	}
	f.register("asked")
	for i, id := range ids {
		f.due(id, f.now().Add(-time.Hour+time.Duration(i)*time.Second))
	}
	due := f.now().Add(-58 * time.Minute) // between the others, and hardly late
	f.late("asked", f.now().Sub(due), 240*time.Hour, "+")
	f.nudge("asked", circulate.Nudge{Within: time.Minute})
	f.placed("asked", circulate.Scheduled)
	f.nudge("asked", circulate.Nudge{Hint: []byte("token"), Lives: time.Hour})
	if v := f.look("asked"); v.Place != circulate.Waiting || v.Rule != circulate.RuleNudged {
		f.Errorf("%s by %c", v.Place, v.Rule)
	}
	f.nudge("asked", circulate.Nudge{})
	f.conserved()
	c := f.claim(alice, "asked")[0]
	if late := c.Due.Sub(due); late < 0 || late > time.Second || string(c.Hint) != "token" {
		f.Errorf("due %v after it was, hint %q", late, c.Hint)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c), Mark: circulate.MarkOK})
	f.placed("asked", circulate.Scheduled)
	if f.number("EXISTS", f.key("nudges")) != 0 {
		f.Error("a nudge is left")
	}
	f.conserved()
}

// nudgeManyOverdue: of several accounts those that are overdue go to the front, in the
// order in which they were given. The others stay where they are.
func nudgeManyOverdue(f *fixture) {
	f.register("first", "second", "later", "waiting", "claimed", "parked", "other")
	ctx := context.Background()
	if _, err := f.ring.Park(ctx, 0, "gone", []string{"parked"}); err != nil {
		f.Fatal(err)
	}
	for _, id := range []string{"first", "second", "later", "waiting", "other"} {
		f.due(id, f.now().Add(time.Hour))
	}
	f.claim(alice, "claimed")
	f.due("waiting", f.now().Add(-time.Second))
	waiting := f.claim(alice, "waiting")
	if _, err := f.ring.Release(ctx, 0, waiting); err != nil {
		f.Fatal(err)
	}
	f.late("second", 2*time.Hour, time.Second, "+")
	f.late("other", 2*time.Hour, time.Second, "+")
	f.late("first", 30*time.Second, 24*time.Hour, "+")
	ids := []string{"first", "unknown", "second", "later", "waiting", "claimed", "parked", "first"}
	if n, err := f.ring.NudgeOverdue(ctx, 0, ids); n != 2 || err != nil {
		f.Errorf("%d were overdue, %v", n, err)
	}
	if n, err := f.ring.NudgeOverdue(ctx, 0, ids); n != 0 || err != nil {
		f.Errorf("%d were overdue again, %v", n, err)
	}
	f.conserved()
	for id, want := range map[string]circulate.Place{"later": circulate.Scheduled, "claimed": circulate.Claimed, "parked": circulate.Parked, "other": circulate.Scheduled} {
		f.placed(id, want)
	}
	if got := strings.Join(f.taken(2), " "); got != "first second" {
		f.Errorf("%s were taken first", got)
	}
	if _, err := f.ring.NudgeOverdue(ctx, 0, nil); err == nil {
		f.Error("none were nudged")
	}
	f.conserved()
}
