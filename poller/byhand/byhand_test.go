package byhand

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// checker is a checker that a test writes.
type checker func(context.Context, poller.Request) (poller.Result, error)

func (checker) Kind() string { return "own" }

func (checker) Validate(config json.RawMessage) error {
	if strings.Contains(string(config), "bad") {
		return errors.New("config: bad")
	}
	return nil
}

func (checker) RateKey(json.RawMessage) string { return "host" }

func (c checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	return c(ctx, r)
}

func trials(t *testing.T, c checker, atOnce int) *Trials {
	t.Helper()
	all, err := poller.NewCheckers(c)
	if err != nil {
		t.Fatal(err)
	}
	return New(all, time.Minute, atOnce)
}

var request = trial.Request{Account: "a", Kind: "own", Config: json.RawMessage(`{}`), Pages: 3, Limit: 2}

func TestPagesAreFollowed(t *testing.T) {
	asked := 0
	all := trials(t, func(_ context.Context, r poller.Request) (poller.Result, error) {
		asked++
		if r.Account != "a" || r.Limit != 2 || r.Attempt != 1 || r.CheckID == "" {
			t.Errorf("got %+v", r)
		}
		return poller.Result{
			Messages: []poller.Message{{ID: "m", Data: []byte(`{"n":1}`)}}, Cursor: append(r.Cursor, 'x'), HasMore: true,
			Warnings: []poller.Warning{{Code: "malformed", Message: "a bit"}}, NextPollAfter: time.Second,
		}, nil
	}, 1)
	report, err := all.Try(t.Context(), request)
	if err != nil || report.Error != nil || asked != 3 || len(report.Pages) != 3 || report.RateKey != "host" {
		t.Fatalf("got %+v, %v", report, err)
	}
	last := report.Pages[2]
	if last.Cursor != "xx" || last.NextCursor != "xxx" || !last.HasMore || last.NextPollAfter != 1 || last.Warnings[0] != "malformed: a bit" || last.Messages[0].Time != nil {
		t.Errorf("got %+v", last)
	}
}

// A trial judges cursors as a poller does.
func TestACursorThatStaysIsShown(t *testing.T) {
	page := poller.Result{Messages: []poller.Message{{ID: "1", Data: []byte(`1`)}}}
	all := trials(t, func(context.Context, poller.Request) (poller.Result, error) { return page, nil }, 1)
	report, err := all.Try(t.Context(), request)
	if err != nil || report.Error != nil || len(report.Pages) != 1 || len(report.Pages[0].Warnings) != 1 || !strings.Contains(report.Pages[0].Warnings[0], "one message but its cursor has not moved: the next check finds it again") {
		t.Errorf("got %+v, %v", report, err)
	}
	page.HasMore = true
	report, err = all.Try(t.Context(), request)
	if err != nil || report.Error == nil || report.Error.Code != "cursor_stuck" || report.Error.Then != trial.RetryThenPark || len(report.Pages) != 0 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// A result that a poller would refuse is a failure here too. A panic harms nobody, and no
// checker gets a config that is not valid.
func TestWhatFails(t *testing.T) {
	for code, c := range map[string]checker{
		"bad_result": func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{Messages: []poller.Message{{}}}, nil
		},
		"panic": func(context.Context, poller.Request) (poller.Result, error) { panic("s3cret") },
		"panic ": func(context.Context, poller.Request) (poller.Result, error) {
			runtime.Goexit()
			return poller.Result{}, nil
		},
		"unknown": func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{}, errors.New("s3cret")
		},
		"nil_error": func(context.Context, poller.Request) (poller.Result, error) {
			var none *poller.CheckError
			return poller.Result{}, none
		},
		"http_503_[secret]": func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			source := secrets.Source{Lookup: func(name string) (string, bool) { return "s3cret", name == "ROUNDS_SECRET_TOKEN" }}
			token, err := source.Get(ctx, "TOKEN", secrets.Use{Kind: "own", Stays: true})
			if err != nil {
				return poller.Result{}, err
			}
			return poller.Result{}, &poller.CheckError{Code: "http_503_" + token, Message: "away for " + token, RetryAfter: time.Minute}
		},
	} {
		all := trials(t, c, 1)
		for range 2 { // the place is free again
			report, err := all.Try(t.Context(), request)
			if err != nil || report.Error == nil || report.Error.Code != strings.TrimSpace(code) || strings.Contains(report.Error.Message, "s3cret") || len(report.Pages) != 0 {
				t.Errorf("%s: got %+v, %v", code, report, err)
			}
		}
	}
	none := trials(t, func(context.Context, poller.Request) (poller.Result, error) { panic("asked") }, 1)
	for _, r := range []trial.Request{{Kind: "own", Config: json.RawMessage(`{"bad":1}`), Pages: 1}, {Kind: "other", Pages: 1}} {
		if _, err := none.Try(t.Context(), r); err == nil {
			t.Errorf("%+v was tried", r)
		}
	}
}

// A checker that does not return is abandoned, and keeps its place until it returns.
func TestAHangingCheckerKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		all := trials(t, func(context.Context, poller.Request) (poller.Result, error) {
			<-free
			return poller.Result{}, nil
		}, 1)
		began := time.Now()
		report, err := all.Try(t.Context(), request)
		if err != nil || report.Error == nil || report.Error.Code != "hung" || time.Since(began) != time.Minute+abandonAfter {
			t.Fatalf("after %v: %+v, %v", time.Since(began), report, err)
		}
		if _, err := all.Try(t.Context(), request); !errors.Is(err, trial.ErrBusy) {
			t.Errorf("got %v", err)
		}
		close(free)
		synctest.Wait()
		if report, err := all.Try(t.Context(), request); err != nil || report.Error != nil {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

func TestATrialEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trials(t, func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			<-ctx.Done()
			return poller.Result{}, ctx.Err()
		}, 1)
		report, err := all.Try(t.Context(), request)
		if err != nil || report.Error == nil || report.Error.Code != "timeout" || report.Error.Milliseconds != 60_000 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

func TestWhatAPollerWouldDo(t *testing.T) {
	for want, err := range map[string]error{
		"parks the account after 16":           errors.New("of nobody"),
		"parks the account at once":            &poller.CheckError{Kind: poller.Gone},
		"parks the account at once, because":   &poller.CheckError{Kind: poller.AuthFailed, Final: true},
		"drops the cursor":                     &poller.CheckError{Kind: poller.CursorInvalid},
		"at the earliest; does not count":      &poller.CheckError{Kind: poller.RateLimited, RetryAfter: 7e9},
		"which is not to blame":                &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeEgress},
		"parks the account after 3 refusals":   &poller.CheckError{Kind: poller.AuthFailed},
		"after a backoff; parks the account a": &poller.CheckError{Kind: poller.Protocol},
	} {
		if got := failureOf(err); !strings.Contains(got.Pool, want) || strings.Contains(got.Message, "nobody") {
			t.Errorf("%v: got %+v", err, got)
		}
	}
	for then, err := range map[trial.Then]*poller.CheckError{
		trial.Retry: {Kind: poller.RateLimited}, trial.RetryThenPark: {}, trial.Park: {Kind: poller.ConfigInvalid},
		trial.RefusalsThenPark: {Kind: poller.AuthFailed}, trial.DropCursor: {Kind: poller.CursorInvalid},
	} {
		if got := failureOf(err); got.Then != then || (got.Budget > 0) != (then != trial.Retry && then != trial.Park) {
			t.Errorf("%v: got %+v", err, got)
		}
	}
}
