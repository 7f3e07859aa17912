package cadence_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

func half() float64 { return 0.5 }

// Each rule decides where it should, and the decision names it. Chance is always ½, so that a
// backoff is ¾ of its upper bound, and a Retry-After becomes a twentieth longer.
func TestDecideRules(t *testing.T) {
	const now = "2026-08-08T10:00:00Z"
	fail := func(class cadence.Class) cadence.Outcome { return cadence.Outcome{Class: class, Text: "why"} }
	for name, tt := range map[string]struct {
		text   string
		policy cadence.Policy
		before cadence.State
		o      cadence.Outcome
		rule   string
		wait   time.Duration // -1: parked
		after  int           // failures
		park   string
	}{
		"the slot":             {"every 1s", cadence.Policy{}, cadence.State{Failures: 3}, cadence.Outcome{}, cadence.RuleCadence, 0, 0, ""},
		"the tight ring":       {"every 0", cadence.Policy{}, cadence.State{}, cadence.Outcome{}, cadence.RuleCadence, 0, 0, ""},
		"adaptive":             {"adaptive 1m..1m", cadence.Policy{}, cadence.State{}, cadence.Outcome{}, cadence.RuleAdaptive, time.Minute, 0, ""},
		"cron":                 {"cron 0 11 * * *", cadence.Policy{}, cadence.State{}, cadence.Outcome{}, cadence.RuleCron, time.Hour, 0, ""},
		"at, checked early":    {"at 2026-08-08T11:00:00Z", cadence.Policy{}, cadence.State{}, cadence.Outcome{}, cadence.RuleAt, time.Hour, 0, ""},
		"at, done":             {"at 2026-08-08T10:00:00Z", cadence.Policy{}, cadence.State{}, cadence.Outcome{}, cadence.RuleFinished, -1, 0, "finished: it was to be checked once, at 2026-08-08T10:00:00Z"},
		"at, done, poll after": {"at 2026-08-08T09:00:00Z", cadence.Policy{}, cadence.State{}, cadence.Outcome{PollAfter: time.Hour}, cadence.RuleFinished, -1, 0, "finished: it was to be checked once, at 2026-08-08T09:00:00Z"},
		"at, more":             {"at 2026-08-08T09:00:00Z", cadence.Policy{}, cadence.State{}, cadence.Outcome{More: true}, cadence.RuleMore, 0, 0, ""},
		"at, failed":           {"at 2026-08-08T09:00:00Z", cadence.Policy{}, cadence.State{Failures: 1}, fail(cadence.Transient), cadence.RuleBackoff, 45 * time.Second, 2, ""},
		"at, failed early":     {"at 2026-08-08T11:00:00Z", cadence.Policy{}, cadence.State{}, fail(cadence.Transient), cadence.RuleAt, time.Hour, 1, ""},
		"at, throttled":        {"at 2026-08-08T09:00:00Z", cadence.Policy{}, cadence.State{}, fail(cadence.Throttled), cadence.RuleRetryAfter, 31500 * time.Millisecond, 0, ""},
		"at, budget used up":   {"at 2026-08-08T09:00:00Z", cadence.Policy{RetryBudget: 2}, cadence.State{Failures: 1}, fail(cadence.Transient), cadence.RuleRetryBudget, -1, 2, "retry budget: 2 failures in a row, the last: why"},

		"more":                     {"every 1h", cadence.Policy{}, cadence.State{}, cadence.Outcome{More: true}, cadence.RuleMore, 0, 0, ""},
		"more, but later":          {"every 1h", cadence.Policy{}, cadence.State{}, cadence.Outcome{More: true, PollAfter: time.Minute}, cadence.RulePollAfter, time.Minute, 0, ""},
		"poll after":               {"every 1s", cadence.Policy{}, cadence.State{}, cadence.Outcome{PollAfter: 5 * time.Second}, cadence.RulePollAfter, 5 * time.Second, 0, ""},
		"poll after, sooner":       {"cron 0 11 * * *", cadence.Policy{}, cadence.State{}, cadence.Outcome{PollAfter: time.Minute}, cadence.RuleCron, time.Hour, 0, ""},
		"backoff, first":           {"every 1s", cadence.Policy{}, cadence.State{}, fail(cadence.Transient), cadence.RuleBackoff, 1500 * time.Millisecond, 1, ""},
		"backoff, second":          {"every 2s", cadence.Policy{}, cadence.State{Failures: 1}, fail(cadence.Transient), cadence.RuleBackoff, 3 * time.Second, 2, ""},
		"backoff, fifth":           {"every 1s", cadence.Policy{}, cadence.State{Failures: 4}, fail(cadence.Transient), cadence.RuleBackoff, 24 * time.Second, 5, ""},
		"backoff, tight ring":      {"every 0", cadence.Policy{}, cadence.State{}, fail(cadence.Transient), cadence.RuleBackoff, 1500 * time.Millisecond, 1, ""},
		"backoff, slow":            {"every 1h", cadence.Policy{}, cadence.State{Failures: 7}, fail(cadence.Transient), cadence.RuleBackoff, 45 * time.Minute, 8, ""},
		"backoff, adaptive":        {"adaptive 1s..4h", cadence.Policy{}, cadence.State{Failures: 1, Interval: 8 * time.Second}, fail(cadence.Transient), cadence.RuleBackoff, 12 * time.Second, 2, ""},
		"backoff, capped":          {"every 1s", cadence.Policy{}, cadence.State{Failures: 14}, fail(cadence.Transient), cadence.RuleBackoff, 45 * time.Minute, 15, ""},
		"backoff, cap of bounds":   {"adaptive 1s..4h", cadence.Policy{}, cadence.State{Failures: 14, Interval: time.Second}, fail(cadence.Transient), cadence.RuleBackoff, 3 * time.Hour, 15, ""},
		"backoff within cron":      {"cron 0 11 * * *", cadence.Policy{}, cadence.State{Failures: 4}, fail(cadence.Transient), cadence.RuleCron, time.Hour, 5, ""},
		"a failure, retry after":   {"every 1s", cadence.Policy{}, cadence.State{}, cadence.Outcome{Class: cadence.Transient, RetryAfter: time.Minute}, cadence.RuleRetryAfter, time.Minute, 1, ""},
		"throttled":                {"every 1s", cadence.Policy{}, cadence.State{Failures: 7}, cadence.Outcome{Class: cadence.Throttled, RetryAfter: 40 * time.Hour}, cadence.RuleRetryAfter, 42 * time.Hour, 7, ""},
		"throttled within cron":    {"cron 0 11 * * *", cadence.Policy{}, cadence.State{}, cadence.Outcome{Class: cadence.Throttled, RetryAfter: time.Minute}, cadence.RuleCron, time.Hour, 0, ""},
		"blameless, once":          {"every 1s", cadence.Policy{}, cadence.State{}, fail(cadence.Blameless), cadence.RuleBackoff, 22500 * time.Millisecond, 0, ""},
		"blameless, shared":        {"every 0", cadence.Policy{}, cadence.State{Failures: 9}, cadence.Outcome{Class: cadence.Blameless, Shared: true}, cadence.RuleBackoff, 1500 * time.Millisecond, 9, ""},
		"blameless":                {"every 1s", cadence.Policy{}, cadence.State{Failures: 15}, fail(cadence.Blameless), cadence.RuleBackoff, 45 * time.Minute, 15, ""},
		"budget":                   {"every 1s", cadence.Policy{}, cadence.State{Failures: 15}, fail(cadence.Transient), cadence.RuleRetryBudget, -1, 16, "retry budget: 16 failures in a row, the last: why"},
		"a budget of one":          {"every 1s", cadence.Policy{RetryBudget: 1}, cadence.State{}, fail(cadence.Transient), cadence.RuleRetryBudget, -1, 1, "retry budget: 1 failures in a row, the last: why"},
		"a budget of many":         {"every 1s", cadence.Policy{RetryBudget: 1000}, cadence.State{Failures: 998}, fail(cadence.Transient), cadence.RuleBackoff, 45 * time.Minute, 999, ""},
		"gone":                     {"every 1s", cadence.Policy{}, cadence.State{}, fail(cadence.Gone), cadence.RuleGone, -1, 1, "gone: why"},
		"config":                   {"every 1s", cadence.Policy{}, cadence.State{}, fail(cadence.ConfigInvalid), cadence.RuleConfig, -1, 1, "config: why"},
		"refused for good":         {"every 1s", cadence.Policy{}, cadence.State{}, cadence.Outcome{Class: cadence.AuthFailed, Final: true, Text: "why"}, cadence.RuleAuth, -1, 1, "auth: why"},
		"refused once":             {"every 1s", cadence.Policy{}, cadence.State{Failures: 9}, fail(cadence.AuthFailed), cadence.RuleBackoff, 45 * time.Minute, 10, ""},
		"refused, little backoff":  {"every 1s", cadence.Policy{}, cadence.State{}, fail(cadence.AuthFailed), cadence.RuleBackoff, 5 * time.Minute, 1, ""},
		"refused thrice, quickly":  {"every 1s", cadence.Policy{}, cadence.State{Refusals: 2, FirstRefusal: instant(t, "2026-08-08T09:50:00.001Z")}, fail(cadence.AuthFailed), cadence.RuleBackoff, 5 * time.Minute, 1, ""},
		"refused thrice, for long": {"every 1s", cadence.Policy{}, cadence.State{Refusals: 2, FirstRefusal: instant(t, "2026-08-08T09:50:00Z")}, fail(cadence.AuthFailed), cadence.RuleAuth, -1, 1, "auth: why"},
		"refused long ago, not now": {"every 1s", cadence.Policy{}, cadence.State{Refusals: 5, FirstRefusal: instant(t, "2026-08-08T09:50:00Z")},
			fail(cadence.Transient), cadence.RuleBackoff, 1500 * time.Millisecond, 1, ""},
	} {
		c := mustParse(t, tt.text)
		next := cadence.Decide(c, tt.policy, "id", tt.before, tt.o, instant(t, now), half)
		if next.Rule != tt.rule || next.Park != tt.park || next.State.Failures != tt.after {
			t.Errorf("%s: %+v", name, next)
		}
		wait := next.Due.Sub(instant(t, now))
		switch {
		case tt.wait == -1:
			if !next.Due.IsZero() {
				t.Errorf("%s: parked and due at %v", name, next.Due)
			}
		case tt.rule == cadence.RuleCadence:
			if slot, _ := c.After("id", instant(t, now), next.State); !next.Due.Equal(slot) {
				t.Errorf("%s: due %v, its slot is %v", name, next.Due, slot)
			}
		case wait != tt.wait:
			t.Errorf("%s: waits %v, want %v", name, wait, tt.wait)
		}
	}
}

