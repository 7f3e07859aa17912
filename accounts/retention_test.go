package accounts

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/faketime"
)

// keeper keeps messages of "plain" accounts for two hours.
type keeper struct{ testKinds }

func (keeper) Retaining() []string { return []string{"plain"} }

func (keeper) Retention(string, json.RawMessage) time.Duration { return 2 * time.Hour }

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
