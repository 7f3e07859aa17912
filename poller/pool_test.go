package poller_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// Tests of many accounts, replicas or hours run without the race detector. It finds nothing in them
// that it does not find in the others, and with it they took two thirds of this package's time.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestReplicasShareABudget", "TestCutRepliesAndConnections", "TestASendIsTriedAgainAsItsErrorSays", "TestAnUnknownEndIsHeld", "TestAnUnknownEndIsLookedFor", "TestAWayThatIsDownIsOneThing", "TestLooksWaitAtAWayThatIsDown",
		"TestRateIsBackAMinuteAfterAnOutage", "TestFiveDaysOfEveryCadence", "TestEveryAccountIsBackOnItsPhase",
		"TestStandingOverloadIsSharedAndCostsLittle", "TestWhatLaterVersionsWriteIsNeverParked", "TestBusyShardsAreNotLookedAtByAll",
		"TestUntimedMessagesArePassedOverForADay", "TestANudgeDoesNotWaitForOthers", "TestMovesAreFollowedOnceWritten", "TestLimitsAreShared",
		"TestResumingSaysFromWhere", "TestOwnOutageIsHeldAgainstNobody", "TestAccountKeepsToItsShareOverAllReplicas", "TestNoMessagesAreTakenAboveTheMark",
		"TestHeldCallsEndAsOthersConnect", "TestHeldAccountsTakeTurns", "TestABusyReplicaClaimsAhead", "TestChecksAtEverySlotOfItsPhase",
		"TestAfterAnOutageNothingRunsAtOnce", "TestWhatAReplicaDoesNotKnowIsLeftToOthers",
		"TestProgramsOfDifferentKindsShareANamespace", "TestPassingOverSurvives", "TestFailures", "TestAHeldAccountThatThisVersionDoesNotKnow",
		"TestFullRedisTakesAccountsBackWithoutMessages", "TestACursorThatStaysStormsNothing", "TestLimitsThatDoNotAnswer", "TestHowAHoldMayEnd",
		"TestANewKindIsRolledOut", "TestHeldCallsEndInWaves", "TestDeniedAccountsComeBackOnceAndInOrder",
		"TestAKilledReplicaDoublesNoSend", "TestAFleetingSendIsAttemptedOnce", "TestAPageTellsOfASendThatFailed", "TestRetryBudgetParks",
		"TestAttemptsThatWaitForTheDiskHoldNoPlaces", "TestSlowCallsHaveFewAttemptsNotedAhead", "TestAnAttemptThatWaitedTooLongIsGivenBack",
		"TestLimitsHoldAtTheMomentOfTheCall", "TestACheckerThatEndsItsGoroutineHasFailed", "TestACallThatConfirmsWaitsForTheDisk",
		"TestAHostThatIsDownIsNoOutage", "TestAHeldAccountIsClaimedAnew", "TestMessagesUnderACursorThatStaysWarn",
		"TestAHostThatIsDownIsOneThing", "TestSlowHostMakesNoOtherAccountLate", "TestPartlyFailingHostIsNotDown", "TestFailuresInAWindowCountNowhere",
		"TestThrottledAccountPausesItsHost", "TestARefusedAccountIsPolledForAWhile", "TestSendsWaitAtAWayThatIsDown",
		"TestSuspectsAreCheckedOneAtATime", "TestANewAccountPassesOver", "TestWhatIsDueEarlierIsCheckedAtOnce", "TestAHeldAccountStays"))
}

func TestChecksAtEverySlotOfItsPhase(t *testing.T) {
	inFakeTime(t, func(w *world) {
		every, err := cadence.Parse("every 1m")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		w.register("every 1m", "a", "b", "c")
		stop := w.start(poller.Config{IdleInterval: time.Minute})
		time.Sleep(time.Hour)
		stop()
		for _, id := range []string{"a", "b", "c"} {
			calls := w.checker.calls(id)
			if len(calls) < 60 || len(calls) > 61 {
				t.Fatalf("%s was checked %d times in an hour", id, len(calls))
			}
			slot, _ := every.After(id, begin, cadence.State{})
			for i, c := range calls[1:] { // the first is the check after registration
				if late := c.at.Sub(slot); late < 0 || late > 20*time.Millisecond {
					t.Fatalf("check %d of %s was at %v, its slot is %v", i, id, c.at, slot)
				}
				slot = slot.Add(time.Minute)
			}
		}
	})
}