// A wrong credential is tried three times, five minutes apart, although the stored times are
// coarser than the clock.
func TestRefusalsPark(t *testing.T) {
	c, s := mustParse(t, "every 1s"), cadence.State{}
	now := instant(t, "2026-08-08T10:00:00.000999999Z")
	for try := 1; ; try++ {
		next := cadence.Decide(c, cadence.Policy{}, "id", s, cadence.Outcome{Class: cadence.AuthFailed}, now, half)
		if next.Park != "" {
			if try != cadence.AuthBudget {
				t.Errorf("parked at try %d", try)
			}
			break
		}
		kept, err := cadence.ParseState(next.State.Encode())
		if err != nil || try > 10 {
			t.Fatalf("try %d: %v", try, err)
		}
		kept.Failures = next.State.Failures
		now, s = time.UnixMilli(next.Due.UnixMilli()), kept
	}
	s.Refusals, s.FirstRefusal = 2, now.Add(-time.Hour)
	if next := cadence.Decide(c, cadence.Policy{}, "id", s, cadence.Outcome{}, now, half); next.State != (cadence.State{}) {
		t.Errorf("after a success: %+v", next.State)
	}
}

// The latest of all requested times decides. No check is early, and an account that is not
// parked is due at some time.
func TestDecideProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	texts := []string{"every 0", "every 1m", "every 90h", "adaptive", "cron */7 * * * * Australia/Lord_Howe", "cron 0 9 1 * * ~1h", "at 2026-08-08T10:00:00Z"}
	for range 50_000 {
		c := mustParse(t, texts[random.IntN(len(texts))])
		p := cadence.Policy{RetryBudget: random.IntN(20)}
		s := cadence.State{Failures: random.IntN(20), Refusals: random.IntN(4), Interval: time.Duration(random.IntN(1_000_000)) * time.Millisecond}
		o := cadence.Outcome{
			Class: cadence.Class(random.IntN(7)), Found: random.IntN(2) == 0, More: random.IntN(2) == 0,
			RetryAfter: time.Duration(random.Int64N(int64(48 * time.Hour))), PollAfter: time.Duration(random.Int64N(int64(time.Hour))),
		}
		now := instant(t, "2026-08-08T09:00:00Z").Add(time.Duration(random.Int64N(int64(2 * time.Hour))))
		s.FirstRefusal = now.Add(-time.Duration(random.Int64N(int64(time.Hour))))
		asked := 0
		next := cadence.Decide(c, p, "id", s, o, now, func() float64 { asked++; return random.Float64() })
		slot, again := c.After("id", now, next.State)
		succeeded, more := o.Class == cadence.Succeeded, o.Class == cadence.Succeeded && o.More
		switch {
		case asked > 1, next.Rule == "":
			t.Fatalf("%v, %+v: %+v, chance asked %d times", c, o, next, asked)
		case next.Park != "":
			if !next.Due.IsZero() || succeeded && again {
				t.Fatalf("%v, %+v: %+v", c, o, next)
			}
			continue
		case next.Due.Before(now), again && !more && next.Due.Before(slot):
			t.Fatalf("%v, %+v, now %v, slot %v: %+v", c, o, now, slot, next)
		case succeeded && next.Due.Before(now.Add(o.PollAfter)), !succeeded && next.Due.Before(now.Add(o.RetryAfter)):
			t.Fatalf("%v, %+v, now %v: %+v: less than was asked for", c, o, now, next)
		}
	}
}
