package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestExplain(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	codes := NewCodes()
	soon := now.Add(90 * time.Second)
	for name, tt := range map[string]struct {
		view     circulate.View
		position circulate.QueuePosition
		rule     string
		why      []string // parts of the sentence
	}{
		"cadence":     {circulate.View{Place: circulate.Scheduled, Due: soon, Rule: codes.Rule(cadence.RuleCadence)}, circulate.QueuePosition{}, "cadence", []string{`the next slot of its cadence, "every 5m"`}},
		"not taken":   {circulate.View{Place: circulate.Scheduled, Due: now, Rule: codes.Rule(cadence.RuleCadence)}, circulate.QueuePosition{}, "cadence", []string{"no replica has claimed it"}},
		"backoff":     {circulate.View{Place: circulate.Scheduled, Due: soon, Failures: 3, Error: "http_503: no", Rule: codes.Rule(cadence.RuleBackoff)}, circulate.QueuePosition{}, "backoff", []string{"3 failures in a row; the last: http_503: no"}},
		"one failure": {circulate.View{Place: circulate.Scheduled, Due: soon, Failures: 1, Rule: codes.Rule(cadence.RuleBackoff)}, circulate.QueuePosition{}, "backoff", []string{"after one failure"}},
		"blameless":   {circulate.View{Place: circulate.Scheduled, Due: soon, Error: "x", Rule: codes.Rule(cadence.RuleBackoff)}, circulate.QueuePosition{}, "backoff", []string{"does not count against it; the last: x"}},
		"retry-after": {circulate.View{Place: circulate.Scheduled, Due: soon, Error: "http_429", Rule: codes.Rule(cadence.RuleRetryAfter)}, circulate.QueuePosition{}, "retry-after", []string{"told it to wait, for 30s if it named no time; the last: http_429"}},
		"limit":       {circulate.View{Place: circulate.Scheduled, Due: soon, Rule: codes.Rule(RuleLimit)}, circulate.QueuePosition{}, "limit", []string{"shares a limit", "its turn is at 2026-11-20T08:01:30Z"}},
		"outage":      {circulate.View{Place: circulate.Scheduled, Due: soon, Rule: codes.Rule(RuleOutage)}, circulate.QueuePosition{}, "outage", []string{"our own network"}},
		"down":        {circulate.View{Place: circulate.Scheduled, Due: soon, Error: "http_503", Rule: codes.Rule(RuleDown)}, circulate.QueuePosition{}, "down", []string{"such as its host", "at 2026-11-20T08:01:30Z; the last: http_503"}},
		"isolation":   {circulate.View{Place: circulate.Scheduled, Due: soon, Strikes: 2, Rule: codes.Rule(RuleIsolation)}, circulate.QueuePosition{}, "isolation", []string{"2 strikes"}},
		"nudge":       {circulate.View{Place: circulate.Scheduled, Due: soon, Rule: codes.Rule(RuleNudged)}, circulate.QueuePosition{}, "nudge", []string{"somebody asked"}},
		"probe":       {circulate.View{Place: circulate.Scheduled, Due: soon, Rule: codes.Rule(RuleProbed)}, circulate.QueuePosition{}, "probe", []string{"again"}},
		"later rule":  {circulate.View{Place: circulate.Scheduled, Due: soon, Rule: '!'}, circulate.QueuePosition{}, "!", []string{"does not know"}},
		"waiting": {circulate.View{Place: circulate.Waiting, Priority: circulate.Low, Rule: codes.Rule(cadence.RuleCadence)},
			circulate.QueuePosition{Urgent: 3, Normal: 40, Low: 6, Lane: circulate.Low, Since: now.Add(-time.Second), Ahead: 5},
			"priority", []string{"in the low lane since 2026-11-20T07:59:59Z, behind 5 others", "3 urgent, 40 normal and 6 low", `due by cadence: the next slot`}},
		"waiting far behind": {circulate.View{Place: circulate.Waiting, Rule: codes.Rule(cadence.RuleMore)}, circulate.QueuePosition{Normal: 40}, "priority", []string{"waits for its turn: 0 urgent, 40 normal", "due by more"}},
		"claimed": {circulate.View{Place: circulate.Claimed, Since: now, Replica: "replica001", NudgedTo: soon, Rule: codes.Rule(cadence.RuleCadence)}, circulate.QueuePosition{},
			"claimed", []string{"replica001 has been checking it since 2026-11-20T08:00:00Z", "due by cadence", "due again at 2026-11-20T08:01:30Z"}},
		"paused":      {circulate.View{Place: circulate.Parked, Since: now, Reason: "paused", Rule: codes.Rule(cadence.RuleBackoff)}, circulate.QueuePosition{}, "paused", []string{"somebody paused it at 2026", "; `rounds account resume "}},
		"auth":        {circulate.View{Place: circulate.Parked, Since: now, Reason: "auth: no", Rule: codes.Rule(cadence.RuleAuth)}, circulate.QueuePosition{}, "auth", []string{"out of circulation since 2026", ": auth: no"}},
		"other words": {circulate.View{Place: circulate.Parked, Since: now, Reason: "odd", Rule: codes.Rule(cadence.RuleCadence)}, circulate.QueuePosition{}, "parked", []string{": odd"}},
	} {
		tt.view.ID, tt.view.Now, tt.view.Record = "a", now, []byte(`{"id":"a","kind":"plain","cadence":"every 5m"}`)
		tt.view.History = circulate.History{Succeeded: now.Add(-time.Minute), Marks: []circulate.Mark{'t', '+'}}
		e := explain(&tt.view, 7, tt.position)
		slots := 3
		if tt.view.Place == circulate.Parked {
			slots = 0 // a parked account has no slots
		}
		if e.Rule != tt.rule || e.Shard != 7 || e.Cadence != "every 5m" || len(e.Slots) != slots || !slices.Equal(e.Marks, []string{"transient", "ok"}) {
			t.Errorf("%s: %+v", name, e)
		}
		for _, part := range tt.why {
			if !strings.Contains(e.Why, part) {
				t.Errorf("%s: %q, want %q in it", name, e.Why, part)
			}
		}
		if stale, ok := e.Staleness(); !ok || stale != time.Minute || e.NeverSucceeded() {
			t.Errorf("%s: stale for %v, %t, never %t", name, stale, ok, e.NeverSucceeded())
		}
	}
	// Every rule that a ticket may hold has a sentence.
	for letter, word := range rules() {
		v := circulate.View{ID: "a", Now: now, Place: circulate.Scheduled, Due: soon, Rule: letter}
		if e := explain(&v, 0, circulate.QueuePosition{}); e.Rule != word || e.Why == "" || strings.Contains(e.Why, "does not know") {
			t.Errorf("%s: %q", word, e.Why)
		}
	}
}

