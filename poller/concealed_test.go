package poller_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/processes"
)

// A checker that ends its goroutine has failed like one that panics: its account is returned at
// once, and checked again.
func TestACheckerThatEndsItsGoroutineHasFailed(t *testing.T) {
	for name, held := range map[string]bool{"an ordinary check": false, "a held check": true} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
					if r.Account == "a" && len(w.checker.calls("a")) <= 3 {
						runtime.Goexit()
					}
					return poller.Result{}, nil
				}
				start := w.start
				if held {
					start = w.startHolding
					w.registerHeld("a", "5", "every 0")
					w.registerHeld("b", "5", "every 0")
				} else {
					w.register("every 1s", "a", "b")
				}
				stop := start(poller.Config{Concurrency: 2, GracePeriod: time.Second})
				time.Sleep(time.Second)
				if v := w.look("a"); v.Place != circulate.Scheduled || v.Failures != 1 || v.Error != "panic: the checker ended its goroutine" {
					t.Errorf("after the first: %+v", v)
				}
				time.Sleep(5 * time.Minute)
				stop()
				if n := len(w.checker.calls("a")); n < 5 {
					t.Errorf("%d checks", n)
				}
				if n := len(w.checker.calls("b")); n < 10 {
					t.Errorf("%d checks of another account", n)
				}
				if n := w.counted("rounds_checker_panics_total", ""); n != 3 {
					t.Errorf("%v are counted", n)
				}
			})
		})
	}
}

// The text of a panic may hold a secret, like the text of an error. The log has the panic's type
// and stack.
func TestThePanicsTextIsNotInTheLog(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			panic(errors.New("the pigeon is dead, token s3cr3t"))
		}
		w.register("every 1h", "a")
		log := new(processes.Output)
		stop := w.startChecking(poller.Config{}, w.checker, slog.New(slog.NewTextHandler(log, nil)))
		time.Sleep(time.Second)
		stop()
		if text := log.String(); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "panic=*errors.errorString") || !strings.Contains(text, "concealed_test.go") {
			t.Errorf("got %s", text)
		}
		if v := w.look("a"); strings.Contains(v.Error, "s3cr3t") {
			t.Errorf("got %q", v.Error)
		}
	})
}

// A secret that a check resolved is scrubbed from the code and the message of its failure.
func TestAFailureHasNoSecretOfTheCheck(t *testing.T) {
	inFakeTime(t, func(w *world) {
		source := secrets.Source{Lookup: func(name string) (string, bool) { return "s3cr3t-token", name == "ROUNDS_SECRET_TOKEN" }}
		w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			token, err := source.Get(ctx, "TOKEN", secrets.Use{Kind: "scripted", Stays: true})
			if err != nil {
				return poller.Result{}, secrets.CheckError(err)
			}
			return poller.Result{}, &poller.CheckError{Code: "http_403_" + token, Message: "the bearer " + token + " is not known"}
		}
		w.register("every 1h", "a")
		log := new(processes.Output)
		stop := w.startChecking(poller.Config{}, w.checker, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		time.Sleep(time.Minute)
		stop()
		if v := w.look("a"); v.Error != "http_403_[secret]: the bearer [secret] is not known" || strings.Contains(log.String(), "s3cr3t") {
			t.Errorf("got %q, and the log\n%s", v.Error, log.String())
		}
	})
}
