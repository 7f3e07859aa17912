package weixin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// The server gives half of all pages again, a second or 40 minutes later, with another seq, other
// addresses of media and mostly without ids. Each message is in the stream once, and no other one is
// missing, such as the second of two equal texts of one millisecond.
func TestGivenAgainIsWrittenOnce(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		fake := newFake(ilink.Options{Page: 5})
		register(b, "a")
		for range 2 {
			_, stop := start(b, fake, poller.Config{})
			defer stop()
		}
		time.Sleep(10 * time.Second)
		token := tokenOf("a")
		var posted []string
		again := make(map[int][]int) // minute -> numbers
		give := func(numbers []int) {
			for i, n := range numbers {
				fake.Again(token, n, i%3 > 0)
			}
		}
		for minute := range 80 { // nothing new comes in the last 40
			give(again[minute])
			var page []int
			for range minute % 5 * (1 - minute/40) {
				for _, n := range []int{fake.Write(token, "ok"), fake.Write(token, "ok"), fake.Post(token, ilinkd.Types()[minute%5])} {
					page = append(page, n)
					posted = append(posted, ilink.MessageID("", n))
				}
			}
			time.Sleep(time.Second)
			switch minute % 4 {
			case 0:
				give(page)
			case 2:
				again[minute+40] = page
			}
			time.Sleep(time.Minute - time.Second)
		}
		var found []string
		for _, f := range b.Found("a") {
			found = append(found, f.Message.ID)
		}
		if !slices.Equal(found, posted) {
			t.Errorf("found %d of %d distinct messages, of %d that were given", len(found), len(posted), fake.Stats(token).Given)
		}
		if s := fake.Stats(token); s.Given < len(posted)*14/10 {
			t.Errorf("%d messages were given, %d of them distinct: too few come again", s.Given, len(posted))
		}
	})
}

// With after_loss replay, a replica that takes over asks for recent messages again. What the dead
// one had in hand is found, and nothing is written twice.
func TestALostPageIsAskedForAgain(t *testing.T) {
	for _, replay := range []bool{false, true} {
		t.Run(fmt.Sprint(replay), func(t *testing.T) {
			faketime.Run(t, 2, func(b *faketime.World) {
				fake := newFake(ilink.Options{Replay: 50})
				how := lossContinue
				if replay {
					how = lossReplay
				}
				b.Register(circulate.Registration{ID: "a", Record: fmt.Appendf(nil, `{"id":"a","kind":%q,"cadence":"every 0","config":{"token":{"secret":"T_a"},"after_loss":%q}}`, Kind, how)})
				fake.PostN(tokenOf("a"), 2)
				first, stopFirst := start(b, fake, poller.Config{})
				defer stopFirst()
				defer monitored(b, b.Redis)()
				time.Sleep(10 * time.Second)
				first.answer.Store(&first.kill)
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(10 * time.Second)
				_, stopSecond := start(b, fake, poller.Config{})
				defer stopSecond()
				time.Sleep(2 * time.Minute)
				fake.PostN(tokenOf("a"), 2)
				time.Sleep(time.Minute)
				want := []int{1, 2, 5, 6}
				if replay {
					want = []int{1, 2, 3, 4, 5, 6}
				}
				if got := found(b, "a"); !slices.Equal(got, want) {
					t.Errorf("found %v, want %v", got, want)
				}
			})
		})
	}
}

// What identifies a message stays the same when the server gives it again.
func TestContentOfWhatComesAgain(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	token := tokenOf("a")
	for _, kind := range ilinkd.Types() {
		w.Again(token, w.Post(token, kind), true)
	}
	r := result(t, w, nil)
	for i := 0; i+1 < len(r.Messages); i += 2 {
		first, again := r.Messages[i], r.Messages[i+1]
		if first.Content == "" || first.Content != again.Content || first.NoID || !again.NoID {
			t.Errorf("%s and %s: %q and %q", first.Data, again.Data, first.Content, again.Content)
		}
		if i > 0 && first.Content == r.Messages[i-1].Content {
			t.Errorf("%s: the same content as %s", first.Data, r.Messages[i-1].Data)
		}
	}
	if len(r.Messages) != 2*len(ilinkd.Types()) {
		t.Errorf("got %d", len(r.Messages))
	}
}
