package circulate_test

import (
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
			attempts, _, err := ring.Sends().Attempt(t.Context(), 0, circulate.AttemptOrder{
				Replica: "replica000", Step: "1", Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute, Durably: circulate.NewSyncer(ring, circulate.Durability{Disk: true}),
			})
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("attempt: %v, want %v", err, test.err)
			}
			want, n := circulate.SendAttempting, 1
			if test.err != nil {
				want, n = circulate.SendQueued, 0
			}
			if got, err := ring.Sends().Look(t.Context(), send.ID); err != nil || got.State != want || got.Attempts != n || len(attempts) != n {
				t.Errorf("%s after %d attempts, %v; returned %d", got.State, got.Attempts, err, len(attempts))
			}
			if n == 1 && attempts[0].Durable != test.durable {
				t.Errorf("durable: %v", attempts[0].Durable)
			}
		})
	}
}
