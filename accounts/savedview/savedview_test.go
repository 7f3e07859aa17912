package savedview_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/savedview"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestViewsFaults(t *testing.T) {
	t.Parallel()
	good := savedview.View{Name: strings.Repeat("新", savedview.MaxName), Of: savedview.OfAccounts, Query: map[string][]string{"state": {"failing"}, "label": {"team=press"}, "sort": {"due"}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(v *savedview.View){
		"name":         func(v *savedview.View) { v.Name += "新" },
		"name ":        func(v *savedview.View) { v.Name = " a" },
		"name  ":       func(v *savedview.View) { v.Name = "a\nb" },
		"name   ":      func(v *savedview.View) { v.Name = "\xff" },
		"of":           func(v *savedview.View) { v.Of = "sends" },
		"query":        func(v *savedview.View) { v.Query = nil },
		"query ":       func(v *savedview.View) { v.Query = map[string][]string{"token": {"a"}} },
		"query.state":  func(v *savedview.View) { v.Query = map[string][]string{"state": {"odd"}} },
		"query.since":  func(v *savedview.View) { v.Query = map[string][]string{"since": {"soon"}} },
		"query.host":   func(v *savedview.View) { v.Query = map[string][]string{"host": {""}} },
		"query.host ":  func(v *savedview.View) { v.Query = map[string][]string{"host": {strings.Repeat("a", 1025)}} },
		"query.host  ": func(v *savedview.View) { v.Query = map[string][]string{"host": make([]string, 101)} },
		"query.kind":   func(v *savedview.View) { v.Query = map[string][]string{"kind": {}} },
	} {
		v := good
		change(&v)
		var faults accounts.Faults
		if err := v.Validate(); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != strings.TrimSpace(want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if messages := (savedview.View{Name: "m", Of: savedview.OfMessages, Query: map[string][]string{"text": {"refund"}}}); messages.Validate() != nil {
		t.Error(messages.Validate())
	}
}

func TestSavedViews(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "ns", Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		views, ctx := savedview.Of(ring), t.Context()
		for _, name := range []string{"b", "a", "a"} {
			v, err := views.Put(ctx, savedview.View{Name: name, Of: savedview.OfAccounts, Query: map[string][]string{"kind": {"feed"}}, By: "eve"})
			if err != nil || v.At.IsZero() {
				t.Fatalf("%+v, %v", v, err)
			}
		}
		all, err := views.All(ctx)
		if err != nil || len(all) != 2 || all[0].Name != "a" || all[0].By != "eve" || all[0].Query["kind"][0] != "feed" {
			t.Fatalf("%+v, %v", all, err)
		}
		if there, err := views.Remove(ctx, "a"); err != nil || !there {
			t.Error(there, err)
		}
		long := savedview.View{Name: "long", Of: savedview.OfAccounts, Query: map[string][]string{"id": nil}}
		for i := range 60 {
			long.Query["id"] = append(long.Query["id"], fmt.Sprintf("%d%s", i, strings.Repeat("i", 200)))
		}
		var faults accounts.Faults
		if _, err := views.Put(ctx, long); !errors.As(err, &faults) || faults[0].Field != "query" {
			t.Error(err)
		}
		for i := range savedview.Most {
			if _, err = views.Put(ctx, savedview.View{Name: fmt.Sprint(i), Of: savedview.OfMessages, Query: map[string][]string{"kind": {"feed"}}}); err != nil {
				break
			}
		}
		if !errors.Is(err, savedview.ErrFull) {
			t.Error("more than there may be", err)
		}
	})
}
