package circulate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestVitalStepsNeedNoOrdinaryConnection occupies every connection that an ordinary call,
// a group or a blocking read may have. Heartbeats, claims, returns and requeues must
// still work, while an ordinary call waits.
func TestVitalStepsNeedNoOrdinaryConnection(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		divided := server.(connect.Server)
		ring := openRing(t, server, 1)
		register(t, ring, "a", "b", "c", "d")
		keep(t, divided.Conn, 64) // by default
		keep(t, divided.GroupConn, 32)
		keep(t, divided.BlockingConn, 64)
		// This is long enough for any step, but the ordinary call ends at it in any case.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := ring.Heartbeat(ctx, alice, nil, time.Minute); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
		batch, err := ring.Claim(ctx, 0, alice, 4, 0)
		if err != nil || len(batch.Claims) != 4 {
			t.Fatalf("claim: %v, %v", batch.Claims, err)
		}
		if _, err := ring.Return(ctx, 0, []circulate.Return{{Claim: &batch.Claims[0], Due: time.Now().Add(time.Hour)}}); err != nil {
			t.Errorf("return: %v", err)
		}
		if err := ring.Progress(ctx, &batch.Claims[1], circulate.Page{Cursor: []byte("1")}); err != nil {
			t.Errorf("progress: %v", err)
		}
		if n, err := ring.Release(ctx, 0, []*circulate.Claim{&batch.Claims[2]}); err != nil || n != 1 {
			t.Errorf("release: %d, %v", n, err)
		}
		held, _, err := ring.Oldest(ctx, 0, 0, 1)
		if err != nil || len(held) != 1 {
			t.Fatalf("oldest: %v, %v", held, err)
		}
		if outcome, _, err := ring.Requeue(ctx, 0, held[0]); err != nil || outcome != circulate.Moved {
			t.Errorf("requeue: %v, %v", outcome, err)
		}
		lease := group.Lease{Shard: 0, Group: "g", Consumer: alice, TTL: time.Minute}
		if _, err := group.Of(ring).Renew(ctx, &lease); !errors.Is(err, group.ErrLeaseLost) {
			t.Errorf("renew: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := ring.Check(short); err == nil {
			t.Error("an ordinary call has had a connection of those that are kept for others")
		}
	})
}

// keep lends n connections and returns them when the test ends.
func keep(t *testing.T, lend func(context.Context, string) (redis.Conn, error), n int) {
	t.Helper()
	for range n {
		conn, err := lend(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}
