package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/poller"
)

// anyKind accepts every record.
type anyKind struct{}

func (anyKind) Validate(string, json.RawMessage) error { return nil }

// upstream is a third party that has a new message every ten seconds and returns pages of ten.
type upstream struct {
	began   time.Time
	untimed bool
	fail    func(from int) error
}

const every = 10 * time.Second

// Check continues from the cursor, which is the number of the next message.
func (u *upstream) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	from, _ := strconv.Atoi(string(r.Cursor))
	if u.fail != nil {
		if err := u.fail(from); err != nil {
			return poller.Result{}, err
		}
	}
	var result poller.Result
	last := int(time.Since(u.began) / every)
	to := min(from+10, last)
	for n := from; n < to; n++ {
		m := poller.Message{ID: fmt.Sprintf("%05d", n)}
		if !u.untimed {
			m.Time = u.began.Add(time.Duration(n+1) * every)
		}
		result.Messages = append(result.Messages, m)
	}
	result.Cursor, result.HasMore = fmt.Append(nil, to), to < last
	return result, nil
}

// pausedFor pauses an account and resumes it a while later.
func (w *world) pausedFor(d time.Duration, registry *accounts.Registry, from accounts.ResumeFrom) {
	w.Helper()
	if _, err := registry.Pause(w.Context(), "a"); err != nil {
		w.Fatal(err)
	}
	time.Sleep(d)
	if _, err := registry.ResumeFrom(w.Context(), "a", from); err != nil {
		w.Fatal(err)
	}
}

// idsOf returns the ids of the upstream's messages from number from to number to, which is
// excluded.
func idsOf(from, to int) []string {
	var ids []string
	for n := from; n < to; n++ {
		ids = append(ids, fmt.Sprintf("%05d", n))
	}
	return ids
}

// TestResumingSaysFromWhere pauses an account while two hundred and forty messages come.
func TestResumingSaysFromWhere(t *testing.T) {
	for from, want := range map[accounts.ResumeFrom][]string{
		accounts.ResumeCursor:   idsOf(0, 300),
		accounts.ResumeNow:      append(idsOf(0, 30), idsOf(270, 300)...),
		accounts.ResumeBackfill: append(idsOf(0, 30), idsOf(0, 300)...),
	} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(w *world) {
				w.faulty.quiet = true
				time.Sleep(time.Until(time.Now().Truncate(every).Add(every + time.Second)))
				up := &upstream{began: time.Now()}
				w.checker.check = up.Check
				registry := accounts.NewRegistry(w.ring, anyKind{})
				w.register("every 10s", "a")
				stop := w.start(poller.Config{})
				time.Sleep(30*every + every/2)
				w.pausedFor(240*every, registry, from)
				time.Sleep(30 * every)
				stop()
				got := w.found("a")
				// A check may come just before or just behind a message.
				near := func(n, of int) bool { return of-2 <= n && n <= of+2 }
				if !near(len(got), len(want)) || got[0] != want[0] || !near(len(slices.Compact(slices.Sorted(slices.Values(got)))), len(slices.Compact(slices.Sorted(slices.Values(want))))) {
					t.Errorf("%d messages, want %d", len(got), len(want))
				}
				if again := slices.Index(got[1:], got[0]) > 0; again != (from == accounts.ResumeBackfill) {
					t.Errorf("the first one came again: %v", again)
				}
				skipped := map[bool]int{true: 240}[from == accounts.ResumeNow]
				if n := w.counted("rounds_messages_passed_over_total", ""); !near(int(n), skipped) {
					t.Errorf("%v were passed over, want %d", n, skipped)
				}
				if e, err := registry.Explain(w.Context(), "a"); err != nil || !e.Skip.IsZero() {
					t.Errorf("it still passes over what was before %v, %v", e.Skip, err)
				}
			})
		})
	}
}

