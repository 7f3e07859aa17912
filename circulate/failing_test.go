package circulate_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// openChecked makes a ring of one shard with the accounts. Each account is then checked
// with a mark and an error. An account without a mark is not checked.
func openChecked(t *testing.T, server redistest.Redis, checked map[string]circulate.Return) *circulate.Ring {
	t.Helper()
	ctx := context.Background()
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: "ns", Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(checked)), 500)) {
		var items []circulate.Registration
		for _, id := range ids {
			items = append(items, circulate.Registration{ID: id, Record: []byte(`{"id":"` + id + `"}`)})
		}
		if _, err := ring.Register(ctx, 0, items); err != nil {
			t.Fatal(err)
		}
		batch, err := ring.Claim(ctx, 0, "alice00000", len(ids), 0)
		if err != nil || len(batch.Claims) != len(ids) {
			t.Fatalf("%d were claimed, %v", len(batch.Claims), err)
		}
		var returns []circulate.Return
		for i := range batch.Claims {
			item := checked[batch.Claims[i].ID]
			item.Claim = &batch.Claims[i]
			if item.Due.IsZero() {
				item.Due = time.Now().Add(time.Hour)
			}
			returns = append(returns, item)
		}
		if _, err := ring.Return(ctx, 0, returns); err != nil {
			t.Fatal(err)
		}
	}
	return ring
}

// scanFailing walks through all pages.
func scanFailing(t *testing.T, store circulate.Failing, n int) (found map[string]circulate.FailingAccount, looked int) {
	t.Helper()
	found = make(map[string]circulate.FailingAccount)
	for cursor := ""; cursor != circulate.ScanDone; {
		page, err := store.Scan(t.Context(), 0, cursor, n, []circulate.Mark{'m'})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Accounts {
			found[a.ID] = a
		}
		cursor, looked = page.Next, looked+page.Looked
	}
	return found, looked
}

func TestFailingAccountsAreFound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		due := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
		ring := openChecked(t, server, map[string]circulate.Return{
			"well":     {Mark: circulate.MarkOK},
			"fetching": {Mark: 'm', Error: "left over from before"},
			"new":      {},
			"fails":    {Mark: 't', Rule: 'b', Error: "http_503: Service Unavailable", Failures: 3, Due: due},
			"blocked":  {Mark: 'b', Error: "timeout: no answer"},
			"parked":   {Mark: 'g', Error: "http_410: Gone", Park: "gone: http_410: Gone", Failures: 1},
			"paused":   {Mark: 't', Error: "http_500: Oops"},
			"deleted":  {Mark: 't', Error: "http_500: Oops"},
		})
		if _, err := ring.Park(ctx, 0, circulate.ReasonPaused, []string{"paused"}); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Deregister(ctx, 0, []string{"deleted"}); err != nil {
			t.Fatal(err)
		}
		store := ring.Failing()
		found, looked := scanFailing(t, store, 100)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"blocked", "fails"}) {
			t.Errorf("found %q", got)
		}
		if erred, parked, err := store.Sizes(ctx, 0); looked != 5 || erred != 5 || parked != 2 || err != nil {
			t.Errorf("%d were looked at of %d, %d are parked, %v", looked, erred, parked, err)
		}
		a := found["fails"]
		if string(a.Record) != `{"id":"fails"}` || a.Error != "http_503: Service Unavailable" || a.Failures != 3 || a.Rule != 'b' ||
			!a.Due.Equal(due) || time.Since(a.ErrorAt).Abs() > time.Hour || !a.History.NeverSucceeded() || string(a.History.Marks) != "t" {
			t.Errorf("got %+v", a)
		}
		page, err := store.Look(ctx, 0, []string{"parked", "nobody", "well", "deleted"})
		if err != nil || len(page.Accounts) != 2 || page.Looked != 4 {
			t.Fatalf("got %+v, %v", page, err)
		}
		if p, w := page.Accounts[0], page.Accounts[1]; p.ID != "parked" || p.Error != "http_410: Gone" || !p.Due.IsZero() || w.ID != "well" || w.Error != "" || w.Due.IsZero() {
			t.Errorf("got %+v", page.Accounts)
		}
		first, err := ring.LongestParked(ctx, 0, 0)
		if err != nil || first.ID != "parked" || time.Since(first.Since).Abs() > time.Hour {
			t.Errorf("got %+v, %v", first, err)
		}
		if rest, _, err := ring.ParkedPage(ctx, 0, first, 10); err != nil || len(rest) != 1 || rest[0].ID != "paused" {
			t.Errorf("behind it: %+v, %v", rest, err)
		}
		if none, err := ring.LongestParked(ctx, 0, 2); err != nil || none.ID != "" {
			t.Errorf("got %+v, %v", none, err)
		}
		if _, err := store.Look(ctx, 0, nil); err == nil {
			t.Error("no id is accepted")
		}
		if _, err := store.Scan(ctx, 0, "", 0, nil); err == nil {
			t.Error("a page of none is accepted")
		}
	})
}

func TestManyFailingAccountsAreFound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		checked := make(map[string]circulate.Return)
		for i := range 1300 {
			checked[fmt.Sprintf("a%04d", i)] = circulate.Return{Mark: 't', Error: fmt.Sprintf("http_500: %d", i)}
		}
		ring := openChecked(t, server, checked)
		found, looked := scanFailing(t, ring.Failing(), 100)
		if len(found) != len(checked) || looked < len(checked) {
			t.Fatalf("found %d, looked at %d", len(found), looked)
		}
		for id, a := range found {
			if a.Error != checked[id].Error {
				t.Fatalf("%s: %q", id, a.Error)
			}
		}
		var ids []string
		for cursor := ""; cursor != circulate.ScanDone; {
			some, next, err := ring.Failing().IDs(t.Context(), 0, cursor, 100, func(text string) bool { return text != "http_500: 7" })
			if err != nil {
				t.Fatal(err)
			}
			ids, cursor = append(ids, some...), next
		}
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != len(checked)-1 || slices.Contains(ids, "a0007") {
			t.Errorf("%d ids", len(ids))
		}
	})
}