func TestTightRing(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			time.Sleep(100 * time.Millisecond)
			return poller.Result{}, nil
		}
		w.register("every 0", "a", "b", "c")
		stop := w.start(poller.Config{})
		time.Sleep(10 * time.Second)
		stop()
		for _, id := range []string{"a", "b", "c"} {
			if n := len(w.checker.calls(id)); n < 85 || n > 100 {
				t.Errorf("%s was checked %d times in ten seconds of checks of 100 ms", id, n)
			}
		}
	})
}

// counter returns a checker function of an upstream with a fixed number of messages for each
// account. The cursor is the number of the last message found.
func counter(available int, perPage int) func(context.Context, poller.Request) (poller.Result, error) {
	return func(_ context.Context, r poller.Request) (poller.Result, error) {
		at, _ := strconv.Atoi(string(r.Cursor))
		var result poller.Result
		for at < available && len(result.Messages) < perPage {
			at++
			result.Messages = append(result.Messages, poller.Message{ID: fmt.Sprint(at), Data: []byte("1")})
		}
		result.Cursor, result.HasMore = []byte(fmt.Sprint(at)), at < available
		return result, nil
	}
}

func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return all
}

func TestDrainsPagesInOneClaim(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = counter(55, 10)
		w.register("every 1h", "a")
		stop := w.start(poller.Config{})
		time.Sleep(5 * time.Second)
		stop()
		calls := w.checker.calls("a")
		if len(calls) != 6 {
			t.Errorf("%d pages, want 6", len(calls))
		}
		for _, c := range calls {
			if c.request.CheckID != calls[0].request.CheckID {
				t.Errorf("check id %q, want the same for every page", c.request.CheckID)
			}
		}
		if got := w.found("a"); !slices.Equal(got, numbers(55)) {
			t.Errorf("found %v", got)
		}
	})
}

func TestGoesBehindTheOthersAfterManyPages(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = counter(45, 1)
		w.register("every 1h", "a")
		stop := w.start(poller.Config{})
		time.Sleep(5 * time.Second)
		stop()
		checks := make(map[string]int)
		for _, c := range w.checker.calls("a") {
			checks[c.request.CheckID]++
		}
		if len(checks) != 3 {
			t.Errorf("claims and their pages: %v, want three of at most 20", checks)
		}
		if got := w.found("a"); !slices.Equal(got, numbers(45)) {
			t.Errorf("found %v", got)
		}
	})
}

func TestEmptyPagesEnd(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) { return poller.Result{HasMore: true}, nil }
		w.register("every 1h", "a")
		stop := w.start(poller.Config{})
		time.Sleep(2 * time.Second)
		stop()
		if n := len(w.checker.calls("a")); n != 10 {
			t.Errorf("%d empty pages, want 10", n)
		}
		if v := w.look("a"); v.Failures != 1 {
			t.Errorf("failures %d, want 1", v.Failures)
		}
	})
}

// hostile is an error whose own methods panic.
type hostile struct{}

