package wecomkf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

func testGrant(t *testing.T) *grant {
	t.Helper()
	g, err := newGrant(config{corp: corp, baseURL: defaultBaseURL}, secret)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// forging is a store in which somebody else has replaced the values.
type forging struct {
	token.Store
	forged bool
}

func (f *forging) Take(ctx context.Context, ref credential.Ref, lease time.Duration) (credential.Known, error) {
	known, err := f.Store.Take(ctx, ref, lease)
	if f.forged && known.Value != nil {
		known.Value = []byte("forged by somebody else")
	}
	return known, err
}

func (f *forging) Drop(ctx context.Context, ref credential.Ref, version int64) (bool, error) {
	f.forged = false
	return f.Store.Drop(ctx, ref, version)
}

// A forged token is replaced once. If the next one is forged too, the check says that
// something else writes to Redis, and blames no account.
func TestTokensAreForgedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &forging{Store: token.NewMemory()}
		w := newWorld(t, tokens, 1, noLimits)
		id := w.accounts(1, 1)[0]
		if _, failed := w.page(0, id, ""); failed != nil {
			t.Fatal(failed)
		}
		time.Sleep(token.FreshFor)
		tokens.forged = true
		if _, failed := w.page(0, id, ""); failed != nil {
			t.Errorf("forged once: %v", failed)
		}
		time.Sleep(token.FreshFor)
		tokens.forged = true
		if _, failed := w.page(0, id, ""); failed == nil || failed.Code != "seal" || failed.Kind != poller.Transient || failed.Scope != poller.ScopeChecker {
			t.Errorf("forged twice: %+v", failed)
		}
	})
}

// A check waits for another replica's token for a bounded time.
func TestAFetchElsewhereThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := token.NewMemory()
		w := newWorld(t, tokens, 1, noLimits)
		id := w.accounts(1, 1)[0]
		if c, err := tokens.Take(t.Context(), testGrant(t).Ref(), time.Hour); err != nil || c.Fence == 0 {
			t.Fatalf("got %+v, %v", c, err)
		}
		began := time.Now()
		_, failed := w.page(0, id, "")
		if failed == nil || failed.Code != "timeout" || failed.Scope != poller.ScopeRateKey || time.Since(began) != token.ObtainTimeout {
			t.Errorf("got %+v after %v", failed, time.Since(began))
		}
	})
}

// A check that is canceled while WeCom is too busy ends at once, with WeCom's answer.
func TestCanceledWhileWeComIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, noLimits)
		id := w.accounts(1, 1)[0]
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: codeBusy})
		ctx, cancel := context.WithTimeout(t.Context(), busyPause/2)
		defer cancel()
		_, err := w.replicas[0].Check(ctx, poller.Request{Account: id, Config: configOf("", id)})
		if got := checktest.Failure(t, err); got.Code != fmt.Sprint("wecom_", codeBusy) || got.Kind != poller.Transient {
			t.Errorf("got %v", got)
		}
		if s := w.wecom.Stats(corp); s.SyncMsg != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// JSON from a server that is not WeCom is a protocol error and does not move the cursor.
func TestAnswersThatAreNotWeComs(t *testing.T) {
	for body, message := range map[string]string{
		`{"status": "ok"}`:                 "WeCom's answer: errcode: missing",
		`{"errcode": "0"}`:                 "WeCom's answer: is not the expected JSON",
		"{\"errcode\": 0, \"a\":\"\xff\"}": "WeCom's answer: is not the expected JSON",
	} {
		c := New(fetch.New(fetch.Options{Transport: answering(body)}), source(secret), token.NewMemory())
		result, err := c.Check(t.Context(), poller.Request{Config: configOf("", "wk1")})
		if got := checktest.Failure(t, err); got.Kind != poller.Protocol || got.Message != message || result.Cursor != nil {
			t.Errorf("%q: got %v, %+v", body, got, result)
		}
	}
}

