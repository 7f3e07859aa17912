package poller_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// oracle returns the times between from and to at which an account must be checked. It follows
// the documentation of the cadences and uses none of their code.
type oracle func(id string, from, to time.Time) []time.Time

// Five days of every cadence, through Redis, including a weekend. In March clocks go forward
// in Europe and half an hour back on Lord Howe Island. In October they go back in Europe and
// America. Each account is checked at exactly the times that the oracle returns.
func TestFiveDaysOfEveryCadence(t *testing.T) {
	for _, start := range []time.Time{
		time.Date(2000, 3, 23, 0, 0, 0, 0, time.UTC),
		time.Date(2000, 10, 26, 0, 0, 0, 0, time.UTC),
	} {
		t.Run(start.Format("2006-01-02"), func(t *testing.T) {
			t.Parallel()
			fiveDays(t, start)
		})
	}
}

func fiveDays(t *testing.T, start time.Time) {
	berlin, york, howe, shanghai := zone(t, "Europe/Berlin"), zone(t, "America/New_York"), zone(t, "Australia/Lord_Howe"), zone(t, "Asia/Shanghai")
	once := start.Add(75*time.Hour + 17*time.Minute)
	cadences := map[string]oracle{
		"every 30m":  slots(30 * time.Minute),
		"every 97m":  slots(97 * time.Minute),
		"every 24h":  slots(24 * time.Hour),
		"every 100h": slots(100 * time.Hour),
		"cron */20 1-3 * * * Europe/Berlin": whenever(berlin, func(w time.Time) bool {
			return w.Minute()%20 == 0 && w.Hour() >= 1 && w.Hour() <= 3
		}),
		"cron 30 * * * * Australia/Lord_Howe":   whenever(howe, func(w time.Time) bool { return w.Minute() == 30 }),
		"cron 30 2 * * * Europe/Berlin":         daily(berlin, 2, 30),
		"cron 45 1 * * * America/New_York":      daily(york, 1, 45),
		"cron 15 2 * * * Australia/Lord_Howe":   daily(howe, 2, 15),
		"cron 0 9 * * MON-FRI Asia/Shanghai":    onDays(daily(shanghai, 9, 0), shanghai, time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday),
		"cron 0 9 * * SUN,3 Europe/Berlin":      onDays(daily(berlin, 9, 0), berlin, time.Sunday, time.Wednesday),
		"at " + once.Format(time.RFC3339):       func(string, time.Time, time.Time) []time.Time { return []time.Time{once} },
		"adaptive 10m..90m":                     nil, // depends on when it was checked before: see below
		"cron 0 6 * * * America/New_York ~100m": nil, // spread: see below
	}
	inFakeTime(t, func(w *world) {
		time.Sleep(time.Until(start))
		w.faulty.quiet = true
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if len(w.checker.calls(r.Account))%3 == 0 {
				return poller.Result{Messages: []poller.Message{{ID: fmt.Sprint(len(w.checker.calls(r.Account)))}}}, nil
			}
			return poller.Result{}, nil
		}
		for cadence := range cadences {
			w.registerDue(cadence, cadence, start.Add(time.Millisecond))
		}
		stop := w.start(poller.Config{Heartbeat: 20 * time.Minute, IdleInterval: time.Hour})
		end := start.AddDate(0, 0, 5).Add(time.Minute / 2) // when nothing is due that might be checked before the stop, or not
		time.Sleep(time.Until(end))
		stop()
		for cadence, want := range cadences {
			var got []time.Time
			for _, c := range w.checker.calls(cadence) {
				got = append(got, c.at)
			}
			first := got[0] // the check after registration
			got = got[1:]
			switch cadence {
			case "adaptive 10m..90m":
				want = adapting(10*time.Minute, 90*time.Minute, append([]time.Time{first}, got...))
			case "cron 0 6 * * * America/New_York ~100m":
				// Each day at the same time, at most a hundred minutes after six.
				late := got[0].Sub(daily(york, 6, 0)("", got[0].Add(-100*time.Minute), got[0])[0])
				want = func(_ string, from, to time.Time) []time.Time {
					var list []time.Time
					for _, at := range daily(york, 6, 0)("", from.Add(-late), to.Add(-late)) {
						list = append(list, at.Add(late))
					}
					return list
				}
			}
			expectTimes(t, cadence, got, want(cadence, start, end))
		}
	})
}

