package circulate_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// An attempt that is not on disk is none: the send is queued again, and nobody may send it.
func TestAttemptsThatAreNotDurableAreWithdrawn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  func(*server.Peer)
		durable bool
		err     error
	}{
		"synced":      {answer: synced(1), durable: true},
		"late":        {answer: synced(0), err: circulate.ErrNotDurable},
		"cannot tell": {answer: func(c *server.Peer) { c.WriteError("ERR unknown command 'WAITAOF'") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Embedded(t)
			ring := openRing(t, s, 1)
			if err := s.Miniredis().Server().Register("WAITAOF", func(c *server.Peer, _ string, _ []string) { test.answer(c) }); err != nil {
				t.Fatal(err)
			}
			register(t, ring, "a")
			send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna"}
			if _, _, err := ring.Sends().Queue(t.Context(), send, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
			order := circulate.AttemptOrder{Replica: "replica000", Step: "1", Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute}
			attempts, _, err := ring.Sends().Attempt(t.Context(), 0, order)
			if err != nil {
				t.Fatal(err)
			}
			held, durable, err := circulate.NewSyncer(ring, circulate.Durability{Disk: true}).Attempts(t.Context(), 0, attempts)
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("attempt: %v, want %v", err, test.err)
			}
			want, n := circulate.SendAttempting, 1
			if test.err != nil {
				want, n = circulate.SendQueued, 0
				if _, err := ring.Sends().Withdraw(t.Context(), 0, order.Replica, order.Step); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := ring.Sends().Look(t.Context(), send.ID); err != nil || got.State != want || got.Attempts != n || len(held) != n {
				t.Errorf("%s after %d attempts, %v; returned %d", got.State, got.Attempts, err, len(held))
			}
			if n == 1 && (!held[0] || durable != test.durable) {
				t.Errorf("held %v, durable %v", held[0], durable)
			}
		})
	}
}

// After the wait a Syncer says of each attempt whether it still counts: one that was ended or attempted
// anew meanwhile does not, nor does one that this Redis does not have.
func TestAttemptsThatHaveEndedDoNotCount(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx, ring := t.Context(), openRing(t, server, 1)
		sends := ring.Sends()
		register(t, ring, "a")
		order := circulate.AttemptOrder{Replica: "replica000", Step: "1", Kinds: []string{"chat"}, Most: 10, Lasts: time.Minute, WithFile: time.Hour}
		peers := []string{"held", "with a file", "unknown", "given back", "attempted again"}
		for _, peer := range peers {
			send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: peer}
			if peer == "with a file" {
				send.Data = json.RawMessage(`{"file":"f"}`)
			}
			if _, _, err := sends.Queue(ctx, send, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
		}
		attempts, _, err := sends.Attempt(ctx, 0, order)
		if err != nil || len(attempts) != len(peers) {
			t.Fatalf("%d attempts, %v", len(attempts), err)
		}
		var all []circulate.Settlement
		for _, a := range attempts {
			if outcome, ended := map[string]circulate.SendOutcome{
				"unknown": circulate.AttemptUnknown, "given back": circulate.AttemptNotBegun, "attempted again": circulate.AttemptNotBegun,
			}[a.Peer]; ended {
				after := time.Time{}
				if a.Peer == "given back" {
					after = a.Since.Add(time.Hour)
				}
				all = append(all, circulate.Settlement{ID: a.ID, Fence: a.Fence, Outcome: outcome, After: after})
			}
		}
		if _, err := sends.Settle(ctx, all); err != nil {
			t.Fatal(err)
		}
		order.Step, order.Lasts = "2", 2*time.Minute // it may be the same millisecond
		if again, _, err := sends.Attempt(ctx, 0, order); err != nil || len(again) != 1 {
			t.Fatalf("%d attempts again, %v", len(again), err)
		}
		for name, want := range map[string]circulate.Durability{"waits": {Disk: true}, "waits for nothing": {}} {
			held, _, err := circulate.NewSyncer(ring, want).Attempts(ctx, 0, attempts)
			if err != nil || len(held) != len(attempts) {
				t.Fatalf("%s: %v, %v", name, held, err)
			}
			for i, a := range attempts {
				if held[i] != (a.Peer == "held" || a.Peer == "with a file" || !want.Disk) {
					t.Errorf("%s: %s counts: %v", name, a.Peer, held[i])
				}
			}
		}
	})
}
