package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// passed takes a walk to its end, n messages at a time, and returns the refs of those that its
// filter selects, and its last position.
func passed(t *testing.T, w *Walk, n int) (refs []string, end Position) {
	t.Helper()
	for {
		found, err := w.Next(context.Background(), n)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			return refs, w.Position()
		}
		for i := range found {
			selected, err := w.Pass(&found[i])
			if err != nil {
				t.Fatal(err)
			}
			if selected {
				refs = append(refs, ref(&found[i]))
			}
		}
	}
}

// A walk in either direction meets each message once, the order of a shard is exact, and both
// directions from one position divide all messages between them.
func TestWalksOfBothDirectionsMeetAllMessages(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		for i := range 6 {
			id := fmt.Sprint("id-", i)
			if _, err := r.Create(ctx, accounts.Account{ID: id, Kind: "plain", Cadence: "every 0"}); err != nil {
				t.Fatal(err)
			}
			var found []circulate.Message
			for j := range 12 {
				found = append(found, circulate.Message{ID: fmt.Sprint(j), Type: []string{"note", "text"}[j%2]})
			}
			find(t, ring, id, found...)
			if _, err := r.Pause(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		start, now := r.atStart(), position(t, r, FromNow)
		for filter, want := range map[Filter]int{
			{}:                               72,
			{Account: "id-3"}:                12,
			{Account: "id-3", Type: "text"}:  6,
			{Kind: "plain", Type: "note"}:    36,
			{Kind: "feed"}:                   0,
			{Account: "id-3", Kind: "other"}: 0,
			{Account: "nobody"}:              0,
		} {
			up, err := r.Forward(start, filter)
			if err != nil {
				t.Fatal(err)
			}
			down, err := r.Backward(now, filter)
			if err != nil {
				t.Fatal(err)
			}
			forward, _ := passed(t, up, 7)
			back, _ := passed(t, down, 5)
			if len(forward) != want {
				t.Errorf("%+v: %d messages, want %d", filter, len(forward), want)
			}
			for _, refs := range [][]string{slices.Clone(forward), slices.Clone(back)} {
				slices.Sort(refs)
				if len(slices.Compact(refs)) != want {
					t.Errorf("%+v: a message is there twice: %v", filter, refs)
				}
			}
			slices.Reverse(back)
			for shard := range 4 {
				of := func(refs []string) (all []string) {
					for _, ref := range refs {
						if at, _, err := ParseRef(ref); err == nil && at == shard {
							all = append(all, ref)
						}
					}
					return all
				}
				if !slices.Equal(of(forward), of(back)) {
					t.Errorf("%+v, shard %d: %v forward, %v back", filter, shard, of(forward), of(back))
				}
			}
		}

		// A position in the middle divides them.
		some, err := r.Backward(now, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		page, err := some.Next(ctx, 20)
		if err != nil || len(page) == 0 {
			t.Fatal(page, err)
		}
		for i := range page {
			if _, err := some.Pass(&page[i]); err != nil {
				t.Fatal(err)
			}
		}
		again, err := parsePosition(func() string { p := some.Position(); return p.String() }())
		if err != nil {
			t.Fatal(err)
		}
		newer, err := r.Forward(again, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		older, err := r.Backward(again, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		after, _ := passed(t, newer, 10)
		before, end := passed(t, older, 10)
		if len(after) != len(page) || len(before) != 72-len(page) {
			t.Errorf("%d behind and %d in front of a page of %d", len(after), len(before), len(page))
		}
		if rest, err := r.Backward(end, Filter{}); err != nil {
			t.Error(err)
		} else if refs, _ := passed(t, rest, 10); len(refs) != 0 {
			t.Errorf("older than all: %v", refs)
		}
		if _, err := r.Backward(Position{at: make([]circulate.StreamID, 3)}, Filter{}); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("of another number of shards: %v", err)
		}
	})
}

func position(t *testing.T, r *world, from string) Position {
	t.Helper()
	p, err := r.Position(context.Background(), from)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
