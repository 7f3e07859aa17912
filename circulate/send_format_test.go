package circulate_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// From the first send on, the format keeps out programs that do not know sends, whatever becomes of
// the number of shards. Before that, it lets them in: windows and memory do no harm there.
func TestSendsKeepOutProgramsOfBefore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		conn, err := server.Conn(ctx, "rounds:meta")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		format := func(want int) {
			t.Helper()
			if got, err := redis.Int(conn.Do("HGET", "rounds:meta", "format")); err != nil || got != want {
				t.Errorf("the format is %d, %v; want %d", got, err, want)
			}
		}
		ring, other := openRing(t, server, 2), openRing(t, server, 2)
		register(t, ring, "a")
		b, err := ring.Claim(ctx, ring.ShardOf("a"), alice, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		window := &circulate.Answerable{Peer: "anna", For: time.Hour}
		if _, err := ring.Return(ctx, ring.ShardOf("a"), []circulate.Return{{Claim: &b.Claims[0], Kind: "chat", Due: b.Now.Add(time.Hour), Messages: []circulate.Message{{ID: "1", Answerable: window}}}}); err != nil {
			t.Fatal(err)
		}
		queue := func(ring *circulate.Ring) {
			t.Helper()
			send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna", Windowed: true}
			if _, _, err := ring.Sends().Queue(ctx, send, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
		}
		format(2)
		queue(ring)
		format(1002)
		queue(other)
		format(1002)
		if err := errors.Join(ring.Check(ctx), other.Check(ctx)); err != nil {
			t.Error(err)
		}
		if _, err := ring.Mover().Begin(ctx, 3); err != nil {
			t.Fatal(err)
		}
		format(1003)
		ring = openRing(t, server, 0)
		if err := ring.Mover().Receive(ctx); err != nil {
			t.Fatal(err)
		}
		for source := range ring.Sources() {
			for left := 1; left > 0; {
				if _, left, err = ring.Mover().Move(ctx, source); err != nil {
					t.Fatal(err)
				}
			}
		}
		forgetAge(t, server, ring)
		if err := ring.Mover().ConfirmCopies(ctx); err != nil {
			t.Fatal(err)
		}
		if done, err := ring.Mover().FinishMove(ctx); !done || err != nil {
			t.Fatal(done, err)
		}
		format(1003)
		if done, err := ring.Mover().Drained(ctx, true); !done || err != nil {
			t.Fatal(done, err)
		}
		format(1003)
		queue(openRing(t, server, 3))
		if _, err := conn.Do("HSET", "rounds:meta", "format", 1004); err != nil {
			t.Fatal(err)
		}
		if err := ring.Check(ctx); !errors.Is(err, circulate.ErrMismatch) {
			t.Error(fmt.Errorf("a format of a later version: %w", err))
		}
	})
}

// A backup with sends keeps such programs out as well, before it has restored the first.
func TestRestoredSendsKeepOutProgramsOfBefore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		ring := openRing(t, server, 1)
		register(t, ring, "a")
		send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna"}
		if _, _, err := ring.Sends().Queue(ctx, send, "", circulate.SendBounds{}); err != nil {
			t.Fatal(err)
		}
		saved := []circulate.Archived{{ID: "a"}}
		if err := ring.Archive().Sends(ctx, 0, saved); err != nil {
			t.Fatal(err)
		}
		conn, err := server.Conn(ctx, "rounds:meta")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Do("HSET", "rounds:meta", "format", 2); err != nil {
			t.Fatal(err)
		}
		if err := openRing(t, server, 1).Archive().LoadSends(ctx, 0, saved); err != nil {
			t.Fatal(err)
		}
		if got, err := redis.Int(conn.Do("HGET", "rounds:meta", "format")); err != nil || got != 1002 {
			t.Errorf("the format is %d, %v", got, err)
		}
	})
}
