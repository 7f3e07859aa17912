package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/byhand"
)

// trialPage is how long a page of a trial may take, however long a poller waits, because somebody
// waits for the reply.
const trialPage = 30 * time.Second

// kindsOf returns the kinds of the checkers, with their fields. A kind whose declaration is wrong
// is edited as JSON.
func kindsOf(checkers poller.Checkers) []strict.Kind {
	var kinds []strict.Kind
	for _, name := range checkers.Kinds() {
		k := strict.Describe(name, checkers[name])
		if k.Validate() != nil {
			k.Fields = nil
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// tryWith returns a function that makes trials with the process' own checkers. It logs each,
// because a trial leaves no other trace and sends requests to third parties.
func tryWith(checkers poller.Checkers, timeout time.Duration, log *slog.Logger) func(context.Context, trial.Request) (*trial.Report, error) {
	trials := byhand.New(checkers, min(timeout, trialPage), byhand.AtOnce)
	trials.Told = func(err error, stack []byte) {
		if stack == nil { // the text of an error may hold a secret
			return
		}
		what := "runtime.Goexit"
		if panicked, ok := errors.AsType[*byhand.PanicError](err); ok {
			what = panicked.Type()
		}
		log.Error("a checker panicked", "panic", what, "stack", string(stack)) // as a poller logs it
	}
	return func(ctx context.Context, r trial.Request) (*trial.Report, error) {
		report, err := trials.Try(ctx, r)
		if err != nil {
			return nil, err
		}
		outcome := "ok"
		if report.Error != nil {
			outcome = report.Error.Code
		}
		by, _ := access.From(ctx)
		log.InfoContext(ctx, "an account was tried", "account", r.Account, "kind", r.Kind, "at", report.RateKey, "outcome", outcome, "by", by.Name)
		return report, nil
	}
}