// The next slots are the cadence's. An adaptive cadence uses its current interval.
func TestExplainWhatAnAccountWaitsAt(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	trouble := Trouble{Name: "http/api.example.com", Cause: "http_503", Since: now.Add(-time.Minute), Next: now.Add(10 * time.Second)}
	for want, change := range map[string]func(*Trouble){
		"http/api.example.com, which it shares with others, has been down since 2026-11-20T07:59:00Z (http_503); the next probe goes out at 2026-11-20T08:00:10Z; no failure counts against it": func(*Trouble) {},
		"has been down since 2026-11-20T07:59:00Z; a probe is under way":                          func(t *Trouble) { t.Cause, t.Next = "", now },
		"has asked for a pause (http_503) since 2026-11-20T07:59:00Z; the next probe goes out at": func(t *Trouble) { t.Paused = true },
	} {
		e := explain(&circulate.View{ID: "a", Place: circulate.Scheduled, Now: now, Due: now.Add(12 * time.Second), Record: []byte(`{"kind":"plain"}`), Rule: NewCodes().Rule(RuleDown)}, 0, circulate.QueuePosition{})
		one := trouble
		change(&one)
		e.WaitsAt(one)
		if e.Rule != RuleDown || !strings.Contains(e.Why, want) {
			t.Errorf("%s: %s", want, e.Why)
		}
	}
}