// TestPassingOverSurvives disturbs an account that passes messages over: its check fails in
// the middle, a replica shuts down, the record changes, and there are more pages than one
// claim may have.
func TestPassingOverSurvives(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.faulty.quiet = true
		failures := 0
		up := &upstream{began: time.Now(), fail: func(from int) error {
			if from >= 350 && failures < 3 {
				failures++
				return errors.New("down")
			}
			return nil
		}}
		w.checker.check = up.Check
		registry := accounts.NewRegistry(w.ring, anyKind{})
		w.register("every 10s", "a")
		stop := w.start(poller.Config{})
		time.Sleep(30 * every)
		w.pausedFor(400*every+every/2, registry, accounts.ResumeNow)
		time.Sleep(time.Second) // twenty pages are two hundred, more follow, and fail
		stop()
		if failures != 1 {
			t.Errorf("the upstream failed %d times", failures)
		}
		if e, err := registry.Explain(w.Context(), "a"); err != nil || e.Skip.IsZero() {
			t.Fatalf("it passes nothing over, %v", err)
		}
		if _, _, err := registry.Put(w.Context(), accounts.Account{ID: "a", Kind: "scripted", Cadence: "every 20s"}); err != nil {
			t.Fatal(err)
		}
		if n := len(w.found("a")); n > 31 {
			t.Errorf("%d messages by now", n)
		}
		w.newMetrics()
		stop = w.start(poller.Config{})
		time.Sleep(100 * every)
		stop()
		got := w.found("a")
		first := slices.IndexFunc(got, func(id string) bool { return id > "00050" })
		if first < 0 || got[first] < "00428" || got[first] > "00431" || len(got) < first+60 {
			t.Errorf("after the resumption come %v", got[max(0, first):])
		}
		if !slices.IsSorted(got) || len(slices.Compact(got)) != len(got) {
			t.Error("messages came out of order or twice")
		}
	})
}

// TestUntimedMessagesArePassedOverForADay has a third party whose messages have no times. An
// account that was never checked has no cursor, so all messages are new to it.
func TestUntimedMessagesArePassedOverForADay(t *testing.T) {
	for _, tt := range []struct {
		checked bool          // before it was resumed
		away    time.Duration // how long nobody polls after the resumption
		dropped bool
	}{{true, 0, true}, {true, 12 * time.Hour, true}, {true, 25 * time.Hour, false}, {false, 0, true}, {false, 25 * time.Hour, true}} {
		t.Run(fmt.Sprint(tt.checked, tt.away), func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.faulty.quiet = true
				up := &upstream{began: time.Now().Add(-time.Hour), untimed: true}
				w.checker.check = up.Check
				registry := accounts.NewRegistry(w.ring, anyKind{})
				first, old := "00000", "00400" // old is not in the first pages, with which a check may end
				if tt.checked {
					w.register("every 10s", "a")
					stop := w.start(poller.Config{})
					time.Sleep(time.Minute)
					stop()
					w.pausedFor(time.Hour, registry, accounts.ResumeNow)
					w.newMetrics()
				} else {
					old = "00100"
					time.Sleep(time.Hour + time.Minute)
					if _, _, err := registry.Save(w.Context(), accounts.Account{ID: "a", Kind: "scripted", Cadence: "every 10s"}, accounts.Save{From: accounts.BeginNow}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tt.away)
				stop := w.start(poller.Config{})
				time.Sleep(30 * every)
				stop()
				got := w.found("a")
				if dropped := !slices.Contains(got, old); dropped != tt.dropped {
					t.Errorf("the old ones were dropped: %v", dropped)
				}
				if found := slices.Contains(got, first); found != tt.checked {
					t.Errorf("what came before was found: %v", found)
				}
				if last := fmt.Sprintf("%05d", (2*time.Hour+time.Minute+tt.away)/every+20); !slices.Contains(got, last) {
					t.Errorf("%s is missing", last)
				}
			})
		})
	}
}

// TestANewAccountPassesOver registers accounts that begin from now. Their third party already
// has many messages, with or without times, and more follow.
func TestANewAccountPassesOver(t *testing.T) {
	for _, untimed := range []bool{false, true} {
		inFakeTime(t, func(w *world) {
			w.faulty.quiet = true
			up := &upstream{began: time.Now().Add(-time.Hour - every/2), untimed: untimed}
			w.checker.check = up.Check
			registry := accounts.NewRegistry(w.ring, anyKind{})
			if _, err := registry.ImportWith(w.Context(), strings.NewReader(`{"id":"a","kind":"scripted","cadence":"every 10s"}`), accounts.Importing{From: accounts.BeginNow, Bad: func(accounts.BadLine) error { return errors.New("refused") }}); err != nil {
				t.Fatal(err)
			}
			stop := w.start(poller.Config{})
			time.Sleep(30*every + every/2)
			stop()
			// With times, no message between registration and the first check is lost.
			got, want := w.found("a"), idsOf(360, 390)
			if len(got) < len(want)-2 || len(got) > len(want) || got[0] < want[0] || !untimed && got[0] != want[0] {
				t.Errorf("untimed %v: %d messages from %s, want %d from %s", untimed, len(got), got[0], len(want), want[0])
			}
			if e, err := registry.Explain(w.Context(), "a"); err != nil || !e.Skip.IsZero() {
				t.Errorf("it still passes over what was before %v, %v", e.Skip, err)
			}
		})
	}
}
