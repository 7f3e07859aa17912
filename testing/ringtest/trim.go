package ringtest

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

func trimToANumber(f *fixture) {
	ctx := context.Background()
	trim := func(most, dropped, left int, held bool) {
		f.Helper()
		n, h, err := f.ring.Streams().TrimTo(ctx, 0, most)
		if err != nil || n != dropped || h != held {
			f.Errorf("to %d: dropped %d, held back %v, %v; want %d and %v", most, n, h, err, dropped, held)
		}
		if got := f.number("XLEN", f.key("messages")); got != left {
			f.Errorf("to %d: %d are left, want %d", most, got, left)
		}
	}
	trim(0, 0, 0, false) // there is no stream
	add := func(n int) []string {
		names := make([]string, n)
		for i := range names {
			names[i] = "a/x"
		}
		return f.add(names...)
	}
	add(1300)
	trim(2000, 0, 1300, false)
	trim(1300, 0, 1300, false)
	trim(200, 1100, 200, false) // more than one step drops
	f.group(circulate.StreamStart)
	trim(10, 0, 200, true) // nothing is read
	l := f.lease(alice)
	batch, err := group.Of(f.ring).Read(ctx, l, 150, 1<<20, false)
	if err != nil || len(batch.Messages) != 150 {
		f.Fatalf("read %d, %v", len(batch.Messages), err)
	}
	trim(10, 0, 200, true) // nothing is acknowledged
	acknowledge := func(found []circulate.Found) {
		f.Helper()
		var positions []string
		for _, m := range found {
			positions = append(positions, m.Position)
		}
		if n, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, positions); n != len(found) || err != nil {
			f.Fatalf("acknowledged %d, %v", n, err)
		}
	}
	acknowledge(batch.Messages[:100])
	trim(150, 50, 150, false)
	trim(10, 50, 100, true) // up to what is pending
	acknowledge(batch.Messages[101:])
	trim(10, 0, 100, true) // one that is pending before others
	acknowledge(batch.Messages[100:101])
	trim(10, 50, 50, true) // up to what is not read
	ensure := func(name, after string) {
		f.Helper()
		if _, err := f.ring.Streams().EnsureGroup(ctx, 0, name, after); err != nil {
			f.Fatal(err)
		}
	}
	remove := func(name string) {
		f.Helper()
		if removed, err := group.Of(f.ring).Remove(ctx, name); !removed || err != nil {
			f.Fatal(removed, err)
		}
	}
	// The slower group counts, whichever Redis lists first. The embedded one lists them in any
	// order, and so it is asked again and again.
	for i := range 7 {
		ensure(fmt.Sprint("faster", i), circulate.StreamEnd)
	}
	for range 4 {
		trim(10, 0, 50, true)
	}
	remove(crew)
	ensure("slower", circulate.StreamStart)
	for range 4 {
		trim(10, 0, 50, true)
	}
	remove("slower")
	trim(10, 40, 10, false)
	trim(0, 10, 0, false)
	if _, _, err := f.ring.Streams().TrimTo(ctx, 0, -1); err == nil {
		f.Error("fewer than none is taken")
	}
}
