package poller_test

import (
	"context"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A failover goes to a replica that has the queued send, and not the note of its attempt. If
// attempts wait for a replica, the third party gets the send once. Otherwise it gets it twice, as
// the guide says.
func TestAFailoverThatLosesTheAttempt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ replicas, want int }{
		"attempts wait for a replica": {1, 1},
		"they wait for none":          {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			replica := redistest.StartReplica(t, master)
			open := func(s *redistest.Server) *circulate.Ring {
				ring, err := circulate.Open(t.Context(), redistest.Connect(t, s), circulate.Options{Shards: 1, Log: testLog(t)})
				if err != nil {
					t.Fatal(err)
				}
				return ring
			}
			vendor, sent := newTalker(), make(chan struct{}, 10)
			vendor.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
				defer func() { sent <- struct{}{} }()
				return vendor.take(r), nil
			}
			run := func(ring *circulate.Ring) (stop func()) {
				checkers, err := poller.NewCheckers(vendor)
				if err != nil {
					t.Fatal(err)
				}
				pool, err := poller.New(ring, checkers, poller.Config{ConfirmReplicas: test.replicas}, poller.Options{Log: testLog(t)})
				if err != nil {
					t.Fatal(err)
				}
				return faketime.Go(t, pool.Run)
			}
			ring := open(master)
			if _, err := ring.Register(t.Context(), 0, []circulate.Registration{{ID: "a", Record: []byte(`{"id":"a","kind":"talker","cadence":"every 1h"}`), Due: time.Now().Add(time.Hour)}}); err != nil {
				t.Fatal(err)
			}
			send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "talker", Peer: "anna", Type: "text"}
			if _, _, err := ring.Sends().Queue(t.Context(), send, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
			if _, err := circulate.NewSyncer(ring, circulate.Durability{Replicas: 1}).Sync(t.Context(), 0); err != nil {
				t.Fatal(err)
			}

			replica.Lead(t)
			stop := run(ring) // its Redis believes to be the master, and has no replica
			if test.replicas == 0 {
				<-sent
			} else {
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for s := send; s.Code != "redis_not_synced" && s.State != circulate.SendAccepted; <-tick.C {
					var err error
					if s, err = ring.Sends().Look(t.Context(), send.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			stop()
			master.Follow(t, replica)

			ring = open(replica)
			if s, err := ring.Sends().Look(t.Context(), send.ID); err != nil || s.State != circulate.SendQueued {
				t.Fatalf("the new master has it as %s, %v", s.State, err)
			}
			stop = run(ring)
			<-sent
			stop()
			if s, err := ring.Sends().Look(t.Context(), send.ID); err != nil || s.State != circulate.SendAccepted {
				t.Errorf("%s, %v", s.State, err)
			}
			if got := vendor.has(); len(got) != test.want {
				t.Errorf("the third party has it %d times, want %d", len(got), test.want)
			}
		})
	}
}
