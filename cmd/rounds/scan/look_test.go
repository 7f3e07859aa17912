package scan_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// look looks at a sign-in at a desk without waiting for the phone.
func (w *world) look(d *scan.Desk, l *scan.Login) *scan.Login {
	w.Helper()
	began := time.Now()
	now, err := d.Follow(w.Context(), w.registry, l.Name, 0)
	if err != nil || time.Since(began) > 0 {
		w.Fatalf("got %+v, %v in %v", now, err, time.Since(began))
	}
	synctest.Wait() // what the look has begun is held now
	return now
}

// Any number of looks at one process share one call, which goes on behind them. The next look finds
// its result, and digits that are typed in wait no longer than they may.
func TestLooksGoOnBehindThePage(t *testing.T) {
	run(t, func(w *world) {
		l, d := w.begin("me"), w.desk()
		for range 5 {
			if now := w.look(d, l); now.State != scan.Waiting || now.Link != l.Link {
				t.Errorf("got %+v", now)
			}
		}
		if n := w.fake.Calls(ilinkd.GetStatus); n != 1 {
			t.Errorf("5 looks have made %d calls", n)
		}
		w.fake.Scan(w.code(), "U", "4711")
		synctest.Wait()
		if now := w.look(d, l); now.State != scan.Digits || now.Wrong {
			t.Errorf("got %+v", now)
		}
		if now, err := d.Type(w.Context(), w.registry, l.Name, "1", time.Second); err != nil || now.State != scan.Digits || !now.Wrong {
			t.Errorf("got %+v, %v", now, err)
		}
		if now, err := d.Type(w.Context(), w.registry, l.Name, "4711", time.Second); err != nil || now.State != scan.Scanned {
			t.Errorf("got %+v, %v", now, err)
		}
		w.look(d, l)
		began := time.Now()
		if now, err := d.Follow(w.Context(), w.registry, l.Name, 3*time.Second); err != nil || now.State != scan.Scanned || time.Since(began) != 3*time.Second {
			t.Errorf("got %+v, %v after %v", now, err, time.Since(began))
		}
		w.fake.Confirm(w.code())
		synctest.Wait()
		if w.registered("me") == "" {
			t.Error("it is registered only when somebody looks")
		}
		if now := w.look(d, l); now.State != scan.Done {
			t.Errorf("got %+v", now)
		}
	})
}

// A server that answers at once is not asked more than once a second, however often somebody looks.
// If a call behind a look fails, the next look says so, until a call succeeds.
func TestLooksAreNoHotLoop(t *testing.T) {
	run(t, func(w *world) {
		l, d := w.begin("me"), w.desk()
		w.fake.Fail(ilinkd.GetStatus, ilinkd.Fault{Status: 500})
		for range 40 {
			w.look(d, l)
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.fake.Calls(ilinkd.GetStatus); n < 3 || n > 5 {
			t.Errorf("%d calls in four seconds", n)
		}
		if now := w.look(d, l); now.State != scan.Waiting || now.Trouble == "" || now.Link == "" {
			t.Errorf("got %+v", now)
		}
		w.fake.Heal()
		time.Sleep(2 * time.Second)
		w.look(d, l)
		w.fake.Scan(w.code(), "U", "")
		synctest.Wait()
		if now := w.look(d, l); now.State != scan.Scanned || now.Trouble != "" {
			t.Errorf("got %+v", now)
		}
	})
}

// Two processes have asked about one code. One gets the token, and the other learns that the code
// has expired. The token counts, whichever comes first.
func TestATokenCountsAboveAll(t *testing.T) {
	for _, tokenFirst := range []bool{true, false} {
		run(t, func(w *world) {
			l, one, other := w.begin("me"), w.desk(), w.desk()
			told := map[*scan.Desk]chan scan.Told{one: make(chan scan.Told), other: make(chan scan.Told)}
			for d, answer := range told {
				d.Server.Ask = answering(answer)
				w.look(d, l)
			}
			answers := []func(){
				func() { told[one] <- scan.Told{Status: "confirmed", Base: "https://far.example", Token: "T", Bot: "B"} },
				func() { told[other] <- scan.Told{Status: "expired"} },
			}
			if !tokenFirst {
				answers[0], answers[1] = answers[1], answers[0]
			}
			for _, answer := range answers {
				answer()
				synctest.Wait()
			}
			if w.stored["weixin-me"] != "https://far.example|T" || w.registered("me") == "" {
				t.Errorf("the token first, %t: got %v", tokenFirst, w.stored)
			}
			if now := w.look(w.desk(), l); now.State != scan.Done {
				t.Errorf("the token first, %t: got %+v", tokenFirst, now)
			}
		})
	}
}

// answering returns a server that holds until it is told what to answer.
func answering(answer <-chan scan.Told) func(context.Context, string, string, string) (scan.Told, error) {
	return func(ctx context.Context, _, _, _ string) (scan.Told, error) {
		select {
		case told := <-answer:
			return told, nil
		case <-ctx.Done():
			return scan.Told{}, ctx.Err()
		}
	}
}

// A sign-in that is abandoned while a call is held stays abandoned, even if the phone confirms
// then. Calls end with their process.
func TestAbandonedWhileHeld(t *testing.T) {
	run(t, func(w *world) {
		l, d := w.begin("me"), w.desk()
		w.look(d, l)
		if err := w.desk().Abandon(w.Context(), l.Name); err != nil {
			t.Fatal(err)
		}
		w.fake.Scan(w.code(), "U", "")
		w.fake.Confirm(w.code())
		synctest.Wait()
		if _, err := d.Look(w.Context(), l.Name); !errors.Is(err, login.ErrNone) || w.registered("me") != "" || len(w.stored) > 0 {
			t.Errorf("got %v, %v", err, w.stored)
		}

		l = w.begin("you")
		began, ended := time.Now(), make(chan error)
		go func() {
			_, err := d.Follow(w.Context(), w.registry, l.Name, scan.MaxHold)
			ended <- err
		}()
		synctest.Wait()
		d.Close()
		if err := <-ended; err == nil || time.Since(began) > time.Second || strings.Contains(err.Error(), "token") {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}
