package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// park registers an account and parks it for a reason.
func park(t *testing.T, r *Registry, ring *circulate.Ring, id, kind, reason string) {
	t.Helper()
	ctx := context.Background()
	if _, err := r.Create(ctx, Account{ID: id, Kind: kind, Config: []byte(`{"url":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Park(ctx, ring.ShardOf(id), reason, []string{id}); err != nil {
		t.Fatal(err)
	}
}

func TestParked(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		var all, auth, web []string
		for i := range 60 {
			id, kind, reason := fmt.Sprintf("id/%02d", i), "plain", "gone: x"
			if i%3 == 0 {
				kind = "web"
			}
			if i%4 == 0 {
				reason = "auth: refused"
				auth = append(auth, id)
				if kind == "web" {
					web = append(web, id)
				}
			}
			all = append(all, id)
			park(t, r, ring, id, kind, reason)
		}
		if _, err := r.Create(ctx, Account{ID: "circulates", Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
		walk := func(q ParkedQuery) []string {
			t.Helper()
			var ids []string
			for pages := 0; ; pages++ {
				page, err := r.Parked(ctx, q)
				if err != nil || len(page.Accounts) > q.Limit || pages > 200 {
					t.Fatalf("%d on page %d: %v", len(page.Accounts), pages, err)
				}
				for _, a := range page.Accounts {
					if a.State.Place != circulate.Parked || a.State.Since.IsZero() || !strings.HasPrefix(a.State.Reason, q.Reason) || a.Kind == "" {
						t.Errorf("%+v", a)
					}
					ids = append(ids, a.ID)
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					slices.Sort(ids)
					return ids
				}
			}
		}
		for _, limit := range []int{1, 7, 1000} {
			if got := walk(ParkedQuery{Limit: limit}); !slices.Equal(got, all) {
				t.Errorf("pages of %d: %v", limit, got)
			}
			if got := walk(ParkedQuery{Limit: limit, Reason: "auth"}); !slices.Equal(got, auth) {
				t.Errorf("by reason: %v", got)
			}
			if got := walk(ParkedQuery{Limit: limit, Reason: "auth", Kind: "web"}); !slices.Equal(got, web) {
				t.Errorf("by reason and kind: %v", got)
			}
			if got := walk(ParkedQuery{Limit: limit, Reason: "none"}); got != nil {
				t.Errorf("none: %v", got)
			}
		}
		for _, cursor := range []string{"x", listCursor{shard: 1}.String(4), SealCursor(CursorParked, parkedPlace{}.append(nil, 5)), SealCursor(CursorParked, parkedPlace{shard: 4}.append(nil, 4)), SealCursor(CursorParked, []byte{4})} {
			if _, err := r.Parked(ctx, ParkedQuery{Cursor: cursor}); !errors.Is(err, ErrCursor) {
				t.Errorf("cursor %q: %v", cursor, err)
			}
		}
		var faults Faults
		if _, err := r.Parked(ctx, ParkedQuery{Limit: 1001}); !errors.As(err, &faults) || faults[0].Field != "limit" {
			t.Errorf("limit 1001: %v", err)
		}
	})
}

// The list shows the last error of a parked account. It also shows an account whose record
// cannot be read.
func TestParkedTells(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 1)
	if _, err := ring.Register(ctx, 0, []circulate.Registration{{ID: "a", Record: []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	returnClaim(t, ring, circulate.Return{Claim: claimAll(t, ring)["a"], Park: "config: broken", Failures: 4, Mark: 'c', Error: "broken"})
	page, err := r.Parked(ctx, ParkedQuery{})
	if err != nil || len(page.Accounts) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	a := page.Accounts[0]
	if a.ID != "a" || a.Fault == "" || a.State.Reason != "config: broken" || a.State.Failures != 4 || a.State.Error != "broken" || time.Since(a.State.ErrorAt) > time.Minute {
		t.Errorf("%+v", a)
	}
}
