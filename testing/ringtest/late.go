package ringtest

import (
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
