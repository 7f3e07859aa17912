// Package byhand checks accounts by hand: with the pollers' own checkers, and without a ring. It
// stores nothing. It asks the third party as a poller does, under the same limits on where a poller
// may go and which secrets it may use.
package byhand

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
	"github.com/rounds-dev/rounds/poller/internal/panics"
)

// AtOnce is the most trials of a process that may be under way at once.
const AtOnce = 4

// abandonAfter is how long a checker may go on after its context is done.
const abandonAfter = time.Second

// Trials makes trials, a bounded number at once. It is safe for concurrent use.
type Trials struct {
	// Told gets what reports leave out because it may hold a secret: the error of a check that is not
	// a *poller.CheckError, without a stack, and a checker's panic with its stack. It may be called
	// from several goroutines. Nil: nobody gets it. It must be set before the first trial.
	Told func(err error, stack []byte)

	checkers poller.Checkers
	timeout  time.Duration
	places   chan struct{}
}

// New returns Trials with the given checkers. A page may take as long as the timeout. At most
// atOnce trials are under way at once.
func New(checkers poller.Checkers, timeout time.Duration, atOnce int) *Trials {
	return &Trials{checkers: checkers, timeout: timeout, places: make(chan struct{}, atOnce)}
}

// Try makes a trial, and follows pages as a poller does under one claim. A failed check is no
// error: the report says what went wrong. The errors are trial.ErrBusy, the error of
// Checkers.Validate for a request that it refuses, and ErrPanicked.
//
// A checker that goes on after its context is done is abandoned, and keeps its place until it
// returns.
func (t *Trials) Try(ctx context.Context, r trial.Request) (*trial.Report, error) {
	rateKey, err := t.judgeConfig(r)
	if err != nil {
		return nil, err
	}
	checker := t.checkers[r.Kind]
	ctx = egress.For(ctx, &egress.Account{ID: r.Account, Kind: r.Kind, Labels: r.Labels})
	report := &trial.Report{
		Kind: r.Kind, Account: r.Account, RateKey: rateKey, Limit: r.Limit, Timeout: t.timeout.String(), Pages: []trial.FoundPage{},
		Hold: t.checkers.Hold(r.Kind, r.Config).Seconds(),
	}
	select {
	case t.places <- struct{}{}:
	default:
		return nil, trial.ErrBusy
	}
	if t.follow(ctx, checker, r, report) {
		<-t.places
	}
	return report, nil
}

// ErrPanicked reports that a checker panicked when it was asked about a config.
var ErrPanicked = errors.New("byhand: the kind's Validate or RateKey panicked")

// PanicError is a checker's panic.
type PanicError struct{ value any }

// Error returns what the checker said when it panicked, which may hold a secret.
func (p *PanicError) Error() string { return fmt.Sprintf("the checker panicked: %v", p.value) }

// Type returns what a log may hold of the panic: the type of its value, and no text of the checker's.
func (p *PanicError) Type() string { return panics.Type(p.value) }

// judgeConfig validates the config, and returns its rate key.
func (t *Trials) judgeConfig(r trial.Request) (rateKey string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			t.tell(&PanicError{reason}, debug.Stack())
			err = ErrPanicked
		}
	}()
	if err := t.checkers.Validate(r.Kind, r.Config); err != nil {
		return "", err
	}
	return t.checkers[r.Kind].RateKey(r.Config), nil
}

func (t *Trials) tell(err error, stack []byte) {
	if t.Told != nil {
		t.Told(err, stack)
	}
}

