package wecomkf

import (
	"errors"
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

// Two replicas check nine accounts of one corporation, while tokens are revoked, limits are met
// and calls fail. Each message is in the stream once, in order. No more calls are made at once
// than WeCom allows. None of these accounts is parked. Other accounts, which have a wrong
// secret, are parked at once after one try.
func TestPools(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		w := wecom.New(wecom.Options{EmptyPages: true, Latency: 30 * time.Millisecond})
		w.AddCorp(corp, secret)
		w.AddCorp("wwother", secret)
		const accounts = 9
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
		for round := range 24 {
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

// Who enters is welcomed once, within 20 seconds of the event. Afterwards the window is closed until
// the customer writes.
func TestAWelcomeHasAWindow(t *testing.T) {
	faketime.Run(t, 2, func(b *faketime.World) {
		w := wecom.New(wecom.Options{})
		w.AddCorp(corp, secret)
		w.AddAccount(corp, "wk")
		register(b, "wk", string(configOf("", "wk")))
		own := b.Open(b.Redis)
		defer startPool(b, own, New(fetch.New(fetch.Options{Transport: w}), source(secret), credential.Of(own)))()
		time.Sleep(10 * time.Second)
		queue := func() error {
			s := circulate.Send{
				ID: circulate.NewSendID("wk"), Account: "wk", Kind: kind, Peer: "wm-customer", Type: "text", Data: []byte(`{"text":"欢迎"}`), Windowed: true,
			}
			_, _, err := b.Ring.Sends().Queue(b.Context(), s, "", circulate.SendBounds{})
			return err
		}
		enters := func() {
			w.Enter("wk")
			if err := b.Ring.Account("wk").Nudge(b.Context(), circulate.Nudge{}); err != nil { // as by the callback
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		var closed *circulate.WindowError
		enters()
		if err := queue(); err != nil {
			t.Fatal(err)
		}
		if err := queue(); !errors.As(err, &closed) {
			t.Errorf("a second welcome: %v", err)
		}
		time.Sleep(2 * time.Second)
		if all := w.Sent("wk"); len(all) != 1 || !all[0].Welcome {
			t.Errorf("WeCom has %+v", all)
		}
		time.Sleep(time.Minute)
		enters()
		time.Sleep(20 * time.Second)
		if err := queue(); !errors.As(err, &closed) {
			t.Errorf("too late: %v", err)
		}
		w.Post("wk", "text")
		time.Sleep(2 * time.Minute)
		for range 5 {
			if err := queue(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if all := w.Sent("wk"); len(all) != 6 || all[5].Welcome || w.Stats(corp).SendMsg != 6 {
			t.Errorf("WeCom has %+v", all)
		}
	})
}
