package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A list of 250 sends over several shards has one order, and its pages neither repeat nor skip any.
func TestSendsAreListedInOneOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 8)
		const many = 250
		var want []string
		for i := range many {
			id := fmt.Sprintf("a%d", i%16)
			if i < 16 {
				if _, err := r.Create(ctx, Account{ID: id, Kind: "plain"}); err != nil {
					t.Fatal(err)
				}
			}
			s, _, err := ring.Sends().Queue(ctx, circulate.Send{ID: circulate.NewSendID(id), Account: id, Kind: "plain", Peer: "anna"}, "", circulate.SendBounds{})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, s.ID)
		}
		walk := func(q SendQuery, at func(*circulate.Send) time.Time) (ids []string) {
			t.Helper()
			var before time.Time
			for pages := 0; ; pages++ {
				page, err := r.Sends(ctx, q)
				if err != nil || len(page.Sends) > q.Limit || pages > many {
					t.Fatalf("%d on page %d: %v", len(page.Sends), pages, err)
				}
				for i := range page.Sends {
					s := &page.Sends[i]
					if at(s).Before(before) {
						t.Errorf("%s of %s comes after %v", s.ID, at(s), before)
					}
					ids, before = append(ids, s.ID), at(s)
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					return ids
				}
			}
		}
		same := func(what string, got, want []string) {
			t.Helper()
			if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Errorf("%s: %d sends, want %d, each once", what, len(got), len(want))
			}
		}
		queued := func(s *circulate.Send) time.Time { return s.Queued }
		since := func(s *circulate.Send) time.Time { return s.Since }
		for _, limit := range []int{30, 100, 1000} {
			same(fmt.Sprint("pages of ", limit), walk(SendQuery{Limit: limit}, queued), want)
			same(fmt.Sprint("queued ones, pages of ", limit), walk(SendQuery{Limit: limit, States: []circulate.SendState{circulate.SendQueued}}, queued), want)
		}
		for _, id := range want[100:] {
			if _, err := r.CancelSend(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		canceled := []circulate.SendState{circulate.SendCanceled, circulate.SendExpired}
		same("canceled ones", walk(SendQuery{Limit: 40, States: canceled}, since), want[100:])
		one := walk(SendQuery{Limit: 3, Account: "a0"}, func(*circulate.Send) time.Time { return time.Time{} })
		if n := (many + 15) / 16; len(one) != n || !slices.Contains(want[:100], one[0]) || slices.Contains(want[:100], one[n-1]) {
			t.Errorf("of one account: %q", one)
		}
		other := SealCursor(CursorSends, []byte{2, 'x'})
		if _, err := r.Sends(ctx, SendQuery{Cursor: other}); !errors.Is(err, ErrCursor) {
			t.Errorf("another cursor: %v", err)
		}
	})
}