func TestExplainSlots(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		record, state, cadence string
		slots                  int
		fault                  string
		step                   time.Duration // between slots; 0: not checked
	}{
		{`{"kind":"plain"}`, "", "every 1m", 3, "", time.Minute},
		{`{"kind":"plain","cadence":"every 0"}`, "", "every 0", 0, "", 0},
		{`{"kind":"plain","cadence":"adaptive 10s..15m"}`, "i25000", "adaptive 10s..15m", 3, "", 25 * time.Second},
		{`{"kind":"plain","cadence":"adaptive 10s..15m"}`, "!", "adaptive 10s..15m", 3, "", 40 * time.Second},
		{`{"kind":"plain","cadence":"cron 30 9 * * *"}`, "", "cron 30 9 * * *", 3, "", 24 * time.Hour},
		{`{"kind":"plain","cadence":"at 2026-12-01T09:00:00+08:00"}`, "", "at 2026-12-01T09:00:00+08:00", 1, "", 0},
		{`{"kind":"plain","cadence":"at 2026-11-01T09:00:00+08:00"}`, "", "at 2026-11-01T09:00:00+08:00", 0, "", 0},
		{`{"kind":"plain","cadence":"never"}`, "", "never", 0, "cadence: ", 0},
		{`{`, "", "", 0, "the record cannot be read", 0},
	} {
		v := circulate.View{ID: "a", Now: now, Place: circulate.Scheduled, Due: now.Add(time.Hour), Record: []byte(tt.record), Rule: 'c', Failures: 2}
		e := explain(&v, 0, circulate.QueuePosition{State: tt.state})
		if e.Cadence != tt.cadence || len(e.Slots) != tt.slots || !strings.HasPrefix(e.Fault, tt.fault) || (tt.fault == "") != (e.Fault == "") {
			t.Errorf("%s: %q, %v, %q", tt.record, e.Cadence, e.Slots, e.Fault)
		}
		if e.ID != "a" || e.Rule != "cadence" || e.State.Failures != 2 || e.Why == "" {
			t.Errorf("%s: %+v", tt.record, e)
		}
		for from, i := now, 0; tt.step > 0 && i < len(e.Slots); i++ {
			if d := e.Slots[i].Sub(from); d <= 0 || i > 0 && d != tt.step {
				t.Errorf("%s: slots %v", tt.record, e.Slots)
			}
			from = e.Slots[i]
		}
	}
}

// During a backoff the slots begin at the next try, because the account is not checked
// before.
func TestExplainSlotsDuringBackoff(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	every, err := cadence.Parse("every 1m")
	if err != nil {
		t.Fatal(err)
	}
	slot, _ := every.After("a", now.Add(20*time.Minute), cadence.State{})
	for name, tt := range map[string]struct{ due, first time.Time }{
		"between slots": {slot.Add(-30 * time.Second), slot},
		"at a slot":     {slot, slot},
		"just behind":   {slot.Add(time.Millisecond), slot.Add(time.Minute)},
		"due already":   {now.Add(-time.Hour), time.Time{}},
	} {
		v := circulate.View{ID: "a", Now: now, Place: circulate.Scheduled, Due: tt.due, Record: []byte(`{"kind":"plain","cadence":"every 1m"}`), Rule: NewCodes().Rule(cadence.RuleBackoff)}
		e := explain(&v, 0, circulate.QueuePosition{})
		if len(e.Slots) != 3 || !tt.first.IsZero() && !e.Slots[0].Equal(tt.first) || tt.first.IsZero() && e.Slots[0].Sub(now) > time.Minute {
			t.Errorf("%s: due at %v, slots %v", name, tt.due, e.Slots)
		}
	}
}

