package circulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestLookBrief(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		brief := func(ids ...string) string {
			t.Helper()
			all, now, err := ring.LookBrief(ctx, 0, ids)
			if err != nil || time.Since(now).Abs() > time.Hour {
				t.Fatalf("%v, %v", now, err)
			}
			text := ""
			for _, g := range all {
				text += fmt.Sprintf("%s %s %t %q;", g.ID, g.Record, g.Parked, g.Reason)
			}
			return text
		}
		if got := brief("a"); got != "" {
			t.Errorf("an empty ring: %s", got)
		}
		if _, err := ring.Register(ctx, 0, []circulate.Registration{{ID: "a", Record: []byte("1")}, {ID: "b", Record: []byte("2")}}); err != nil {
			t.Fatal(err)
		}
		if got, want := brief("b", "none", "a"), `b 2 false "";a 1 false "";`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := ring.Park(ctx, 0, "auth: 401", []string{"a"}); err != nil {
			t.Fatal(err)
		}
		if got, want := brief("a", "b"), `a 1 true "auth: 401";b 2 false "";`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for _, ids := range [][]string{nil, make([]string, circulate.MaxBatch+1)} {
			if _, _, err := ring.LookBrief(ctx, 0, ids); err == nil || circulate.Unknown(err) {
				t.Errorf("%d ids: %v", len(ids), err)
			}
		}
	})
}