// expectTimes expects checks at the wanted times, at most 2 ms late. In fake time a claim
// takes no time, but Redis cuts its clock off to milliseconds.
func expectTimes(t *testing.T, cadence string, got, want []time.Time) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s: the oracle has no times", cadence)
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("%s: was not checked at %v, nor after that", cadence, want[i])
		case i >= len(want):
			t.Errorf("%s: was checked at %v, after all", cadence, got[i])
		default:
			if late := got[i].Sub(want[i]); late >= 0 && late <= 2*time.Millisecond {
				continue
			}
			t.Errorf("%s: check %d was at %v, want %v", cadence, i, got[i], want[i])
		}
		return
	}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// phase is FNV-1a of the id, finished as the package documents, modulo a step.
func phase(id string, step time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(id))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x ^= x >> 33
	return time.Duration(x%uint64(step.Milliseconds())) * time.Millisecond
}

// slots returns an oracle of all times that equal the phase modulo the interval.
func slots(every time.Duration) oracle {
	return func(id string, from, to time.Time) []time.Time {
		var list []time.Time
		for at := time.Unix(0, 0).Add(phase(id, every)); at.Before(to); at = at.Add(every) {
			if at.After(from) {
				list = append(list, at)
			}
		}
		return list
	}
}

// whenever fires at each real minute whose local time reads accepts.
func whenever(z *time.Location, reads func(wall time.Time) bool) oracle {
	return func(_ string, from, to time.Time) []time.Time {
		var list []time.Time
		for at := from.Add(time.Minute).Truncate(time.Minute); at.Before(to); at = at.Add(time.Minute) {
			if reads(at.In(z)) {
				list = append(list, at)
			}
		}
		return list
	}
}

// daily fires once each day: the first time that the clock shows hour and minute, or when it
// jumps over them.
func daily(z *time.Location, hour, minute int) oracle {
	return func(_ string, from, to time.Time) []time.Time {
		var list []time.Time
		done := "" // the last day on which it fired
		for at := from.Truncate(time.Minute).Add(-48 * time.Hour); at.Before(to); at = at.Add(time.Minute) {
			wall := at.In(z)
			day := wall.Format(time.DateOnly)
			if past := wall.Hour()*60 + wall.Minute() - (hour*60 + minute); past >= 0 && done != day {
				done = day
				if at.After(from) {
					list = append(list, at)
				}
			}
		}
		return list
	}
}

func onDays(all oracle, z *time.Location, days ...time.Weekday) oracle {
	return func(id string, from, to time.Time) []time.Time {
		return slices.DeleteFunc(all(id, from, to), func(at time.Time) bool { return !slices.Contains(days, at.In(z).Weekday()) })
	}
}

// adapting follows the test's checker, which finds something in each third check. The time of
// a check depends on that of the previous check, to the millisecond. Therefore the times of
// the checks are given.
func adapting(least, most time.Duration, checked []time.Time) oracle {
	return func(id string, _, to time.Time) []time.Time {
		var list []time.Time
		every := 4 * least
		for i, at := range checked {
			if (i+1)%3 == 0 {
				every = max(least, (every / 2).Truncate(time.Millisecond))
			} else {
				every = min(most, time.Duration(float64(every)*1.189207115002721).Truncate(time.Millisecond))
			}
			// The last slot within the interval. Slots are half an interval apart.
			latest, step := at.Truncate(time.Millisecond).Add(every), (every / 2).Truncate(time.Millisecond)
			next := latest.Add(-(latest.Sub(time.Unix(0, 0).Add(phase(id, step))) % step))
			if soonest := at.Add(least); next.Before(soonest) {
				next = soonest
			}
			if next.Before(to) {
				list = append(list, next)
			}
		}
		return list
	}
}