// follow checks page by page. It reports whether the checker has returned. An abandoned one frees
// its place itself.
func (t *Trials) follow(ctx context.Context, checker poller.Checker, r trial.Request, report *trial.Report) (returned bool) {
	request := poller.Request{
		Account: r.Account, CheckID: fmt.Sprintf("by-hand-%d", time.Now().UnixNano()), Config: r.Config,
		Cursor: r.Cursor, Hint: r.Hint, Limit: r.Limit, Attempt: 1, Trial: true,
	}
	for range r.Pages {
		began := time.Now()
		result, err := t.page(ctx, checker, request)
		took := time.Since(began).Milliseconds()
		if err != nil {
			report.Error = failureOf(err)
			report.Error.Milliseconds = took
			return !errors.Is(err, errAbandoned)
		}
		page := trial.FoundPage{
			Cursor: trial.CursorText(request.Cursor), Messages: []trial.FoundMessage{}, Milliseconds: took,
			HasMore: result.HasMore, CursorReset: result.CursorReset, NextPollAfter: result.NextPollAfter.Seconds(),
		}
		for _, m := range result.Messages {
			page.Messages = append(page.Messages, trial.FoundMessage{ID: m.ID, Type: m.Type, Time: timeOrNil(m.Time), Data: trial.Shown(m.Data)})
		}
		if result.Cursor != nil {
			request.Cursor = result.Cursor
		}
		page.NextCursor = trial.CursorText(request.Cursor)
		for _, w := range result.Warnings {
			page.Warnings = append(page.Warnings, w.String())
		}
		report.Pages = append(report.Pages, page)
		if !result.HasMore {
			break
		}
	}
	return true
}

var errAbandoned = errors.New("byhand: the checker does not return")

// outcome is a page or its error.
type outcome struct {
	result poller.Result
	err    error
}

// page asks for one page. Its error is a *poller.CheckError. If it wraps errAbandoned, the checker
// still runs, and frees its place when it returns.
func (t *Trials) page(ctx context.Context, checker poller.Checker, request poller.Request) (poller.Result, error) {
	var secrets conceal.Secrets
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, conceal.Key{}, &secrets), t.timeout)
	defer cancel()
	done := make(chan outcome)
	abandoned := make(chan struct{})
	go func() {
		var o outcome
		defer func() { // deferred, because the checker may end the goroutine
			select {
			case done <- o:
			case <-abandoned:
				<-t.places
			}
		}()
		t.check(ctx, checker, request, &secrets, &o)
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
	}
	hung := time.NewTimer(abandonAfter)
	defer hung.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-hung.C:
		close(abandoned)
		return poller.Result{}, &poller.CheckError{
			Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "hung", Message: "the checker did not return in time", Err: errAbandoned,
		}
	}
}

// check calls the checker and sets the outcome, even if the checker panics or ends the goroutine.
func (t *Trials) check(ctx context.Context, checker poller.Checker, request poller.Request, secrets *conceal.Secrets, o *outcome) {
	returned := false
	fail := func(told error, text string) {
		t.tell(told, debug.Stack())
		*o = outcome{err: &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "panic", Message: text}}
	}
	defer func() {
		switch reason := recover(); {
		case reason != nil: // the reason may hold a secret
			fail(&PanicError{reason}, "the checker panicked")
		case !returned:
			fail(errors.New(panics.Ended+": runtime.Goexit"), panics.Ended)
		}
	}()
	result, err := checker.Check(ctx, request)
	if known := new(poller.CheckError); err != nil && !errors.As(err, &known) {
		t.tell(err, nil)
	}
	o.result, o.err = t.judged(ctx, checker, request, secrets, result, err) // here, because the error's own methods may panic too
	returned = true
}

// judged returns a page or its error as a poller sees it: the error is nil or a *poller.CheckError.
func (t *Trials) judged(ctx context.Context, checker poller.Checker, asked poller.Request, secrets *conceal.Secrets, result poller.Result, err error) (poller.Result, error) {
	var known *poller.CheckError
	switch {
	case err == nil:
		err = poller.Judge(checker, asked, &result)
	case !errors.As(err, &known) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "timeout", Message: fmt.Sprintf("no answer within %v", t.timeout), Err: err}
	}
	if err == nil {
		return result, nil
	}
	failed := poller.Classify(err)
	failed.Code, failed.Message = secrets.Scrub(failed.Code), secrets.Scrub(failed.Message)
	return result, failed
}

func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
