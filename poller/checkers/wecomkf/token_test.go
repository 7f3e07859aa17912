package wecomkf

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// Tokens in the memory of a process behave as those in the ring, which ringtest describes.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ref := NewMemory(), credential.Ref{Owner: "o", Name: "n"}
		take := func() credential.Known {
			t.Helper()
			c, err := m.Take(t.Context(), ref, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		settle := func(want bool, fence int64, value string) {
			t.Helper()
			s := credential.Settlement{As: credential.Fetched, Value: []byte(value), For: time.Hour, Refresh: 50 * time.Minute}
			if got, err := m.Settle(t.Context(), ref, fence, s); err != nil || got != want {
				t.Errorf("settle: %t, %v", got, err)
			}
		}
		first := take()
		settle(false, first.Fence+1, "forged")
		time.Sleep(time.Minute)
		second := take()
		settle(false, first.Fence, "late")
		settle(true, second.Fence, "one")
		settle(false, second.Fence, "again")
		if c := take(); string(c.Value) != "one" || c.Fence != 0 || c.Expires != time.Hour {
			t.Errorf("got %+v", c)
		}
		time.Sleep(50 * time.Minute)
		if c, other := take(), take(); c.Fence == 0 || string(c.Value) != "one" || other.Fence != 0 || string(other.Value) != "one" || other.Wait != time.Minute {
			t.Errorf("time to replace it: %+v, %+v", c, other)
		}
		time.Sleep(10 * time.Minute)
		if c := take(); c.Value != nil || c.Fence == 0 {
			t.Errorf("expired: %+v", c)
		}
	})
}

// stuck drops no token and answers with an error, so that the outcome is unknown.
type stuck struct{ Tokens }

func (stuck) Drop(context.Context, credential.Ref, int64) (bool, error) {
	return false, errors.New("cut")
}

// A refused token is not used again, even by a check that still has it.
func TestRefusedTokenIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stuck{NewMemory()}, 1, noLimits)
		ids := w.accounts(1, 1)
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 40014})
		if _, failed := w.page(0, ids[0], ""); failed == nil || failed.Code != "wecom_40014" {
			t.Errorf("got %v", failed)
		}
		if s := w.wecom.Stats(corp); s.SyncMsg != 1 {
			t.Errorf("got %+v", s)
		}

		w = newWorld(t, NewMemory(), 1, noLimits)
		b := w.replicas[0].broker
		g, err := newGrant(config{corp: corp, baseURL: defaultBaseURL}, secret)
		if err != nil {
			t.Fatal(err)
		}
		old, failed := b.token(t.Context(), g, 0)
		if failed != nil {
			t.Fatal(failed)
		}
		b.drop(t.Context(), g, old.version)
		b.copy(g.ref, old, time.Hour) // done by a check that asked before the refusal
		if got, failed := b.token(t.Context(), g, old.version); failed != nil || got.version == old.version {
			t.Errorf("got %+v, %v", got, failed)
		}
	})
}

// away is a Redis that becomes unreachable.
type away struct {
	Tokens
	gone bool
}

func (a *away) Take(ctx context.Context, ref credential.Ref, lease time.Duration) (credential.Known, error) {
	if a.gone {
		return credential.Known{}, errors.New("redis is away")
	}
	return a.Tokens.Take(ctx, ref, lease)
}

// While Redis is unreachable, a replica uses the token that it has until it expires. It
// fetches none on its own.
func TestRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &away{Tokens: NewMemory()}
		w := newWorld(t, tokens, 2, noLimits)
		ids := w.accounts(1, 1)
		w.round(ids)
		tokens.gone = true
		time.Sleep(time.Hour)
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("got %v", codes)
		}
		if _, failed := w.page(1, ids[0], ""); failed == nil || failed.Code != "token_store" || failed.Scope != "egress" {
			t.Errorf("a replica that has none: %v", failed)
		}
		time.Sleep(2 * time.Hour)
		if codes := w.round(ids); codes["token_store"] != 1 {
			t.Errorf("expired: %v", codes)
		}
		if s := w.wecom.Stats(corp); s.GetToken != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestFetchesAndPausesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		w := newWorld(t, Counting(NewMemory(), registry), 3, noLimits)
		ids := w.accounts(20, 1)
		w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Code: 40001})
		w.round(ids)
		w.wecom.Heal()
		time.Sleep(refusedFor)
		w.round(ids)
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 45009})
		_, _ = w.page(0, ids[0], "")
		time.Sleep(freshFor)
		w.round(ids) // the checks find the pause and make no call

		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				name := family.GetName()
				for _, label := range m.GetLabel() {
					name += " " + label.GetValue()
				}
				got[name] = m.GetCounter().GetValue()
			}
		}
		if got["rounds_wecom_token_fetches_total value"] != 1 || got["rounds_wecom_token_fetches_total refused"] != 1 || got["rounds_wecom_pauses_total"] != 1 {
			t.Errorf("got %v", got)
		}
	})
}
