package poller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/poller"
)

// A host answers each check after five seconds, and its accounts would fill the pool many times.
// Accounts at other hosts are checked on time all the same, and the slow host has the most places.
func TestSlowHostMakesNoOtherAccountLate(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if strings.HasPrefix(r.Account, "slow") {
				time.Sleep(5 * time.Second)
			}
			return poller.Result{}, nil
		}
		const slow, well, every = 150, 6, 10 * time.Second
		for i := range slow {
			id := fmt.Sprintf("slow%04d", i)
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 10s","config":{"host":"slow"}}`, id))
		}
		for i := range well {
			id := fmt.Sprintf("well%04d", i)
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 10s","config":{"host":"well%d"}}`, id, i))
		}
		stop := w.start(poller.Config{Concurrency: 32})
		time.Sleep(time.Minute) // the slow host may be there first
		from := time.Now()
		time.Sleep(time.Minute)
		stop()
		for i := range well {
			var last time.Time
			n := 0
			for _, c := range w.checker.calls(fmt.Sprintf("well%04d", i)) {
				if c.at.Before(from) {
					continue
				}
				if n++; !last.IsZero() && c.at.Sub(last) > every+time.Second {
					t.Errorf("well%04d: %v between two checks, want %v", i, c.at.Sub(last), every)
				}
				last = c.at
			}
			if n < 5 {
				t.Errorf("well%04d: %d checks in a minute", i, n)
			}
		}
		checks := 0
		for i := range slow {
			checks += len(w.checker.calls(fmt.Sprintf("slow%04d", i)))
		}
		if least := 120 / 5 * 21; checks < least { // of 24 places
			t.Errorf("the slow host had %d checks, want at least %d", checks, least)
		}
		if n := w.counted("rounds_put_back_total", accounts.RuleCrowd); n == 0 {
			t.Error("no account of the crowd was put off")
		}
	})
}

// All accounts are at one host: no place is kept free.
func TestOneHostHasAllPlaces(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			time.Sleep(5 * time.Second)
			return poller.Result{}, nil
		}
		for i := range 100 {
			id := fmt.Sprintf("slow%04d", i)
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 10s","config":{"host":"slow"}}`, id))
		}
		stop := w.start(poller.Config{Concurrency: 32})
		time.Sleep(time.Minute)
		stop()
		n := 0
		for i := range 100 {
			n += len(w.checker.calls(fmt.Sprintf("slow%04d", i)))
		}
		if least := 32 * 60 / 5 * 9 / 10; n < least {
			t.Errorf("%d checks in a minute, want at least %d", n, least)
		}
	})
}
