package telegram

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/byhand"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// A bot has no updates for a week, and Telegram goes on with any update_id: a lower one, a higher
// one, one that it has used before. Nothing is lost, nothing comes twice, and what was found is
// confirmed.
func TestNothingIsLostAfterAQuietWeek(t *testing.T) {
	first, err := strconv.ParseInt(telegram.UpdateID("", 1), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for name, next := range map[string]int64{
		"far lower": 4711, "the first of all": 1, "a little lower": first - 30, "as before": first,
		"one that was used": first + 2, "a little higher": first + 20, "far higher": first + 1<<30,
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(b *faketime.World) {
				fake := telegram.New(telegram.Options{Random: func() int64 { return next }})
				fake.AddBot(tokenOf("a"))
				b.Register(circulate.Registration{ID: "a", Record: fmt.Appendf(nil, `{"id":"a","kind":%q,"cadence":"every 0","config":%s}`, kind, configOf("", "a", ""))})
				_, _, stop := start(b, fake, nil)
				fake.PostN(tokenOf("a"), 20)
				time.Sleep(time.Minute)
				stop()
				time.Sleep(8 * 24 * time.Hour)
				_, _, stop = start(b, fake, nil)
				defer func() { stop() }()
				time.Sleep(10 * time.Second)
				fake.PostN(tokenOf("a"), 3)
				time.Sleep(time.Minute)
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(2 * time.Minute)
				var got, want []int
				for _, f := range b.Found("a") {
					got = append(got, telegram.Number(f.Message.Data))
				}
				for n := 1; n <= 25; n++ {
					want = append(want, n)
				}
				if !slices.Equal(got, want) {
					t.Errorf("found %v", got)
				}
				if s := fake.Stats(tokenOf("a")); s.Kept != 0 {
					t.Errorf("%d updates are not confirmed", s.Kept)
				}
			})
		})
	}
}

// taken checks once and returns what was found, and the cursor.
func taken(t *testing.T, w *telegram.Telegram, base string, cursor []byte) ([]int, []byte) {
	t.Helper()
	r, err := New(fetch.New(fetch.Options{Transport: w}), source()).Check(t.Context(), poller.Request{Account: "a", Config: configOf(base, "a", ""), Cursor: cursor, Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	if r.Cursor != nil {
		cursor = r.Cursor
	}
	var all []int
	for _, m := range r.Messages {
		all = append(all, telegram.Number(m.Data))
	}
	return all, cursor
}

// Cursors of earlier versions are an offset alone.
func TestAnOffsetAloneIsACursor(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	w.PostN(tokenOf("a"), 5)
	all, cursor := taken(t, w, "", []byte(telegram.UpdateID("", 4)))
	if !slices.Equal(all, []int{4, 5}) {
		t.Errorf("got %v", all)
	}
	w.Renumber(tokenOf("a"), 17)
	w.PostN(tokenOf("a"), 2)
	if all, _ := taken(t, w, "", []byte(telegram.UpdateID("", 6))); !slices.Equal(all, []int{6, 7}) {
		t.Errorf("after a jump: got %v", all)
	}
	if all, cursor = taken(t, w, "", cursor); !slices.Equal(all, []int{6, 7}) || offsetOf(t, cursor) != "19" {
		t.Errorf("after a jump: got %v, %s", all, cursor)
	}
}

// A server that was set up anew from an old copy gives updates again, and then goes on with ids
// that were used before. Only updates that are new are found.
func TestARepeatIsToldFromANewUpdate(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	w.PostN(tokenOf("a"), 60)
	all, cursor := taken(t, w, "", nil)
	if len(all) != 60 {
		t.Errorf("got %v", all)
	}
	u := make(updates, 0, 60)
	for n := 41; n <= 60; n++ {
		u = append(u, fmt.Appendf(nil, `{"update_id":%s,"message":{"message_id":%d}}`, telegram.UpdateID("", n), n))
	}
	at, err := decodeCursor(cursor)
	if err != nil {
		t.Fatal(err)
	}
	first, err := u.result(at, maxLimit)
	if err != nil || len(first.Messages) != 20 {
		t.Fatalf("other updates under ids that were used: got %d, %v", len(first.Messages), err)
	}
	after, err := decodeCursor(first.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	again, err := u[:10].result(after, maxLimit)
	if err != nil || len(again.Messages) != 0 || offsetOf(t, again.Cursor) != telegram.UpdateID("", 51) {
		t.Errorf("a repeat: got %d, %s, %v", len(again.Messages), again.Cursor, err)
	}
}

// Another server, or another bot, has other ids. The offset of the one would confirm updates of
// the other that nobody has seen.
func TestAnotherQueueBeginsAtItsHead(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	w.PostN(tokenOf("a"), 5)
	_, cursor := taken(t, w, "", nil)
	other := telegram.New(telegram.Options{})
	other.AddBot(tokenOf("a"))
	other.PostN(tokenOf("a"), 9)
	all, moved := taken(t, other, "https://bots.example.com", cursor)
	if len(all) != 9 {
		t.Errorf("at another server: got %v", all)
	}
	if all, _ := taken(t, other, "https://bots.example.com", moved); len(all) != 0 || other.Stats(tokenOf("a")).Kept != 0 {
		t.Errorf("the second time: got %v", all)
	}
	if queueOf(defaultBaseURL, "17:a") != queueOf(defaultBaseURL, "17:b") || queueOf(defaultBaseURL, "17:a") == queueOf(defaultBaseURL, "18:a") {
		t.Error("a queue is that of a bot, whatever its token")
	}
}

// A trial by hand takes no update away from the account, however many there are.
func TestATrialConfirmsNothing(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	w.PostN(tokenOf("a"), 250)
	checkers, err := poller.NewCheckers(New(fetch.New(fetch.Options{Transport: w}), source()))
	if err != nil {
		t.Fatal(err)
	}
	report, err := byhand.New(checkers, time.Minute, 1).Try(t.Context(), trial.Request{Kind: kind, Account: "a", Config: configOf("", "a", ""), Limit: 100, Pages: 5})
	if err != nil || report.Error != nil || len(report.Pages) != 1 || len(report.Pages[0].Messages) != 100 {
		t.Fatalf("got %+v, %v", report, err)
	}
	if kept := w.Stats(tokenOf("a")).Kept; kept != 250 {
		t.Errorf("%d of 250 are left", kept)
	}
}
