package poller_test

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/egress"
)

// Checks and sends call with the context of their account, which decides by which way they go.
func TestCallsAreTheirAccounts(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		var checked, sent atomic.Pointer[egress.Account]
		k.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			checked.Store(egress.Of(ctx))
			return poller.Result{}, nil
		}
		k.send = func(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
			sent.Store(egress.Of(ctx))
			return k.take(r), nil
		}
		w.chats(`,"labels":{"region":"de"}`, "c")
		defer w.startChecking(poller.Config{}, k, testLog(t))()
		w.queue("c", "p", nil)
		time.Sleep(time.Minute)
		for what, got := range map[string]*egress.Account{"check": checked.Load(), "send": sent.Load()} {
			if got == nil || got.ID != "c" || got.Kind != "talker" || !maps.Equal(got.Labels, map[string]string{"region": "de"}) {
				t.Errorf("the %s calls for %+v", what, got)
			}
		}
	})
}

// No kind has the name of the ways out.
func TestNoKindIsNamedAsTheWaysAre(t *testing.T) {
	if _, err := poller.NewCheckers(newOf("egress")); err == nil || !strings.Contains(err.Error(), `"egress"`) {
		t.Errorf("got %v", err)
	}
}
