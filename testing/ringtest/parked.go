package ringtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/rounds-dev/rounds/circulate"
)

// resumeForReason does not resume an account that is parked for another reason than the
// given one.
func resumeForReason(f *fixture) {
	ctx := context.Background()
	f.register("a", "b", "c", "d")
	for id, reason := range map[string]string{"a": "gone: x", "b": "gone: x y", "c": circulate.ReasonPaused} {
		if _, err := f.ring.Park(ctx, 0, reason, []string{id}); err != nil {
			f.Fatal(err)
		}
	}
	items := []circulate.Resumption{{ID: "none", Reason: "gone: x"}}
	for _, id := range []string{"a", "b", "c", "d"} {
		items = append(items, circulate.Resumption{ID: id, Reason: "gone: x"})
	}
	outcomes, err := f.ring.ResumeAll(ctx, 0, items)
	if err != nil || fmt.Sprintf("%c", outcomes) != "[n r o o c]" {
		f.Errorf("resumed: %c, %v", outcomes, err)
	}
	f.placed("a", circulate.Scheduled)
	f.placed("b", circulate.Parked)
	f.placed("c", circulate.Parked)
}

// parkIf does not change an account that is parked for another reason than was seen, or
// that is no longer parked.
func parkIf(f *fixture) {
	ctx := context.Background()
	f.register("a", "b", "c", "d")
	if _, err := f.ring.Park(ctx, 0, "gone: x", []string{"b", "c"}); err != nil {
		f.Fatal(err)
	}
	seen := map[string]string{"a": "", "b": "", "c": "gone: x", "d": "gone: x", "none": ""}
	if n, err := f.ring.ParkIf(ctx, 0, circulate.ReasonPaused, seen); n != 2 || err != nil {
		f.Errorf("%d were parked, %v", n, err)
	}
	for id, want := range map[string]string{"a": circulate.ReasonPaused, "b": "gone: x", "c": circulate.ReasonPaused} {
		f.placed(id, circulate.Parked)
		if got := f.text("HGET", f.key("park_reasons"), id); got != want {
			f.Errorf("%q is parked for %q, want %q", id, got, want)
		}
	}
	f.placed("d", circulate.Scheduled)
}

// parkedPages walks through parked accounts, most of which were parked at the same
// moment, in pages of every size. An account that stays parked is met once, even if
// accounts before it are resumed and others are parked.
func parkedPages(f *fixture) {
	ctx := context.Background()
	const many = 60
	var ids []string
	for i := range many {
		// Their order is by bytes, not by a language's rules.
		ids = append(ids, fmt.Sprintf("%c%02d", []rune("aBcÄzZ")[i%6], i))
	}
	f.register(ids...)
	for _, part := range [][]string{ids[:50], ids[50:51], ids[51:]} {
		if _, err := f.ring.Park(ctx, 0, "auth: "+part[0], part); err != nil {
			f.Fatal(err)
		}
	}
	for size := 1; size <= many+1; size += 6 {
		seen := make(map[string]int)
		var behind circulate.ParkedAccount
		var moved []string
		for {
			page, now, err := f.ring.ParkedPage(ctx, 0, behind, size)
			if err != nil || now.IsZero() {
				f.Fatal(now, err)
			}
			for _, a := range page {
				seen[a.ID]++
				if a.Since.Before(behind.Since) || a.Since.Equal(behind.Since) && a.ID <= behind.ID || a.Since.After(now) || a.Reason == "" {
					f.Fatalf("%+v behind %+v", a, behind)
				}
				behind = a
			}
			if len(page) < size {
				break
			}
			if err := f.ring.Account(behind.ID).Resume(ctx, circulate.Resumption{}); err != nil {
				f.Fatal(err)
			}
			moved = append(moved, behind.ID)
		}
		for _, id := range ids {
			if seen[id] != 1 {
				f.Errorf("pages of %d: %q was met %d times", size, id, seen[id])
			}
		}
		if len(moved) > 0 {
			if _, err := f.ring.Park(ctx, 0, "again", moved); err != nil {
				f.Fatal(err)
			}
		}
	}
	if _, _, err := f.ring.ParkedPage(ctx, 0, circulate.ParkedAccount{}, 0); err == nil {
		f.Error("a page of none was given")
	}
	f.conserved()
}

// turns follows an account through a lane.
func turns(f *fixture) {
	ctx := context.Background()
	f.registerIn(circulate.Normal, "a", "b", "c")
	f.registerIn(circulate.Low, "l")
	turn := func(id string) circulate.QueuePosition {
		f.Helper()
		t, err := f.ring.Account(id).QueuePosition(ctx)
		if err != nil {
			f.Fatal(err)
		}
		return t
	}
	if got := turn("b"); got != (circulate.QueuePosition{}) {
		f.Errorf("scheduled: %+v", got)
	}
	claims := f.claim(alice, "a", "b", "c", "l")
	slices.Reverse(claims) // the last released is next
	if n, err := f.ring.Release(ctx, 0, claims); n != 4 || err != nil {
		f.Fatal(n, err)
	}
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	ahead := make(map[int]bool)
	for _, id := range []string{"a", "b", "c"} {
		got := turn(id)
		if got.Lane != circulate.Normal || got.Urgent != 0 || got.Normal != 3 || got.Low != 1 || got.Since.IsZero() || got.Since.After(now) || ahead[got.Ahead] || got.Ahead > 2 {
			f.Errorf("%s: %+v", id, got)
		}
		ahead[got.Ahead] = true
	}
	if got := turn("l"); got.Lane != circulate.Low || got.Ahead != 0 {
		f.Errorf("low: %+v", got)
	}
	// An entry under an old ticket does not count as waiting.
	if _, err := f.ring.Park(ctx, 0, "gone", []string{"l"}); err != nil {
		f.Fatal(err)
	}
	if got := turn("l"); got.Lane != 0 || got.Low != 1 || !got.Since.IsZero() {
		f.Errorf("parked: %+v", got)
	}
	if got := turn("none"); got.Lane != 0 {
		f.Errorf("not registered: %+v", got)
	}
	c := &f.batch(alice, 1).Claims[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c), State: "i4000"})
	if got := turn(c.ID); got.State != "i4000" {
		f.Errorf("state: %+v", got)
	}
}
