package ringtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
)

const ailing = "http/api.example.com"

func (f *fixture) troublesKey() string { return "{" + f.ns + ":limits}:troubles" }

// trouble does one step about the name ailing.
func (f *fixture) trouble(what limit.TroubleWhat, wait time.Duration) (a limit.TroubleAnswer, now time.Time) {
	f.Helper()
	answers, now, err := limit.TroublesOf(f.ring).Do(context.Background(), []limit.TroubleStep{{Name: ailing, What: what, Wait: wait, Cause: "http_503"}})
	if err != nil {
		f.Fatal(err)
	}
	return answers[0], now
}

// skipTrouble lets time pass for what is remembered of ailing.
func (f *fixture) skipTrouble(d time.Duration) {
	f.Helper()
	head, about, _ := strings.Cut(f.text("HGET", f.troublesKey(), ailing), "\n")
	words := strings.Fields(head)
	if len(words) != 6 {
		f.Fatalf("the trouble is %q", head)
	}
	for _, i := range []int{1, 2, 4, 5} {
		ms, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			f.Fatal(err)
		}
		words[i] = strconv.FormatInt(max(0, ms-d.Milliseconds()), 10)
	}
	f.do("HSET", f.troublesKey(), ailing, strings.Join(words, " ")+"\n"+about)
}

// troubleProbes: one probe at a time, at growing distances, and a success ends the trouble.
func troubleProbes(f *fixture) {
	if a, _ := f.trouble(limit.Probe, 0); a.Trouble != nil || a.Granted {
		f.Errorf("a name that is well: %+v", a)
	}
	if a, _ := f.trouble(limit.Well, 0); a.Trouble != nil {
		f.Errorf("a success of a name that is well: %+v", a)
	}
	if n := f.number("EXISTS", f.troublesKey()); n != 0 {
		f.Error("a name that is well has a key")
	}
	a, now := f.trouble(limit.Failed, 0)
	if t := a.Trouble; t == nil || t.Paused || t.Name != ailing || t.Cause != "http_503" || !t.Since.Equal(now) || !t.Next.Equal(now.Add(2*time.Second)) || t.Probing.After(now) {
		f.Fatalf("the first report: %+v", a.Trouble)
	}
	if again, _ := f.trouble(limit.Failed, 0); !again.Trouble.Next.Equal(a.Trouble.Next) {
		f.Errorf("another replica's report moves the probe from %v to %v", a.Trouble.Next, again.Trouble.Next)
	}
	if a, _ := f.trouble(limit.Probe, 0); a.Granted {
		f.Error("a probe is too early")
	}
	for _, next := range []time.Duration{3 * time.Second, 4500 * time.Millisecond, 6750 * time.Millisecond, 10125 * time.Millisecond, 15 * time.Second, 15 * time.Second} {
		f.skipTrouble(15 * time.Second)
		a, now := f.trouble(limit.Probe, 0)
		if !a.Granted || !a.Trouble.Probing.After(now) {
			f.Fatalf("a probe is denied: %+v", a.Trouble)
		}
		if a, _ := f.trouble(limit.Probe, 0); a.Granted {
			f.Error("two probes at once")
		}
		a, now = f.trouble(limit.Failed, 0)
		if wait := a.Trouble.Next.Sub(now); wait != next || a.Trouble.Probing.After(now) {
			f.Errorf("after a failed probe the next one waits %v, want %v", wait, next)
		}
	}
	// A replica dies with its probe.
	f.skipTrouble(15 * time.Second)
	f.trouble(limit.Probe, 0)
	f.skipTrouble(11 * time.Second)
	if a, _ := f.trouble(limit.Probe, 0); !a.Granted {
		f.Error("a lost probe keeps others from starting")
	}
	all, _, err := limit.TroublesOf(f.ring).All(context.Background())
	if err != nil || len(all) != 1 || all[limit.TroubleKey(ailing)] == nil {
		f.Errorf("%v, %v", all, err)
	}
	if a, _ := f.trouble(limit.Well, 0); a.Trouble != nil {
		f.Errorf("after a success: %+v", a.Trouble)
	}
	if n := f.number("EXISTS", f.troublesKey()); n != 0 {
		f.Error("something is left of a trouble")
	}
}

