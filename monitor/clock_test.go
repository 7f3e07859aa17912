package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// The clock was a day ahead and is put right. Accounts that were checked meanwhile are
// due at their slots again within twenty seconds. Accounts due at a time of day are not
// checked before that time. What a dead process left by that clock delays nobody.
func TestClockThatWasADayAhead(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const day = 24 * time.Hour
		later := time.Now().Add(3 * day).UTC().Truncate(time.Second)
		rhythms := map[string]string{"minute": "every 1m", "hour": "every 1h", "adaptive": "adaptive 10s..15m",
			"daily": "cron 0 9 * * *", "later": "at " + later.Format(time.RFC3339)}
		record := func(id string) []byte { return fmt.Appendf(nil, `{"id":%q,"kind":"k","cadence":%q}`, id, rhythms[id]) }
		for id := range rhythms {
			w.Register(circulate.Registration{ID: id, Record: record(id)})
		}
		w.Register(circulate.Registration{ID: "failing", Record: record("minute")})
		w.Register(circulate.Registration{ID: "parked", Record: record("minute")})

		pass := func(ahead, d time.Duration) {
			w.SetRedisClock(func() time.Time { return time.Now().Add(ahead) })
			time.Sleep(d)
		}
		m := w.monitor(monitor.Config{})
		stop := faketime.Go(w.T, m.Run)
		defer stop()
		pass(0, 12*time.Second)
		pass(day, 12*time.Second)
		b, err := w.Ring.Claim(w.Context(), 0, alice, 10, 0)
		if err != nil || len(b.Claims) != 7 {
			w.Fatal(len(b.Claims), err)
		}
		var items []circulate.Return
		for i := range b.Claims {
			c := &b.Claims[i]
			item := circulate.Return{Claim: c}
			switch c.ID {
			case "failing":
				item.Due, item.Rule = b.Now.Add(10*time.Minute), 'b'
			case "parked":
				item.Park = "auth: refused"
			default:
				rhythm, err := cadence.Parse(rhythms[c.ID])
				if err != nil {
					w.Fatal(err)
				}
				item.Due, _ = rhythm.After(c.ID, b.Now, cadence.State{})
				item.Rule = map[string]circulate.Rule{"adaptive": 'd', "daily": 't', "later": 'a'}[c.ID]
				if item.Rule == 0 {
					item.Rule = 'c'
				}
			}
			items = append(items, item)
		}
		if _, err := w.Ring.Return(w.Context(), 0, items); err != nil {
			w.Fatal(err)
		}
		w.beat(bob)
		if _, err := w.Ring.Streams().EnsureGroup(w.Context(), 0, "g", circulate.StreamStart); err != nil {
			w.Fatal(err)
		}
		if lease, _, err := group.Of(w.Ring).Member("g", bob, 15*time.Second).Lease(w.Context(), 0); lease == nil || err != nil {
			w.Fatal(lease, err)
		}
		pass(day, 6*time.Second)

		pass(0, 20*time.Second)
		w.beat(alice)
		now, err := w.Ring.Now(w.Context(), 0)
		if err != nil {
			w.Fatal(err)
		}
		for id, rhythm := range rhythms {
			r, _ := cadence.Parse(rhythm)
			latest, _ := r.After(id, now, cadence.State{})
			if due := w.Look(id).Due; due.After(latest) || id == "later" && !due.Equal(later) {
				w.Errorf("%s, %s, is due in %v, want %v at most", id, rhythm, due.Sub(now), latest.Sub(now))
			}
		}
		if due := w.Look("failing").Due; due.Before(now.Add(9*time.Minute)) || due.After(now.Add(10*time.Minute)) {
			w.Errorf("who waits ten minutes is due in %v", due.Sub(now))
		}
		if since := w.Look("parked").Since; since.After(now) {
			w.Errorf("parked in %v", since.Sub(now))
		}
		if lease, after, err := group.Of(w.Ring).Member("g", alice, 15*time.Second).Lease(w.Context(), 0); lease == nil || err != nil {
			w.Errorf("the dead consumer's lease lasts for %v, %v", after, err)
		}
		alive, err := w.Ring.Heartbeat(w.Context(), alice, nil, 10*time.Second)
		if err != nil || len(alive) != 2 {
			w.Errorf("alive %q, %v", alive, err)
		}
		pass(0, 11*time.Second)
		if alive, err = w.Ring.Heartbeat(w.Context(), alice, nil, 10*time.Second); err != nil || len(alive) != 1 {
			w.Errorf("alive %q, %v: bob is dead", alive, err)
		}
		if n := w.Counted("rounds_redis_clock_steps_total", "back"); n != 1 {
			w.Errorf("%v steps back were counted, want 1", n)
		}
		if n := w.Counted("rounds_redis_clock_steps_total", "ahead"); n != 1 {
			w.Errorf("%v steps ahead were counted, want 1", n)
		}
		if kept, err := w.Ring.Clocks().LastStep(w.Context()); err != nil || len(kept) == 0 {
			w.Errorf("kept %q, %v", kept, err)
		}
	})
}
