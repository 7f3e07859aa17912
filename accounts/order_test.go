package accounts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

type orderKind struct{}

func (orderKind) Validate(string, json.RawMessage) error { return nil }

// inOrderOf lists accounts in an order, a page of three at a time.
func inOrderOf(t *testing.T, r *Registry, q Query) (views []View) {
	t.Helper()
	q.Limit = 3
	for range 1000 {
		page, err := r.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, page.Views...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return views
		}
	}
	t.Fatal("the list has no end")
	return nil
}

// Each order has each account of it once, with a filter and without.
func TestOrders(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		r := NewRegistry(ring, nil).Indexed(NewIDIndex(ring))
		writer := NewRegistry(ring, orderKind{})
		for i := range 60 {
			one := Account{ID: fmt.Sprintf("%c-%02d", "aB"[i%2], i), Kind: "plain", Cadence: "every 5m", Labels: map[string]string{"team": fmt.Sprint(i % 3)}}
			if _, err := writer.Create(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		now, err := ring.Now(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for shard := range ring.Shards() {
			claims, err := ring.Claim(t.Context(), shard, "replica001", 100, 0)
			if err != nil {
				t.Fatal(err)
			}
			var returns []circulate.Return
			for i, c := range claims.Claims {
				back := circulate.Return{Claim: &c, Mark: circulate.MarkOK, Due: now.Add(time.Duration(1+i%5) * time.Hour)}
				if i%3 == 0 {
					back.Mark, back.Failures, back.Error = 't', 1+i%4, "http_503: busy"
				}
				returns = append(returns, back)
			}
			if _, err := ring.Return(t.Context(), shard, returns); err != nil {
				t.Fatal(err)
			}
		}
		if err := ring.Account("a-00").Park(t.Context(), circulate.ReasonPaused); err != nil {
			t.Fatal(err)
		}
		if page, err := r.List(t.Context(), Query{Order: BySuccess, Limit: 3}); err != nil || len(page.Views) > 0 || page.Next == "" {
			t.Fatalf("before anything was read: %+v, %v", page, err)
		}
		for shard := range ring.Shards() {
			if err := r.ids.read(t.Context(), shard); err != nil {
				t.Fatal(err)
			}
		}
		for order, by := range map[Order]func(v *View) int64{
			BySuccess:  func(v *View) int64 { return v.State.Succeeded.Unix() },
			ByFailures: func(v *View) int64 { return -int64(v.State.Failures) },
			ByDue:      func(v *View) int64 { return v.State.Due.UnixMilli() },
		} {
			for _, s := range []Selector{{}, {Labels: map[string]string{"team": "1"}}, {Parts: []string{"b-"}}} {
				var want []View
				for _, v := range inOrderOf(t, r, Query{Selector: s}) {
					if (order != ByDue || v.State.Place == circulate.Scheduled) && (order != ByFailures || v.State.Failures > 0) {
						want = append(want, v)
					}
				}
				got := inOrderOf(t, r, Query{Selector: s, Order: order})
				ids := func(views []View) (ids []string) {
					for i := range views {
						ids = append(ids, views[i].ID)
					}
					return ids
				}
				if len(want) == 0 || !slices.Equal(slices.Sorted(slices.Values(ids(got))), slices.Sorted(slices.Values(ids(want)))) {
					t.Errorf("%s %+v: %q, want %q", order, s, ids(got), ids(want))
				}
				// An account that never succeeded shows no time, so that only the others are compared.
				got = slices.DeleteFunc(got, func(v View) bool { return order == BySuccess && v.State.Succeeded.IsZero() })
				if !slices.IsSortedFunc(got, func(a, b View) int { return cmp.Or(cmp.Compare(by(&a), by(&b)), strings.Compare(a.ID, b.ID)) }) {
					t.Errorf("%s %+v: %q are not in order", order, s, ids(got))
				}
			}
		}
	})
}

// An order in which the selected accounts cannot be is refused, and so is another order's cursor.
func TestOrdersThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		order Order
		s     Selector
		ok    bool
	}{
		{"", Selector{IDs: []string{"a"}}, true},
		{"kind", Selector{}, false},
		{ByFailures, Selector{IDs: []string{"a"}}, false},
		{ByDue, Selector{States: []string{StatePaused, "parked"}}, false},
		{ByDue, Selector{Reasons: []string{"auth"}}, false},
		{ByDue, Selector{States: []string{StatePaused, StateLate}}, true},
		{BySuccess, Selector{States: []string{StatePaused}}, true},
	} {
		if err := c.order.Validate(&c.s); (err == nil) != c.ok {
			t.Errorf("%q %+v: %v", c.order, c.s, err)
		}
	}
	at := orderCursor{order: ByDue, place: place{1_700_000_000_000, "a"}, read: 7}
	if got, err := parseOrderCursor(at.String(4), ByDue, 4); err != nil || got != at {
		t.Errorf("%+v, %v", got, err)
	}
	for text, order := range map[string]Order{at.String(4): BySuccess, at.String(5): ByDue, SealCursor(CursorOrder, nil): ByDue, SealCursor(CursorOrder, []byte{4, 'd'}): ByDue, SealCursor(CursorList, []byte{4, 'd', 0, 0}): ByDue} {
		if _, err := parseOrderCursor(text, order, 4); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
