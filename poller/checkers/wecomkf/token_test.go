package wecomkf

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// stuck drops no token and answers with an error, so that the outcome is unknown.
type stuck struct{ token.Store }

func (stuck) Drop(context.Context, credential.Ref, int64) (bool, error) {
	return false, errors.New("cut")
}

// A refused token is not used again, even by a check that still has it.
func TestRefusedTokenIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stuck{token.NewMemory()}, 1, noLimits)
		ids := w.accounts(1, 1)
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 40014})
		if _, failed := w.page(0, ids[0], ""); failed == nil || failed.Code != "wecom_40014" {
			t.Errorf("got %v", failed)
		}
		if s := w.wecom.Stats(corp); s.SyncMsg != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// away is a Redis that becomes unreachable.
type away struct {
	token.Store
	gone bool
}

func (a *away) Take(ctx context.Context, ref credential.Ref, lease time.Duration) (credential.Known, error) {
	if a.gone {
		return credential.Known{}, errors.New("redis is away")
	}
	return a.Store.Take(ctx, ref, lease)
}

// While Redis is unreachable, a replica uses the token that it has until it expires. It
// fetches none on its own.
func TestRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &away{Store: token.NewMemory()}
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
		w := newWorld(t, Counting(token.NewMemory(), registry), 3, noLimits)
		ids := w.accounts(20, 1)
		w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Code: 40001})
		w.round(ids)
		w.wecom.Heal()
		time.Sleep(refusedFor)
		w.round(ids)
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 45009})
		_, _ = w.page(0, ids[0], "")
		time.Sleep(token.FreshFor)
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