// troublePauses: a pause lasts as long as the third party asked, whatever checks that began before
// it say, and then a probe may start.
func troublePauses(f *fixture) {
	a, now := f.trouble(limit.Paused, time.Minute)
	if t := a.Trouble; t == nil || !t.Paused || !t.Next.Equal(now.Add(time.Minute)) {
		f.Fatalf("%+v", a.Trouble)
	}
	if a, _ := f.trouble(limit.Well, 0); a.Trouble == nil {
		f.Error("a check that began before the pause ends it")
	}
	if a, _ := f.trouble(limit.Failed, 0); !a.Trouble.Paused {
		f.Error("a check that began before the pause, and failed, ends it")
	}
	if a, _ := f.trouble(limit.Paused, time.Second); !a.Trouble.Next.Equal(now.Add(time.Minute)) {
		f.Errorf("a shorter pause moves the end to %v", a.Trouble.Next)
	}
	f.skipTrouble(time.Minute)
	if a, _ := f.trouble(limit.Probe, 0); !a.Granted {
		f.Error("no probe may start after the pause")
	}
	if a, _ := f.trouble(limit.Well, 0); a.Trouble != nil {
		f.Errorf("after a success: %+v", a.Trouble)
	}
	a, now = f.trouble(limit.Paused, 48*time.Hour)
	if !a.Trouble.Next.Equal(now.Add(limit.MaxPause)) {
		f.Errorf("paused until %v", a.Trouble.Next)
	}
	// Failures with a Retry-After only pause a name that is in trouble.
	f.do("DEL", f.troublesKey())
	a, now = f.trouble(limit.Failed, time.Minute)
	if t := a.Trouble; !t.Paused || !t.Next.Equal(now.Add(time.Minute)) {
		f.Errorf("down, with a Retry-After: %+v", t)
	}
	f.skipTrouble(time.Minute)
	f.trouble(limit.Probe, 0)
	if a, now := f.trouble(limit.Failed, 0); a.Trouble.Paused || a.Trouble.Next.Sub(now) != 3*time.Second {
		f.Errorf("down, after the pause: %+v", a.Trouble)
	}
}

// troubleBounds: a trouble ends by itself, their number is bounded, a clock that goes back does no
// harm, and neither does garbage.
func troubleBounds(f *fixture) {
	ctx, troubles := context.Background(), limit.TroublesOf(f.ring)
	count := func() int {
		f.Helper()
		all, _, err := troubles.All(ctx)
		if err != nil {
			f.Fatal(err)
		}
		return len(all)
	}
	f.trouble(limit.Failed, 0)
	if ttl := f.number("PTTL", f.troublesKey()); ttl < int(limit.MaxPause.Milliseconds()) {
		f.Errorf("the key lives %d ms", ttl)
	}
	f.skipTrouble(11 * time.Minute)
	if n := count(); n != 0 || f.number("EXISTS", f.troublesKey()) != 0 {
		f.Errorf("%d troubles are left of which nothing was heard", n)
	}

	f.trouble(limit.Failed, 0)
	f.skipTrouble(-aDay)
	a, now := f.trouble(limit.Failed, 0)
	if wait := a.Trouble.Next.Sub(now); wait > 2*time.Second || a.Trouble.Since.After(now) {
		f.Errorf("the clock went back: %+v at %v", a.Trouble, now)
	}

	var steps []limit.TroubleStep
	fail := func(i int) limit.TroubleStep {
		return limit.TroubleStep{Name: fmt.Sprintf("http/host %d\n", i), What: limit.Failed, Cause: "a\nb" + strings.Repeat("ü", 200)}
	}
	for i := range limit.MostTroubles + 2 {
		if steps = append(steps, fail(i)); len(steps) == circulate.MaxBatch || i == limit.MostTroubles+1 {
			if _, _, err := troubles.Do(ctx, steps); err != nil {
				f.Fatal(err)
			}
			steps = steps[:0]
		}
	}
	if n := count(); n != limit.MostTroubles {
		f.Errorf("%d troubles", n)
	}
	answers, _, err := troubles.Do(ctx, []limit.TroubleStep{fail(limit.MostTroubles + 1), fail(0)})
	if err != nil || answers[0].Trouble != nil || answers[1].Trouble == nil || answers[1].Trouble.Name != "http/host 0 " || !strings.HasPrefix(answers[1].Trouble.Cause, "a bü") {
		f.Errorf("%+v, %v", answers, err)
	}
	f.skipTrouble(11 * time.Minute) // what is over makes room
	if answers, _, err := troubles.Do(ctx, []limit.TroubleStep{fail(limit.MostTroubles + 1)}); err != nil || answers[0].Trouble == nil {
		f.Errorf("%+v, %v", answers, err)
	}

	f.do("DEL", f.troublesKey())
	f.do("HSET", f.troublesKey(), ailing, "no trouble")
	if n := count(); n != 0 {
		f.Errorf("garbage counts as %d troubles", n)
	}
	f.do("SET", f.troublesKey(), "no hash")
	if a, _ := f.trouble(limit.Failed, 0); a.Trouble == nil {
		f.Error("a key of the wrong type blocks all")
	}
	for _, bad := range [][]limit.TroubleStep{nil, {{What: limit.Well}}, make([]limit.TroubleStep, circulate.MaxBatch+1)} {
		if _, _, err := troubles.Do(ctx, bad); err == nil || circulate.Unknown(err) {
			f.Errorf("%d steps: %v", len(bad), err)
		}
	}
}
