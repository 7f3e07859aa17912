package wecomkf

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

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