// Explain explains an account at each step of its way through Redis.
func TestExplainLife(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 1)
		codes := NewCodes()
		why := func(rule, due string) Explanation {
			t.Helper()
			e, err := r.Explain(ctx, "a")
			if err != nil || e.Rule != rule || e.DueRule != due || e.Why == "" || e.Now.IsZero() {
				t.Fatalf("rule %q, due by %q, %v; want %q and %q: %+v", e.Rule, e.DueRule, err, rule, due, e)
			}
			return e
		}
		if _, err := r.Explain(ctx, "a"); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := r.Create(ctx, Account{ID: "a", Kind: "plain", Cadence: "adaptive 10s..15m", Priority: PriorityLow}); err != nil {
			t.Fatal(err)
		}
		if e := why("registered", "registered"); e.Lane != PriorityLow || len(e.Marks) != 0 || !e.NeverSucceeded() {
			t.Errorf("registered: %+v", e)
		}
		c := claimAll(t, ring)["a"]
		if e := why("claimed", "registered"); e.State.Replica != "replica001" {
			t.Errorf("claimed: %+v", e)
		}
		if _, err := r.Nudge(ctx, "a", Nudge{Within: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if e := why("claimed", "registered"); e.Nudged.Before(e.Now) || e.Nudged.After(e.Now.Add(time.Minute)) {
			t.Errorf("nudged while claimed: %+v", e)
		}
		returnClaim(t, ring, circulate.Return{
			Claim: c, Due: time.Now().Add(time.Hour), Failures: 1, State: "i25000", Rule: codes.Rule(cadence.RuleBackoff),
			Mark: codes.Mark("transient"), Error: "http_503: no",
		})
		if e := why("nudge", "nudge"); e.Error != "http_503: no" || e.ErrorAt.IsZero() || e.State.Failures != 1 || !slices.Equal(e.Marks, []string{"transient"}) || !e.NeverSucceeded() || e.Slots[2].Sub(e.Slots[1]) != 25*time.Second {
			t.Errorf("nudged: %+v", e)
		}
		if _, err := r.Nudge(ctx, "a", Nudge{}); err != nil {
			t.Fatal(err)
		}
		c = claimAll(t, ring)["a"]
		returnClaim(t, ring, circulate.Return{Claim: c, Rule: codes.Rule(cadence.RuleMore), Mark: codes.Mark(MarkMore)})
		e := why("priority", "more")
		if e.Waits == nil || *e.Waits != (Waits{Lane: PriorityLow, Low: 1}) || e.State.Since.IsZero() || !slices.Equal(e.Marks, []string{"more", "transient"}) {
			t.Errorf("waiting: %+v", e)
		}
		c = claimAll(t, ring)["a"]
		returnClaim(t, ring, circulate.Return{Claim: c, Due: time.Now().Add(time.Hour), Rule: codes.Rule(cadence.RuleAdaptive), Mark: circulate.MarkOK})
		if e := why("adaptive", "adaptive"); e.Error != "" || e.NeverSucceeded() || e.State.Due.IsZero() {
			t.Errorf("succeeded: %+v", e)
		}
		if _, err := r.Nudge(ctx, "a", Nudge{}); err != nil {
			t.Fatal(err)
		}
		c = claimAll(t, ring)["a"]
		returnClaim(t, ring, circulate.Return{Claim: c, Park: "auth: refused", Rule: codes.Rule(cadence.RuleAuth), Mark: codes.Mark("auth"), Error: "refused"})
		if e := why("auth", "auth"); e.State.Reason != "auth: refused" || e.State.Since.IsZero() {
			t.Errorf("parked: %+v", e)
		}
		if _, err := r.Pause(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		why("paused", "auth")
		if _, err := r.Resume(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		why("resumed", "resumed")
	})
}

// Staleness is counted from the last complete success, by Redis' clock.
func TestExplainStaleness(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 1)
		if _, err := r.Create(ctx, Account{ID: "a", Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
		stale := func(want time.Duration) {
			t.Helper()
			e, err := r.Explain(ctx, "a")
			got, ok := e.Staleness()
			if err != nil || !ok || got < want || got >= want+time.Second {
				t.Errorf("stale for %v, %t, %v; want %v", got, ok, err, want)
			}
		}
		time.Sleep(time.Hour)
		stale(time.Hour)
		returnClaim(t, ring, circulate.Return{Claim: claimAll(t, ring)["a"], Due: time.Now(), Mark: circulate.MarkOK})
		time.Sleep(5 * time.Minute)
		stale(5 * time.Minute)
		returnClaim(t, ring, circulate.Return{Claim: claimAll(t, ring)["a"], Due: time.Now(), Mark: 't'})
		stale(5 * time.Minute)
	})
}

func TestClaimsBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		waits Waits
		want  int
		known bool
	}{
		"next in line":                     {Waits{Lane: "urgent", Urgent: 1}, 0, true},
		"urgent, alone":                    {Waits{Lane: "urgent", Ahead: 23, Urgent: 30}, 23, true},
		"urgent, among others":             {Waits{Lane: "urgent", Ahead: 23, Urgent: 30, Normal: 100, Low: 100}, 23 + 6 + 2, true},
		"normal, behind few urgent ones":   {Waits{Lane: "normal", Ahead: 29, Urgent: 10, Normal: 50}, 39, true},
		"normal, behind many urgent ones":  {Waits{Lane: "normal", Ahead: 2, Urgent: 1000, Normal: 3, Low: 9}, 15 + 1, true},
		"low, behind few":                  {Waits{Lane: "low", Ahead: 5, Urgent: 1, Normal: 2, Low: 9}, 8, true},
		"low, never behind more than that": {Waits{Lane: "low", Ahead: 1, Urgent: 1000, Normal: 2000, Low: 2}, 32, true},
		"by its kind":                      {Waits{Lane: "normal", Kind: "web", Ahead: 10, Urgent: 1, Normal: 90}, 20, true},
		"too far behind":                   {Waits{Normal: 9000}, 0, false},
	} {
		if got, known := tt.waits.ClaimsBefore(); got != tt.want || known != tt.known {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, known, tt.want, tt.known)
		}
	}
}

