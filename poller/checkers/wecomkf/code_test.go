package wecomkf

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// What each errcode of sync_msg does to a check.
func TestCodes(t *testing.T) {
	for code, want := range map[int]struct {
		kind  poller.ErrorKind
		scope poller.ErrorScope
		after time.Duration
		final bool
		calls int
	}{
		-1:    {poller.Transient, poller.ScopeRateKey, 0, false, 1 + busyTries},
		40014: {poller.Transient, poller.ScopeRateKey, 0, false, 2},
		42001: {poller.Transient, poller.ScopeRateKey, 0, false, 2},
		40001: {poller.AuthFailed, poller.ScopeAccount, 0, true, 2},
		40058: {poller.ConfigInvalid, poller.ScopeAccount, 0, false, 1},
		40201: {poller.AuthFailed, poller.ScopeAccount, 0, true, 1},
		45009: {poller.RateLimited, poller.ScopeRateKey, time.Minute, false, 1},
		45033: {poller.RateLimited, poller.ScopeRateKey, crowdRetry, false, 1},
		48002: {poller.AuthFailed, poller.ScopeAccount, 0, true, 1},
		60020: {poller.Transient, poller.ScopeEgress, egressRetry, false, 1},
		95000: {poller.Gone, poller.ScopeAccount, 0, false, 1},
		95004: {poller.Gone, poller.ScopeAccount, 0, false, 1},
		95007: {poller.Protocol, poller.ScopeAccount, 0, false, 1},
		95011: {poller.AuthFailed, poller.ScopeAccount, 0, true, 1},
		95012: {poller.AuthFailed, poller.ScopeAccount, 0, true, 1},
		95017: {poller.AuthFailed, poller.ScopeAccount, 0, true, 1},
		99999: {poller.Transient, poller.ScopeAccount, 0, false, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, token.NewMemory(), 1, noLimits)
			id := w.accounts(1, 3)[0]
			w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: code})
			_, failed := w.page(0, id, "")
			if failed == nil || failed.Kind != want.kind || failed.Scope != want.scope || failed.RetryAfter != want.after || failed.Final != want.final || failed.Message == "" {
				t.Errorf("%d: got %+v", code, failed)
			}
			if calls := w.wecom.Stats(corp).SyncMsg; calls != want.calls {
				t.Errorf("%d: %d calls, want %d", code, calls, want.calls)
			}
			w.wecom.Heal()
			time.Sleep(max(want.after, time.Minute))
			if _, failed := w.page(0, id, ""); failed != nil {
				t.Errorf("%d, healed: %v", code, failed)
			}
			w.complete([]string{id}, 3)
		})
	}
}

func TestBusyForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, noLimits)
		ids := w.accounts(1, 3)
		w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Code: -1, Times: 2})
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: -1, Times: busyTries})
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("failed: %v", codes)
		}
		w.complete(ids, 3)
	})
}

// The address that WeCom names is shown, and nothing else of its message.
func TestAddressIn(t *testing.T) {
	for text, want := range map[string]string{
		"not allow to access from your ip, hint: [1], from ip: 203.0.113.7, more": "203.0.113.7",
		"from ip:2001:db8::1":    "2001:db8::1",
		"from ip: secret":        "",
		"from ip: 1.2.3.4.5":     "",
		"from ip: 203.0.113.700": "",
		"":                       "",
	} {
		if got := addressIn(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	g := &grant{secretName: "KF"}
	if got := g.failure(codeBadIP, "from ip: 203.0.113.7 access_token=x").Message; got != codeError(codeBadIP).Message+": 203.0.113.7" {
		t.Errorf("got %q", got)
	}
}

// When a corporation meets its limit, all replicas pause it: for a minute, then for five, then
// for an hour. After a time without complaints the pause is a minute again.
func TestRateLimitPausesTheCorporation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 3, noLimits)
		ids := w.accounts(30, 1)
		w.round(nil)
		for step, wait := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour, time.Hour, time.Minute} {
			w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 45009})
			_, failed := w.page(0, ids[0], "")
			if failed == nil || failed.Kind != poller.RateLimited || failed.RetryAfter != wait {
				t.Fatalf("step %d: got %+v", step, failed)
			}
			w.wecom.Heal()
			before := w.wecom.Stats(corp)
			_, _ = w.page(0, ids[1], "") // the pause holds at once in this replica, and soon in the others
			time.Sleep(token.FreshFor)
			if codes := w.round(ids); codes["wecom_45009"] != len(ids) {
				t.Errorf("step %d: got %v", step, codes)
			}
			if after := w.wecom.Stats(corp); after != before {
				t.Errorf("step %d: WeCom was called during the pause", step)
			}
			time.Sleep(wait)
			if step == 3 {
				time.Sleep(pauseMemory)
			}
		}
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("failed: %v", codes)
		}
		w.complete(ids, 1)
	})
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checktest.Declared(t, New(checktest.Client(t, fetch.Options{}), secrets.Source{}, token.NewMemory()), ".")
}
