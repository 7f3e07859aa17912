package accounts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A change of the number of shards does not begin where Redis has no room for it.
func TestReshardNeedsRoom(t *testing.T) {
	ctx, server := t.Context(), redistest.Connect(t, redistest.Start(t))
	r, ring := newRegistry(t, server, 2)
	fillBulk(t, r, 3000)
	limit := func(left int64) {
		t.Helper()
		conn, err := server.Conn(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stats, err := redis.Values(conn.Do("MEMORY", "STATS"))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(stats); i += 2 {
			if name, _ := redis.String(stats[i], nil); name == "total.allocated" {
				used, _ := redis.Int64(stats[i+1], nil)
				left += used
			}
		}
		if _, err := conn.Do("CONFIG", "SET", "maxmemory", left); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := r.Reshard(ctx, 3, time.Second, ReshardOptions{Dry: true}); err != nil || len(done.Room) != 0 || done.Left != 3000 {
		t.Errorf("without a limit: %+v, %v", done, err)
	}
	limit(100_000)
	done, err := r.Reshard(ctx, 3, time.Second, ReshardOptions{Dry: true})
	if err != nil || len(done.Room) != 1 || done.Room[0].Need <= circulate.CopiesLeast || done.Room[0].Free >= done.Room[0].Need {
		t.Errorf("dry: %+v, %v", done, err)
	}
	_, err = r.Reshard(ctx, 3, time.Second, ReshardOptions{})
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "raise maxmemory") {
		t.Errorf("begun with little room: %v", err)
	}
	if now, err := ring.Mover().State(ctx); err != nil || now.Phase != circulate.Steady {
		t.Errorf("%+v, %v", now, err)
	}
	limit(64 << 20)
	if done, err := r.Reshard(ctx, 3, time.Second, ReshardOptions{Dry: true}); err != nil || len(done.Room) != 1 || done.Room[0].Free < done.Room[0].Need {
		t.Errorf("with room: %+v, %v", done, err)
	}
	limit(0)
	if now, err := r.Reshard(ctx, 3, time.Second, ReshardOptions{Force: true}); err != nil || now.Phase != circulate.Moving {
		t.Errorf("forced: %+v, %v", now, err)
	}
	if now, err := r.Reshard(ctx, 3, time.Second, ReshardOptions{}); err != nil || now.Phase != circulate.Moving {
		t.Errorf("asked again: %+v, %v", now, err)
	}
}
