package wecomkf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/fetch"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// Two replicas check 12 accounts of one corporation, while tokens are revoked,
// limits met and calls fail: each message is in the stream once, in order; no more
// calls are made at once than WeCom allows; nobody is parked for any of it. Others,
// with a wrong secret, are parked at once, at the price of one try.
func TestPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wecom.New(wecom.Options{EmptyPages: true, Latency: 30 * time.Millisecond})
		w.AddCorp(corp, secret)
		w.AddCorp("wwother", secret)
		server := connect.NewEmbedded()
		defer func() {
			_ = server.Close()
			synctest.Wait()
		}()
		ring := openRing(t, server)
		const accounts = 12
		for n := range accounts {
			id := fmt.Sprintf("wk%02d", n)
			w.AddAccount(corp, id)
			w.PostN(id, 250*(n%3))
			register(t, ring, id, string(configOf("", id)))
			register(t, ring, "wrong-"+id, fmt.Sprintf(`{"corp_id":"wwother","open_kfid":%q,"secret":{"secret":"WRONG"}}`, id))
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
			own := openRing(t, server)
			stops = append(stops, startPool(t, own, New(client, source, own)))
		}

		random := rand.New(rand.NewPCG(1, 2))
		for turn := range 36 {
			for n := range accounts {
				if random.IntN(3) == 0 {
					w.PostEvent(fmt.Sprintf("wk%02d", n), "enter_session")
				}
			}
			switch turn % 12 {
			case 2:
				w.Revoke(corp)
			case 5:
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Status: 502, Times: 5})
			case 8:
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: -1, Times: 4})
			case 10:
				w.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 60020, Times: 3})
			}
			if turn == 15 {
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
			found := numbersOf(t, ring, id)
			posted := w.Posted(id)
			for i, got := range found {
				if got != i+1 {
					t.Fatalf("%s: message %d is the %dth found", id, got, i+1)
				}
			}
			if len(found) != posted {
				t.Errorf("%s: found %d of %d", id, len(found), posted)
			}
			placed(t, ring, id, circulate.Scheduled)
			placed(t, ring, "wrong-"+id, circulate.Parked)
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

func openRing(t *testing.T, server circulate.Server) *circulate.Ring {
	t.Helper()
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func register(t *testing.T, ring *circulate.Ring, id, config string) {
	t.Helper()
	record := fmt.Appendf(nil, `{"id":%q,"kind":%q,"cadence":"every 60s","config":%s}`, id, Kind, config)
	outcomes, err := ring.Register(t.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: record}})
	if err != nil || outcomes[0] != circulate.Created {
		t.Fatalf("register %s: %v, %v", id, outcomes, err)
	}
}

func startPool(t *testing.T, ring *circulate.Ring, checker poller.Checker) (stop func()) {
	t.Helper()
	checkers, err := poller.NewCheckers(checker)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := poller.New(ring, checkers, poller.Config{PageLimit: 50}, poller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func placed(t *testing.T, ring *circulate.Ring, id string, want circulate.Place) {
	t.Helper()
	views, err := ring.Look(context.Background(), ring.ShardOf(id), []string{id})
	if err != nil || len(views) != 1 || views[0].Place != want {
		t.Errorf("%s: %+v, %v; want %s", id, views, err, want)
	}
}

// numbersOf gives the numbers of an account's messages, as they are in the stream.
func numbersOf(t *testing.T, ring *circulate.Ring, account string) (numbers []int) {
	t.Helper()
	after := circulate.StreamStart
	for {
		found, err := ring.Messages(context.Background(), ring.ShardOf(account), after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			return numbers
		}
		for _, m := range found {
			if m.Account == account {
				numbers = append(numbers, wecom.Number(m.Message.Data))
			}
			after = m.Position
		}
	}
}