func (hostile) Error() string { panic("its text") }
func (hostile) As(any) bool   { panic("what it is") }

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		place    circulate.Place
		failures int
		reason   string
		checks   [2]int // at least and at most, in ten minutes of "every 1s"
	}{
		"unknown":       {errors.New("secret=hunter2"), circulate.Scheduled, 9, "", [2]int{9, 10}},
		"nil":           {(*poller.CheckError)(nil), circulate.Scheduled, 9, "", [2]int{9, 10}},
		"hostile":       {hostile{}, circulate.Scheduled, 9, "", [2]int{9, 10}},
		"rate limited":  {&poller.CheckError{Kind: poller.RateLimited, RetryAfter: 5 * time.Minute}, circulate.Scheduled, 0, "", [2]int{2, 2}},
		"gone":          {&poller.CheckError{Kind: poller.Gone, Code: "http_410", Message: "no such feed"}, circulate.Parked, 1, "gone: http_410: no such feed", [2]int{1, 1}},
		"config":        {&poller.CheckError{Kind: poller.ConfigInvalid, Code: "c", Message: "m"}, circulate.Parked, 1, "config: c: m", [2]int{1, 1}},
		"auth":          {&poller.CheckError{Kind: poller.AuthFailed, Code: "c", Message: "m"}, circulate.Scheduled, 2, "", [2]int{2, 2}},
		"auth, final":   {&poller.CheckError{Kind: poller.AuthFailed, Final: true, Code: "c", Message: "m"}, circulate.Parked, 1, "auth: c: m", [2]int{1, 1}},
		"gone, checker": {&poller.CheckError{Kind: poller.Gone, Scope: poller.ScopeChecker}, circulate.Scheduled, 0, "", [2]int{20, 41}},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) { return poller.Result{}, test.err }
				w.register("every 1s", "a")
				stop := w.start(poller.Config{IdleInterval: time.Minute})
				time.Sleep(9*time.Minute + 50*time.Second)
				stop()
				v := w.look("a")
				if v.Place != test.place || v.Failures < test.failures || v.Failures > test.failures+1 || v.Reason != test.reason {
					t.Errorf("%s with %d failures, reason %q", v.Place, v.Failures, v.Reason)
				}
				if n := len(w.checker.calls("a")); n < test.checks[0] || n > test.checks[1] {
					t.Errorf("%d checks, want %v", n, test.checks)
				}
			})
		})
	}
}

func TestRetryBudgetParks(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if r.Attempt == 3 {
				panic("of the checker")
			}
			return poller.Result{}, errors.New("down")
		}
		w.faulty.quiet = true
		w.register("every 1m", "a")
		stop := w.start(poller.Config{IdleInterval: time.Hour, Heartbeat: time.Hour})
		time.Sleep(24 * time.Hour)
		stop()
		if v := w.look("a"); v.Place != circulate.Parked || v.Failures != cadence.RetryBudget || !strings.HasPrefix(v.Reason, "retry budget: 16") {
			t.Errorf("%s with %d failures, reason %q", v.Place, v.Failures, v.Reason)
		}
		if n := len(w.checker.calls("a")); n != cadence.RetryBudget {
			t.Errorf("%d checks, want %d", n, cadence.RetryBudget)
		}
		if w.counted("rounds_checker_panics_total", "") != 1 {
			t.Error("the panic was not counted")
		}
	})
}

func TestCursorInvalidIsDropped(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if string(r.Cursor) == "bad" {
				return poller.Result{}, &poller.CheckError{Kind: poller.CursorInvalid}
			}
			return poller.Result{Cursor: []byte("bad")}, nil
		}
		w.register("every 1m", "a")
		stop := w.start(poller.Config{IdleInterval: time.Minute})
		time.Sleep(4 * time.Minute)
		stop()
		for i, c := range w.checker.calls("a") {
			if want := []string{"", "bad"}[i%2]; string(c.request.Cursor) != want {
				t.Errorf("check %d had cursor %q, want %q", i, c.request.Cursor, want)
			}
		}
	})
}

func TestRecordsThatCannotBeUsedAreParked(t *testing.T) {
	inFakeTime(t, func(w *world) {
		good := "good"
		w.register("every 1m", good)
		for id, record := range map[string]string{
			"text": `not JSON`, "cadence": `{"id":"cadence","kind":"scripted","cadence":"every full moon"}`,
			"other": `{"id":"another","kind":"scripted"}`, "newer": `{"id":"newer","kind":"scripted","colour":"red"}`,
			"kind": `{"id":"kind","kind":"unheard"}`,
		} {
			if _, err := w.ring.Register(w.Context(), w.ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte(record)}}); err != nil {
				t.Fatal(err)
			}
		}
		stop := w.start(poller.Config{IdleInterval: time.Minute})
		time.Sleep(10 * time.Minute)
		stop()
		for _, id := range []string{"text", "other"} {
			if v := w.look(id); v.Place != circulate.Parked || !strings.HasPrefix(v.Reason, "config: ") {
				t.Errorf("%s is %s, reason %q", id, v.Place, v.Reason)
			}
		}
		// Another replica may know the kind, the cadence or the field, so this does not count
		// against the account.
		for id, unknown := range map[string]string{"kind": "kind", "cadence": "cadence", "newer": "field"} {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Failures != 0 || !strings.Contains(v.Error, "unknown_"+unknown) {
				t.Errorf("%s is %s with %d failures, %q", id, v.Place, v.Failures, v.Error)
			}
			if n := w.counted("rounds_put_back_total", "unknown_"+unknown); n < 10 || n > 20 {
				t.Errorf("%s was given back %v times in ten minutes", id, n)
			}
		}
		if n := len(w.checker.calls(good)); n < 10 {
			t.Errorf("%s was checked %d times", good, n)
		}
	})
}

