package telegram

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// Telegram sends half of all updates again, at once or 40 minutes later, under their update_id or
// another one. Each is in the stream once.
func TestSentAgainIsWrittenOnce(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		fake := telegram.New(telegram.Options{})
		token := tokenOf("a")
		fake.AddBot(token)
		b.Register(circulate.Registration{ID: "a", Record: fmt.Appendf(nil, `{"id":"a","kind":%q,"cadence":"every 0","config":%s}`, kind, configOf("", "a", ""))})
		for range 2 {
			_, _, stop := start(b, fake, nil)
			defer stop()
		}
		time.Sleep(10 * time.Second)
		again := make(map[int]telegram.Update)
		posted, repeated := 0, 0
		for minute := range 80 { // nothing new comes in the last 40
			if u, ok := again[minute]; ok {
				fake.Again(token, u, minute%3 > 0)
				repeated++
			}
			if minute >= 40 {
				time.Sleep(time.Minute)
				continue
			}
			kind := []string{"message", "edited_message", "channel_post"}[minute%3]
			posted = fake.Post(token, kind)
			last := fake.Last(token)
			time.Sleep(time.Second)
			switch minute % 4 {
			case 0:
				fake.Again(token, last, minute%8 == 0)
				repeated++
			case 2:
				again[minute+40] = last
			}
			time.Sleep(time.Minute - time.Second)
		}
		var found, want []int
		for _, f := range b.Found("a") {
			found = append(found, telegram.Number(f.Message.Data))
		}
		for n := range posted {
			want = append(want, n+1)
		}
		if !slices.Equal(found, want) {
			t.Errorf("found %v, want 1 to %d", found, posted)
		}
		if repeated*2 != posted {
			t.Errorf("%d updates of %d came again", repeated, posted)
		}
	})
}
