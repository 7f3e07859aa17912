package circulate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// An operator who changes the number of shards learns how much memory that takes, if
// Redis has a limit and reports it.
func TestRoomForAChangeOfTheNumberOfShards(t *testing.T) {
	t.Parallel()
	embedded := openRing(t, redistest.Embedded(t), 2)
	if rooms, err := embedded.Mover().Room(t.Context(), 3); rooms != nil || err != nil {
		t.Errorf("a server that tells nothing: %v, %v", rooms, err)
	}

	process := redistest.Start(t)
	ring := openRing(t, redistest.Connect(t, process), 2)
	for i := range 50 {
		id := fmt.Sprint("a", i)
		if _, err := ring.Register(t.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: make([]byte, 10_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	if rooms, err := ring.Mover().Room(t.Context(), 3); len(rooms) != 0 || err != nil {
		t.Errorf("without a limit: %v, %v", rooms, err)
	}
	if _, limited, err := ring.Mover().FreeMemory(t.Context(), 0); limited || err != nil {
		t.Errorf("without a limit: limited %t, %v", limited, err)
	}
	process.LimitMemory(t, "64mb")
	rooms, err := ring.Mover().Room(t.Context(), 3)
	if err != nil || len(rooms) != 1 {
		t.Fatal(rooms, err)
	}
	// No account comes from another server, so only moving itself takes memory.
	if room := rooms[0]; room.Need < circulate.CopiesLeast+100_000 || room.Need > circulate.CopiesLeast+500_000 || room.Free < 1<<20 || room.Free > 64<<20 {
		t.Errorf("%+v", room)
	}
	// So do sends, windows and what accounts remember.
	before := rooms[0].Need
	grown := func(what string, by int64) {
		t.Helper()
		rooms, err := ring.Mover().Room(t.Context(), 3)
		if err != nil || len(rooms) != 1 || rooms[0].Need < before+by*3/10 || rooms[0].Need > before+by {
			t.Errorf("with %s: %+v, %v; %d bytes more than %d", what, rooms, err, by, before)
		}
		if len(rooms) == 1 {
			before = rooms[0].Need
		}
	}
	for i := range 50 {
		account := fmt.Sprint("a", i)
		send := circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: "chat", Peer: "anna", Data: fmt.Appendf(nil, "%010000d", i)}
		if _, _, err := ring.Sends().Queue(t.Context(), send, "", circulate.SendBounds{}); err != nil {
			t.Fatal(err)
		}
	}
	grown("sends", 50*11_000)
	for shard := range 2 {
		b, err := ring.Claim(t.Context(), shard, alice, 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Claims {
			messages := make([]circulate.Message, 500)
			for n := range messages {
				messages[n].ID = fmt.Sprint(n)
			}
			item := circulate.Return{Claim: &b.Claims[i], Kind: "chat", Due: b.Now.Add(time.Hour), Messages: messages, Remember: circulate.Remember{Messages: 2000, For: time.Hour}}
			if outcomes, err := ring.Return(t.Context(), shard, []circulate.Return{item}); err != nil || outcomes[0] != circulate.Written {
				t.Fatal(outcomes, err)
			}
		}
	}
	grown("memory", 50*500*8)
	if free, limited, err := ring.Mover().FreeMemory(t.Context(), 1); !limited || err != nil || free > 64<<20 {
		t.Errorf("%d bytes are free, limited %t, %v", free, limited, err)
	}
}

// One call confirms the copies that a ring knows, and a change that is not possible is
// refused before anything was changed.
func TestCopiesAreConfirmedAndOtherChangesRefused(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.Embedded(t)
	ring := openRing(t, server, 2)
	for _, to := range []int{-1, 0, circulate.MaxShards + 1} {
		if _, err := ring.Mover().Begin(ctx, to); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("must be 1 to %d, is %d", circulate.MaxShards, to)) {
			t.Errorf("to %d: %v", to, err)
		}
	}
	if now, err := ring.Mover().Begin(ctx, 2); err != nil || now.Phase != circulate.Steady {
		t.Errorf("to what it is: %+v, %v", now, err)
	}
	register(t, ring, "a", "b", "c", "d", "e")
	if _, err := ring.Mover().Begin(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if now, err := ring.Mover().Begin(ctx, 3); err != nil || now.Phase != circulate.Moving {
		t.Errorf("once more: %+v, %v", now, err)
	}
	if now, err := ring.Mover().Begin(ctx, 4); !errors.Is(err, circulate.ErrReshardingOther) || now.To != 3 {
		t.Errorf("to another number: %+v, %v", now, err)
	}
	ring = openRing(t, server, 0)
	if err := ring.Mover().Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for source := range ring.Sources() {
		for left := 1; left > 0; {
			var err error
			if _, left, err = ring.Mover().Move(ctx, source); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ring.Mover().Copies() == 0 {
		t.Fatal("no copies are known of what has moved")
	}
	if err := ring.Mover().ConfirmCopies(ctx); err != nil || ring.Mover().Copies() == 0 {
		t.Errorf("%d bytes of copies are left before their time, %v", ring.Mover().Copies(), err)
	}
	forgetAge(t, server, ring)
	if err := ring.Mover().ConfirmCopies(ctx); err != nil || ring.Mover().Copies() != 0 {
		t.Errorf("%d bytes of copies are left, %v", ring.Mover().Copies(), err)
	}
	if now, err := ring.Mover().State(ctx); err != nil || now.From != 2 || now.To != 3 {
		t.Errorf("%+v, %v", now, err)
	}
}

// The error for a namespace with another number of shards than the settings names both
// numbers.
func TestOtherNumberOfShardsIsNamed(t *testing.T) {
	server := redistest.Embedded(t)
	openRing(t, server, 2)
	_, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 3})
	var shards *circulate.ShardsError
	if !errors.Is(err, circulate.ErrMismatch) || !errors.As(err, &shards) || shards.Has != 2 || shards.Want != 3 ||
		!strings.HasSuffix(err.Error(), `namespace "rounds" has 2 shards, the settings say 3`) {
		t.Errorf("got %v", err)
	}
}
