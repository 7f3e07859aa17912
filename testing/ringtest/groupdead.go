package ringtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

func deadLetters(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	if _, err := f.ring.Streams().EnsureGroup(ctx, 0, "audit", circulate.StreamStart); err != nil {
		f.Fatal(err)
	}
	l := f.lease(alice)
	positions := f.add("a/1", "a/2", "a/3")
	f.read(l, "a/1", "a/2", "a/3")
	for i, want := range []bool{true, true, false} { // the last one again
		p := group.Pending{Position: positions[min(i, 1)], Deliveries: 8}
		if buried, err := group.Of(f.ring).Bury(ctx, l, p, "bad "+strings.Repeat("é", 1000)); buried != want || err != nil {
			f.Errorf("bury %d: %v, %v", i, buried, err)
		}
	}
	f.pending(l, 1)
	letters, err := group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(letters) != 2 {
		f.Fatalf("%d dead letters, %v", len(letters), err)
	}
	d := letters[0]
	if d.Account != "a" || d.Message.ID != "1" || string(d.Message.Data) != `{"n":1}` || d.Group != crew || d.Deliveries != 8 ||
		d.Origin != positions[0] || !strings.HasPrefix(d.Error, "bad éé") || len(d.Error) > 1024 {
		f.Errorf("dead letter %+v", d)
	}
	if n, err := group.Of(f.ring).DropDead(ctx, 0, letters[1].Position, letters[1].Position); n != 1 || err != nil {
		f.Errorf("dropped %d, %v", n, err)
	}
	position, err := group.Of(f.ring).ReplayDead(ctx, 0, d.Position)
	if err != nil || position == "" {
		f.Fatalf("replayed to %q, %v", position, err)
	}
	if again, err := group.Of(f.ring).ReplayDead(ctx, 0, d.Position); again != "" || err != nil {
		f.Errorf("replayed twice: %q, %v", again, err)
	}
	f.read(l, "a/1")
	f.pending(l, 1, 1)
	audit, _, err := group.Of(f.ring).Member("audit", bob, time.Minute).Lease(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	batch, err := group.Of(f.ring).Read(ctx, audit, 10, 1<<20, false)
	if err != nil || !slices.Equal(batch.Others, []string{position}) {
		f.Errorf("another group is told of %v, %v; want %q", batch.Others, err, position)
	}
	f.named(batch.Messages, "a/1", "a/2", "a/3")
	// A replayed letter that dies again is the same as before.
	if _, err := group.Of(f.ring).Bury(ctx, l, group.Pending{Position: position, Deliveries: 1}, "worse"); err != nil {
		f.Fatal(err)
	}
	letters, err = group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(letters) != 1 || letters[0].Error != "worse" || letters[0].Group != crew || letters[0].Origin != position {
		f.Errorf("after a replay: %+v, %v", letters, err)
	}
}