func TestHungCheckIsAbandonedAndFenced(t *testing.T) {
	inFakeTime(t, func(w *world) {
		release := make(chan struct{})
		var once sync.Once
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			hang := false
			once.Do(func() { hang = true })
			if hang {
				<-release // even after ctx is done
				return poller.Result{Messages: []poller.Message{{ID: "late"}}, Cursor: []byte("late")}, nil
			}
			return poller.Result{Messages: []poller.Message{{ID: "in time"}}}, nil
		}
		w.register("every 1m", "a")
		stop := w.start(poller.Config{Concurrency: 1})
		time.Sleep(10 * time.Minute)
		if got := w.found("a"); len(got) == 0 || slices.Contains(got, "late") {
			t.Errorf("found %v", got)
		}
		if w.counted("rounds_checks_abandoned_total", "") != 1 || w.counted("rounds_checks_hanging", "") != 1 {
			t.Error("the abandoned check was not counted")
		}
		close(release)
		time.Sleep(3 * time.Minute)
		if got := w.found("a"); slices.Contains(got, "late") {
			t.Errorf("found %v", got)
		}
		if w.counted("rounds_checks_hanging", "") != 0 {
			t.Error("the check that came back still counts as hanging")
		}
		stop()
	})
}

func TestTimeoutIsAFailure(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			<-ctx.Done()
			return poller.Result{}, ctx.Err()
		}
		w.register("every 1h", "a")
		stop := w.start(poller.Config{CheckTimeout: 3 * time.Second})
		time.Sleep(10 * time.Second)
		if v := w.look("a"); v.Failures != 1 || v.Place != circulate.Scheduled {
			t.Errorf("%s with %d failures", v.Place, v.Failures)
		}
		stop()
	})
}

func TestShutdownFinishesAndReleases(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			switch r.Account {
			case "quick":
				time.Sleep(5 * time.Second)
				return poller.Result{Messages: []poller.Message{{ID: "1"}}, Cursor: []byte("1"), HasMore: true}, nil
			case "slow":
				<-ctx.Done()
				return poller.Result{}, ctx.Err()
			}
			time.Sleep(time.Minute) // ignores ctx
			return poller.Result{Messages: []poller.Message{{ID: "deaf"}}}, nil
		}
		w.register("every 1h", "quick", "slow", "deaf")
		stop := w.start(poller.Config{GracePeriod: 10 * time.Second})
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("going down took %v", took)
		}
		if got := w.found("quick"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("found %v", got)
		}
		for _, id := range []string{"quick", "slow", "deaf"} {
			if v := w.look(id); v.Place != circulate.Waiting || v.Failures != 0 {
				t.Errorf("%s is %s with %d failures", id, v.Place, v.Failures)
			}
		}
		if replicas, _, err := w.ring.Replicas(w.Context()); err != nil || len(replicas) != 0 {
			t.Errorf("replicas %v, %v", replicas, err)
		}
		time.Sleep(time.Minute)
		if got := w.found("deaf"); len(got) != 0 {
			t.Errorf("found %v after the release", got)
		}
	})
}

func TestStartStop(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = counter(300, 3)
		w.register("every 1s", "a", "b", "c", "d")
		for range 25 {
			stop := w.start(poller.Config{GracePeriod: time.Second})
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
			stop()
			w.newMetrics()
		}
		stop := w.start(poller.Config{})
		time.Sleep(3 * time.Minute)
		stop()
		for _, id := range []string{"a", "b", "c", "d"} {
			if got := w.found(id); !slices.Equal(got, numbers(300)) {
				t.Errorf("%s: %d messages found, or out of order", id, len(got))
			}
		}
	})
}