// An empty answer is a page without messages. It is no access token.
func TestNoContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, noLimits)
		id := w.accounts(1, 1)[0]
		w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Status: 204})
		if _, failed := w.page(0, id, ""); failed == nil || failed.Message != "WeCom's answer: access_token or expires_in: missing" {
			t.Errorf("gettoken: %v", failed)
		}
		w.wecom.Heal()
		time.Sleep(failedFor)
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Status: 204})
		if result, failed := w.page(0, id, ""); failed != nil || len(result.Messages) != 0 || result.Cursor != nil || result.HasMore {
			t.Errorf("sync_msg: %+v, %v", result, failed)
		}
	})
}

// The secret belongs to the poller. While it is missing, that counts against no account.
func TestTheSecretIsMissing(t *testing.T) {
	c := New(fetch.New(fetch.Options{}), source(secret), token.NewMemory())
	config := `{"corp_id": "c", "open_kfid": "k", "secret": {"secret": "OTHER"}}`
	_, err := c.Check(t.Context(), poller.Request{Config: json.RawMessage(config)})
	if got := checktest.Failure(t, err); got.Kind != poller.Transient || got.Scope != poller.ScopeChecker || got.Code != "secret" {
		t.Errorf("got %+v", got)
	}
	if got := c.Retention(nil); got != 72*time.Hour {
		t.Errorf("retention %v", got)
	}
}

// A token is used until shortly before it expires. The next one is fetched before that,
// unless the token's life is short.
func TestLifeOf(t *testing.T) {
	for life, want := range map[time.Duration][2]time.Duration{
		2 * time.Hour:    {2*time.Hour - expiryMargin, 2*time.Hour - expiryMargin - refreshMargin},
		5 * time.Minute:  {295 * time.Second, 295*time.Second - 295*time.Second/4},
		time.Minute:      {55 * time.Second, 55 * time.Second},
		expiryMargin / 2: {time.Second, time.Second},
	} {
		if use, refresh := lifeOf(life); use != want[0] || refresh != want[1] {
			t.Errorf("%v: got %v, %v, want %v", life, use, refresh, want)
		}
	}
}

// unpausable is a store that cannot write a pause.
type unpausable struct{ token.Store }

func (unpausable) PauseOwner(context.Context, string, string, time.Duration, ...time.Duration) (time.Duration, error) {
	return 0, errors.New("cut")
}

// A pause that cannot be written holds for the check that met the limit.
func TestAPauseThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, unpausable{token.NewMemory()}, 1, noLimits)
		id := w.accounts(1, 1)[0]
		w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: codeRate})
		if _, failed := w.page(0, id, ""); failed == nil || failed.Kind != poller.RateLimited || failed.RetryAfter != time.Minute {
			t.Errorf("got %+v", failed)
		}
	})
}

// Two checks that meet the limit at once pause their corporation for one step.
func TestAPauseIsNotMadeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := token.NewMemory()
		for range 2 {
			for _, want := range []time.Duration{time.Minute, 20 * time.Second} {
				wait, err := m.PauseOwner(t.Context(), "o", "45009", time.Minute, time.Minute, time.Hour)
				if err != nil || wait != want {
					t.Errorf("got %v, %v, want %v", wait, err, want)
				}
				time.Sleep(40 * time.Second)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// Several calls that started together may each be refused because there were too many. The
// number of calls is halved only once for them.
func TestOneCrowdIsHalvedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowds{}
		for range 8 {
			if _, failed := c.enter(t.Context(), "o"); failed != nil {
				t.Fatal(failed)
			}
		}
		for range 8 {
			c.lower("o")
		}
		if most := c.of["o"].most; most != 4 {
			t.Errorf("after one round of complaints: %d at once", most)
		}
		time.Sleep(crowdWait)
		c.leave("o")
		c.leave("o")
		c.lower("o")
		if most := c.of["o"].most; most != 3 {
			t.Errorf("after the next complaint: %d at once", most)
		}
	})
}