// A pause that the pool makes by itself is not said to be the upstream's wish.
func TestAPauseAfterNothingNewIsExplained(t *testing.T) {
	for name, tt := range map[string]struct {
		hold    time.Duration
		warning string
		own     bool
	}{
		"asked for":       {0, "", false},
		"held":            {30 * time.Second, "", true},
		"a stuck cursor":  {0, "field_name: x; cursor_stuck: found one message", true},
		"another warning": {0, "malformed: x", false},
	} {
		e := Explanation{DueRule: cadence.RulePollAfter, Hold: tt.hold, Warning: tt.warning}
		if why := e.whyDue(); strings.Contains(why, "at once with nothing new") != tt.own {
			t.Errorf("%s: %s", name, why)
		}
	}
}

func TestAReasonSaysItsWordOnce(t *testing.T) {
	for reason, want := range map[string]string{
		"gone: gone: deleted": "gone: deleted", "auth: http_401: no": "auth: http_401: no", "config: config: x": "config: x", "paused": "paused", "gone: deleted": "gone: deleted",
	} {
		if got := ReasonText(reason); got != want {
			t.Errorf("%s: %s", reason, got)
		}
		e := Explanation{View: View{State: State{Place: circulate.Parked, Reason: reason}}}
		if _, why := e.whyParked(); reason != "paused" && !strings.HasSuffix(why, "changed: "+want) {
			t.Errorf("%s: %s", reason, why)
		}
	}
}

// The prediction of parking follows from the account's last failure that counted, and
// from its refusals.
func TestParking(t *testing.T) {
	refused := time.UnixMilli(1_000_000)
	since := fmt.Sprintf("r1@%d", refused.UnixMilli())
	for name, tt := range map[string]struct {
		marks []circulate.Mark
		state string
		want  cadence.Parking
	}{
		"refused":                   {[]circulate.Mark{'a', circulate.MarkOK}, since, cadence.Parking{Rule: cadence.RuleAuth, After: 3, Over: 10 * time.Minute, Left: 2, From: refused.Add(10 * time.Minute)}},
		"refused, then not counted": {[]circulate.Mark{'b', 'r', 'a'}, since, cadence.Parking{Rule: cadence.RuleAuth, After: 3, Over: 10 * time.Minute, Left: 2, From: refused.Add(10 * time.Minute)}},
		"away, after a refusal":     {[]circulate.Mark{'t', 'a'}, since, cadence.Parking{Rule: cadence.RuleRetryBudget, After: 16, Left: 12}},
		"not counted for long":      {[]circulate.Mark{'b', 'b'}, "", cadence.Parking{Rule: cadence.RuleRetryBudget, After: 16, Left: 12}},
		"protocol":                  {[]circulate.Mark{'p'}, "", cadence.Parking{Rule: cadence.RuleRetryBudget, After: 16, Left: 12}},
	} {
		v := circulate.View{ID: "a", Failures: 4, Place: circulate.Scheduled, Record: []byte(`{"kind":"plain"}`), History: circulate.History{Marks: tt.marks}}
		e := explain(&v, 0, circulate.QueuePosition{State: tt.state})
		if got, known := e.Parking(); got != tt.want || !known {
			t.Errorf("%s: %+v, %v; want %+v", name, got, known, tt.want)
		}
	}
}

func TestFailuresLeftUntilParked(t *testing.T) {
	for name, tt := range map[string]struct {
		view  circulate.View
		want  int
		known bool
	}{
		"fails":          {circulate.View{Failures: 4, Place: circulate.Scheduled, Record: []byte(`{"kind":"plain"}`)}, 12, true},
		"its own budget": {circulate.View{Failures: 4, Place: circulate.Waiting, Record: []byte(`{"kind":"plain","retry_budget":5}`)}, 1, true},
		"over it":        {circulate.View{Failures: 9, Place: circulate.Claimed, Record: []byte(`{"kind":"plain","retry_budget":5}`)}, 1, true},
		"does not fail":  {circulate.View{Place: circulate.Scheduled, Record: []byte(`{"kind":"plain"}`)}, 0, false},
		"parked":         {circulate.View{Failures: 16, Place: circulate.Parked, Record: []byte(`{"kind":"plain"}`)}, 0, false},
		"unreadable":     {circulate.View{Failures: 4, Place: circulate.Scheduled, Record: []byte(`{`)}, 0, false},
	} {
		tt.view.ID = "a"
		e := explain(&tt.view, 0, circulate.QueuePosition{})
		if got, known := e.Parking(); got.Left != tt.want || known != tt.known {
			t.Errorf("%s: %d, %v; want %d, %v", name, got.Left, known, tt.want, tt.known)
		}
	}
}
