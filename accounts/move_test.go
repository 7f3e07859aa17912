package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMove(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		const config = `{"url":"https://old.example/a","mine":[1, 2]}`
		a := Account{ID: "a", Kind: "plain", Config: json.RawMessage(config), Cadence: "every 9m", Labels: map[string]string{"team": "x"}}
		if _, err := r.Create(ctx, a); err != nil {
			t.Fatal(err)
		}
		for to, want := range map[string]string{"http://new.example/a": "config.url: must not move from https to http", "HTTP://new.example/a": "config.url: must not move"} {
			if err := r.Move(ctx, "a", a.Config, to); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("to %s: %v", to, err)
			}
		}
		if err := r.Move(ctx, "a", json.RawMessage(`{"url":"https://old.example/b","mine":[1,2]}`), "https://new.example/a"); !errors.Is(err, ErrChanged) {
			t.Errorf("checked with another config: %v", err)
		}
		if err := r.Move(ctx, "none", a.Config, "https://new.example/a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("of nobody: %v", err)
		}
		if err := r.Move(ctx, "a", a.Config, "https://new.example/a?x=1"); err != nil {
			t.Fatal(err)
		}
		moved, err := r.Get(ctx, "a")
		if err != nil || !sameText(moved.Config, json.RawMessage(`{"mine":[1,2],"url":"https://new.example/a?x=1"}`)) || moved.Cadence != "every 9m" || moved.Labels["team"] != "x" || moved.Revision.Number != 2 {
			t.Errorf("got %+v, %s, %v", moved, moved.Config, err)
		}
		// A second move, by a check at the old address, comes too late.
		if err := r.Move(ctx, "a", a.Config, "https://other.example/a"); !errors.Is(err, ErrChanged) {
			t.Errorf("twice: %v", err)
		}
		if _, err := r.Create(ctx, Account{ID: "b", Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
		if err := r.Move(ctx, "b", nil, "https://new.example/"); err == nil {
			t.Error("moved what has no address")
		}
		if v, err := ring.Account("a").Look(ctx); err != nil || v.Place != circulate.Scheduled && v.Place != circulate.Waiting {
			t.Errorf("%+v, %v", v, err)
		}
	})
}
