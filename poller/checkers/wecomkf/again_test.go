package wecomkf

import (
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// WeCom gives half of all pages again, a minute or 40 minutes later, mostly without msgids. Each
// message and event is in the stream once, whatever the cursor that it comes under.
func TestGivenAgainIsWrittenOnce(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		w := wecom.New(wecom.Options{EmptyPages: true})
		w.AddCorp(corp, secret)
		w.AddAccount(corp, "wk")
		register(b, "wk", string(configOf("", "wk")))
		client := fetch.New(fetch.Options{Transport: w})
		for range 2 {
			own := b.Open(b.Redis)
			defer startPool(b, own, New(client, source(secret), credential.Of(own)))()
		}
		time.Sleep(10 * time.Second)
		var posted []int
		again := make(map[int][]int) // minute -> numbers
		for minute := range 80 {     // nothing new comes in the last 40
			for i, n := range again[minute] {
				w.Again("wk", n, i%3 > 0)
			}
			var page []int
			for i := range 3 * (1 - minute/40) {
				if i == 1 {
					page = append(page, w.PostEvent("wk", wecom.Events()[minute%7]))
				} else {
					page = append(page, w.Post("wk", wecom.Types()[minute%10]))
				}
			}
			posted = append(posted, page...)
			switch minute % 4 {
			case 0:
				again[minute+1] = append(again[minute+1], page...)
			case 2:
				again[minute+40] = append(again[minute+40], page...)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(10 * time.Minute)
		var found []int
		for _, f := range b.Found("wk") {
			found = append(found, wecom.Number(f.Message.Data))
		}
		slices.Sort(found)
		slices.Sort(posted)
		if !slices.Equal(found, posted) {
			t.Errorf("found %d, want %d: %v", len(found), len(posted), found)
		}
		if n := w.Posted("wk"); n != len(posted)*15/10 {
			t.Errorf("%d messages were given, %d of them distinct: half of them must come again", n, len(posted))
		}
	})
}
