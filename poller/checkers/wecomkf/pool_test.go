package wecomkf

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// Two replicas check 12 accounts of one corporation, while tokens are revoked, limits are met
// and calls fail. Each message is in the stream once, in order. No more calls are made at once
// than WeCom allows. None of these accounts is parked. Other accounts, which have a wrong
// secret, are parked at once after one try.
func TestPools(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		w := wecom.New(wecom.Options{EmptyPages: true, Latency: 30 * time.Millisecond})
		w.AddCorp(corp, secret)
		w.AddCorp("wwother", secret)
		const accounts = 12
		for n := range accounts {
			id := fmt.Sprintf("wk%02d", n)
			w.AddAccount(corp, id)
			w.PostN(id, 250*(n%3))
			register(b, id, string(configOf("", id)))
			register(b, "wrong-"+id, fmt.Sprintf(`{"corp_id":"wwother","open_kfid":%q,"secret":{"secret":"WRONG"}}`, id))
		}
		source := source(secret)
		deployed := source.Lookup
		source.Lookup = func(name string) (string, bool) {
			if name == "ROUNDS_SECRET_WRONG" {
				return "wrong", true
			}
			return deployed(name)
		}
		client := fetch.New(fetch.Options{Transport: w})
		var stops []func()
		for range 2 {
			own := b.Open(b.Redis)
			stops = append(stops, startPool(b, own, New(client, source, credential.Of(own))))
		}

		random := rand.New(rand.NewPCG(1, 2))
		for round := range 36 {
			for n := range accounts {
				if random.IntN(3) == 0 {
					w.PostEvent(fmt.Sprintf("wk%02d", n), "enter_session")
				}
			}
			switch round % 12 {
			case 2:
				w.Revoke(corp)
			case 5:
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Status: 502, Times: 5})
			case 8:
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: -1, Times: 4})
			case 10:
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 60020, Times: 3})
			}
			if round == 15 {
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 45009, Times: 1})
			}
			time.Sleep(time.Minute)
		}
		w.Heal()
		time.Sleep(15 * time.Minute)
		for _, stop := range stops {
			stop()
		}

		for n := range accounts {
			id := fmt.Sprintf("wk%02d", n)
			found := b.Found(id)
			posted := w.Posted(id)
			for i, got := range found {
				if wecom.Number(got.Message.Data) != i+1 {
					t.Fatalf("%s: message %d is the %dth found", id, wecom.Number(got.Message.Data), i+1)
				}
			}
			if len(found) != posted {
				t.Errorf("%s: found %d of %d", id, len(found), posted)
			}
			b.Placed(circulate.Scheduled, id)
			b.Placed(circulate.Parked, "wrong-"+id)
		}
		s, other := w.Stats(corp), w.Stats("wwother")
		if s.AtOnce > 5 {
			t.Errorf("%d calls at once", s.AtOnce)
		}
		if other.WrongSecrets != 1 || w.Banned() {
			t.Errorf("a wrong secret: %+v", other)
		}
		if s.GetToken > 8 {
			t.Errorf("gettoken was called %d times", s.GetToken)
		}
	})
}

func register(b *faketime.World, id, config string) {
	b.Helper()
	b.Register(circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":%q,"cadence":"every 60s","config":%s}`, id, kind, config)})
}

func startPool(b *faketime.World, ring *circulate.Ring, checker poller.Checker) (stop func()) {
	b.Helper()
	checkers, err := poller.NewCheckers(checker)
	if err != nil {
		b.Fatal(err)
	}
	pool, err := poller.New(ring, checkers, poller.Config{PageLimit: 50}, poller.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return faketime.Go(b, pool.Run)
}
