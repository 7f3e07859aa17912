package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/faketime"
)

// keeper is a Kinds whose third party retains messages of "plain" accounts for two hours.
type keeper struct{ testKinds }

func (keeper) Retaining() []string { return []string{"plain"} }

func (keeper) Retention(string, json.RawMessage) time.Duration { return 2 * time.Hour }

// held has third parties that hold each call of "plain" accounts for 35 seconds.
type held struct{ testKinds }

func (held) Hold(kind string, _ json.RawMessage) time.Duration {
	return map[string]time.Duration{"plain": 35 * time.Second}[kind]
}

func (h held) HoldAt(kind string, config json.RawMessage, _ string) time.Duration {
	return h.Hold(kind, config)
}

func TestExplainTellsThatACallIsHeld(t *testing.T) {
	faketime.Run(t, 4, func(c *faketime.World) {
		ctx := c.Context()
		r := NewRegistry(c.Ring, held{})
		for _, kind := range []string{"plain", "web"} {
			if _, err := r.Create(ctx, Account{ID: kind, Kind: kind, Config: json.RawMessage(`{"url":"https://x.example"}`)}); err != nil {
				c.Fatal(err)
			}
			if _, err := c.Ring.Claim(ctx, c.Ring.ShardOf(kind), "replica001", 9, 0); err != nil {
				c.Fatal(err)
			}
		}
		for kind, want := range map[string]string{
			"plain": "replica001 has made calls since %s, one after the other, each of which the third party may hold for up to 35s until something comes; it was due by ",
			"web":   "replica001 has been checking it since %s; it was due by ",
		} {
			e, err := r.Explain(ctx, kind)
			if want = fmt.Sprintf(want, utc(e.State.Since)); err != nil || e.Rule != ruleClaimed || !strings.HasPrefix(e.Why, want) || (e.Hold > 0) != (kind == "plain") {
				c.Errorf("%s: %v, %s: %s, held for %v", kind, err, e.Rule, e.Why, e.Hold)
			}
		}
	})
}

func TestExplainTellsTheHeadroom(t *testing.T) {
	faketime.Run(t, 4, func(c *faketime.World) {
		ctx := c.Context()
		r := NewRegistry(c.Ring, keeper{})
		if _, err := r.Create(ctx, Account{ID: "a", Kind: "plain"}); err != nil {
			c.Fatal(err)
		}
		if _, err := r.Pause(ctx, "a"); err != nil {
			c.Fatal(err)
		}
		time.Sleep(150 * time.Minute)
		e, err := r.Explain(ctx, "a")
		if left, ok := e.Headroom(); err != nil || !ok || left > -30*time.Minute || left < -31*time.Minute || !e.Skip.IsZero() {
			c.Errorf("%v, %v, %v", left, ok, err)
		}
		if _, err := r.ResumeFrom(ctx, "a", ResumeNow); err != nil {
			c.Fatal(err)
		}
		if e, err = r.Explain(ctx, "a"); err != nil || e.Now.Sub(e.Skip).Abs() > time.Second {
			c.Errorf("%v, %v", e.Skip, err)
		}
		if _, err := r.ResumeFrom(ctx, "none", ResumeBackfill); !errors.Is(err, ErrNotFound) {
			c.Error(err)
		}
		if _, err := r.ResumeFrom(ctx, "a", "then"); err == nil {
			c.Error("no fault")
		}
		e, err = NewRegistry(c.Ring, testKinds{}).Explain(ctx, "a")
		if _, ok := e.Headroom(); ok || err != nil {
			c.Error("what nobody knows is told")
		}
	})
}
