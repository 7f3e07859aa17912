package circulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Attempts of several shards are settled together, each under its own fence. A key of a wrong type in
// one of the shards is set aside, and the others do not notice.
func TestSettleInSeveralShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx, ring := t.Context(), openRing(t, server, 8)
		sends := ring.Sends()
		var all []circulate.Settlement
		byShard := make(map[int]int)
		for i := range 24 {
			id := fmt.Sprint("account", i)
			register(t, ring, id)
			shard := ring.ShardOf(id)
			byShard[shard]++
			send := circulate.Send{ID: circulate.NewSendID(id), Account: id, Kind: "chat", Peer: "anna"}
			if _, _, err := sends.Queue(ctx, send, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
			taken, _, err := sends.Attempt(ctx, shard, circulate.AttemptOrder{Replica: "replica000", Step: id, Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute})
			if err != nil || len(taken) != 1 {
				t.Fatalf("%d attempts, %v", len(taken), err)
			}
			one := circulate.Settlement{ID: send.ID, Fence: taken[0].Fence, Outcome: circulate.AttemptAccepted, VendorID: id}
			if i%5 == 0 {
				one.Fence += "another"
			}
			all = append(all, one)
		}
		if len(byShard) < 4 {
			t.Fatalf("the accounts are in %d shards", len(byShard))
		}
		spoiled := ring.ShardOf("account1")
		conn, err := server.Conn(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		windows := ring.Tag(spoiled) + ":windows"
		if _, err := conn.Do("DEL", windows); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Do("SET", windows, "spoiled"); err != nil {
			t.Fatal(err)
		}
		for try := range 2 { // it is safe to repeat
			settled, err := sends.Settle(ctx, all)
			if err != nil {
				t.Fatalf("try %d: %v", try, err)
			}
			for i, one := range all {
				state, want := circulate.SendAccepted, true
				if i%5 == 0 {
					state, want = circulate.SendAttempting, false
				}
				if s, err := sends.Look(ctx, one.ID); err != nil || s.State != state || settled[i] != want {
					t.Errorf("try %d: send %d is %s, settled: %v; %v", try, i, s.State, settled[i], err)
				}
			}
		}
	})
}
