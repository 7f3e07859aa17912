package circulate_test

import (
	"fmt"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A Redis at its memory limit must not stop accounts on their way, nor stop any from
// being moved: moving frees the memory of the old place.
func TestReshardOnAFullRedis(t *testing.T) {
	ctx, process := t.Context(), redistest.Start(t)
	server := redistest.Connect(t, process)
	open := func(shards int) *circulate.Ring {
		t.Helper()
		ring, err := circulate.Open(ctx, server, circulate.Options{Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	const accounts = 700
	old := open(2)
	for i := range accounts {
		id := fmt.Sprintf("account-%03d", i)
		if _, err := old.Register(ctx, old.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte(id)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := old.Streams().EnsureGroup(ctx, 0, "readers", circulate.StreamStart); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Mover().Begin(ctx, 3); err != nil {
		t.Fatal(err)
	}
	ring := open(0)
	lawful := func(r *circulate.Ring) {
		t.Helper()
		audited, err := r.Audit(ctx, circulate.AuditOptions{Records: true})
		if err != nil || len(audited.Findings) > 0 || audited.Accounts != accounts {
			t.Fatalf("%+v, %v", audited, err)
		}
	}

	process.LimitMemory(t, "1")
	if err := ring.Mover().Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for _, source := range ring.Mover().Sequence() {
		for left := 1; left > 0; {
			var err error
			if _, left, err = ring.Mover().Move(ctx, source); err != nil {
				t.Fatal(err)
			}
		}
	}
	lawful(ring)
	forgetAge(t, server, ring)
	for source := range ring.Sources() {
		if err := ring.Mover().Confirm(ctx, source); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := ring.Mover().FinishMove(ctx); err != nil || !done {
		t.Fatalf("moved: %v, %v", done, err)
	}
	if done, err := ring.Mover().Drained(ctx, true); err != nil || !done {
		t.Fatalf("drained: %v, %v", done, err)
	}
	after := open(0)
	if after.Shards() != 3 {
		t.Errorf("%d shards", after.Shards())
	}
	lawful(after)
}

// forgetAge makes everything that has arrived look old.
func forgetAge(t *testing.T, server circulate.Server, ring *circulate.Ring) {
	t.Helper()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const text = `for i, field in ipairs(redis.call('HKEYS', KEYS[1])) do
		redis.call('HDEL', KEYS[1], '')
		redis.call('HSET', KEYS[1], field, '0000000000001' .. string.sub(redis.call('HGET', KEYS[1], field), 14))
	end`
	for source := range ring.Sources() {
		if _, err := conn.Do("EVAL", text, 1, ring.Tag(source)+":departed"); err != nil {
			t.Fatal(err)
		}
	}
}
