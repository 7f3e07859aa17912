package wecomkf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

var noLimits = wecom.Options{Concurrency: -1, CallsWithoutToken: -1}

// eachStore runs a test with tokens in the memory of a process, and with tokens in Redis. In
// Redis each replica has a ring of its own.
func eachStore(t *testing.T, test func(*testing.T, token.Store, redistest.Redis)) {
	t.Run("memory", func(t *testing.T) { test(t, token.NewMemory(), nil) })
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "wecom", Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		test(t, credential.Of(ring), server)
	})
}

// However many accounts and replicas ask, a token is fetched once, and once more after it is
// revoked. A wrong secret is tried only once.
func TestTokensAreFetchedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, tokens token.Store, _ redistest.Redis) {
		w := newWorld(t, tokens, 3, noLimits)
		ids := w.accounts(200, 1)
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("failed: %v", codes)
		}
		w.wecom.Revoke(corp)
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("revoked: failed: %v", codes)
		}
		w.complete(ids, 1)
		if s := w.wecom.Stats(corp); s.GetToken != 2 || s.Tokens != 2 {
			t.Errorf("got %+v, want 2 tokens fetched", s)
		}

		w.secret = "wrong"
		for range 3 {
			if codes := w.round(ids); codes["wecom_40001"] != len(ids) {
				t.Errorf("wrong secret: got %v", codes)
			}
		}
		if s := w.wecom.Stats(corp); s.WrongSecrets != 1 || w.wecom.Banned() {
			t.Errorf("a wrong secret was tried %d times", s.WrongSecrets)
		}
		w.secret = secret
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("put right: failed: %v", codes)
		}
	})
}

func TestRefusedSecretParksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 2, noLimits)
		ids := w.accounts(1, 1)
		for _, code := range []int{40001, 40013, 40091} {
			w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Code: code})
			before := w.wecom.Stats(corp).GetToken
			for n := range 4 {
				_, failed := w.page(n, ids[0], "")
				if failed == nil || failed.Kind != poller.AuthFailed || !failed.Final || failed.Scope != poller.ScopeAccount || failed.Code != fmt.Sprint("wecom_", code) {
					t.Errorf("%d: got %+v", code, failed)
				}
				time.Sleep(refusedFor / 5)
			}
			if tries := w.wecom.Stats(corp).GetToken - before; tries != 1 {
				t.Errorf("%d: %d tries", code, tries)
			}
			time.Sleep(refusedFor)
		}
		w.wecom.Heal()
		if _, failed := w.page(0, ids[0], ""); failed != nil {
			t.Errorf("an hour later: %v", failed)
		}
	})
}

// During a day of checks, tokens are replaced before they expire. No call is ever refused
// because of its token.
func TestTokensAreRefreshedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 3, noLimits)
		ids := w.accounts(3, 0)
		for range 24 * 30 {
			for _, id := range ids {
				w.wecom.PostN(id, 1)
			}
			if codes := w.round(ids); len(codes) != 0 {
				t.Fatalf("failed: %v", codes)
			}
			time.Sleep(2 * time.Minute)
		}
		w.complete(ids, 24*30)
		s := w.wecom.Stats(corp)
		if s.Refused != 0 || s.Tokens < 12 || s.Tokens > 13 || s.GetToken > 5*s.Tokens {
			t.Errorf("got %+v", s)
		}
		t.Logf("%d calls of gettoken for %d tokens", s.GetToken, s.Tokens)
	})
}

// When every token is refused, each check asks for a new one once. All checks together fetch
// fewer tokens than one per check.
func TestTokenThatStaysRefused(t *testing.T) {
	for code, want := range map[int]struct {
		kind  poller.ErrorKind
		scope poller.ErrorScope
		final bool
	}{
		40014: {poller.Transient, poller.ScopeRateKey, false},
		42001: {poller.Transient, poller.ScopeRateKey, false},
		40001: {poller.AuthFailed, poller.ScopeAccount, true},
		40013: {poller.AuthFailed, poller.ScopeAccount, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, token.NewMemory(), 3, noLimits)
			ids := w.accounts(100, 1)
			w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: code})
			_, failed := w.page(0, ids[0], "")
			if failed == nil || failed.Kind != want.kind || failed.Scope != want.scope || failed.Final != want.final {
				t.Errorf("%d: got %+v", code, failed)
			}
			w.round(ids)
			if s := w.wecom.Stats(corp); s.GetToken > 3 {
				t.Errorf("%d: gettoken was called %d times", code, s.GetToken)
			}
			w.wecom.Heal()
			time.Sleep(credential.DropGuard)
			if codes := w.round(ids); len(codes) != 0 {
				t.Errorf("%d, healed: %v", code, codes)
			}
			w.complete(ids, 1)
		})
	}
}

// When fetching fails, all checks learn the reason, and fetching is tried again later.
func TestFetchingFails(t *testing.T) {
	for name, c := range map[string]struct {
		fault wecom.Fault
		kind  poller.ErrorKind
		scope poller.ErrorScope
		code  string
		after time.Duration
		again time.Duration
	}{
		"busy":    {wecom.Fault{Code: -1}, poller.Transient, poller.ScopeRateKey, "wecom_-1", 0, failedFor},
		"address": {wecom.Fault{Code: 60020}, poller.Transient, poller.ScopeEgress, "wecom_60020", egressRetry, egressFor},
		"rate":    {wecom.Fault{Code: 45009}, poller.RateLimited, poller.ScopeRateKey, "wecom_45009", time.Minute, time.Minute},
		"503":     {wecom.Fault{Status: 503, RetryAfter: "120"}, poller.Transient, poller.ScopeRateKey, "http_503", 2 * time.Minute, 2 * time.Minute},
		"garbage": {wecom.Fault{Garbage: true}, poller.Protocol, poller.ScopeRateKey, "protocol", 0, failedFor},
		"hang":    {wecom.Fault{Hang: true}, poller.Transient, poller.ScopeRateKey, "timeout", 0, failedFor},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, token.NewMemory(), 3, noLimits)
			ids := w.accounts(50, 1)
			w.wecom.Fail(corp, wecom.GetToken, c.fault)
			_, failed := w.page(0, ids[0], "")
			if failed == nil || failed.Kind != c.kind || failed.Scope != c.scope || failed.Code != c.code || failed.RetryAfter != c.after || failed.Final {
				t.Errorf("%s: got %+v", name, failed)
			}
			before := w.wecom.Stats(corp).GetToken
			for range 3 {
				if codes := w.round(ids); len(codes) == 0 {
					t.Errorf("%s: nothing failed", name)
				}
			}
			if after := w.wecom.Stats(corp).GetToken; after != before {
				t.Errorf("%s: gettoken was called %d times more at once", name, after-before)
			}
			w.wecom.Heal()
			time.Sleep(c.again)
			if codes := w.round(ids); len(codes) != 0 {
				t.Errorf("%s, healed: %v", name, codes)
			}
		})
	}
}

// A replica that dies while it fetches delays the others no longer than its lease lasts. A
// check that stops waiting stops no other.
func TestFetcherIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := token.NewMemory()
		w := newWorld(t, tokens, 2, noLimits)
		ids := w.accounts(2, 1)
		g, err := newGrant(config{corp: corp, baseURL: defaultBaseURL}, secret)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := tokens.Take(t.Context(), g.Ref(), 20*time.Second); err != nil || c.Fence == 0 {
			t.Fatalf("got %+v, %v", c, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = w.replicas[0].Check(short, poller.Request{Account: ids[0], Config: configOf("", ids[0])})
		var failed *poller.CheckError
		if !errors.As(err, &failed) || failed.Code != "timeout" || failed.Kind != poller.Transient {
			t.Errorf("got %v", err)
		}
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("failed: %v", codes)
		}
		if s := w.wecom.Stats(corp); s.GetToken != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// A check may get its turn to fetch when it has waited nearly as long as it may. It still has
// the whole time to fetch. It does not report to the others that fetching takes too long.
func TestFetchingAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := token.NewMemory()
		w := newWorld(t, tokens, 1, noLimits)
		ids := w.accounts(1, 1)
		g, err := newGrant(config{corp: corp, baseURL: defaultBaseURL}, secret)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := tokens.Take(t.Context(), g.Ref(), token.ObtainTimeout-busyPause); err != nil || c.Fence == 0 {
			t.Fatalf("got %+v, %v", c, err)
		}
		w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Code: codeBusy, Times: busyTries})
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("failed: %v", codes)
		}
	})
}

// A reader of Redis learns neither a token nor a secret. A writer to Redis cannot make a
// replica use another token.
func TestTokensAreSealed(t *testing.T) {
	eachStore(t, func(t *testing.T, tokens token.Store, server redistest.Redis) {
		w := newWorld(t, tokens, 1, noLimits)
		ids := w.accounts(1, 2)
		w.round(ids)
		if server == nil {
			return
		}
		conn, err := server.Conn(t.Context(), "wecom")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		keys, err := redis.Strings(conn.Do("KEYS", "wecom:credentials:*"))
		if err != nil || len(keys) != 1 {
			t.Fatalf("got %q, %v", keys, err)
		}
		fields, err := redis.ByteSlices(conn.Do("HGETALL", keys[0]))
		if err != nil || len(fields) == 0 {
			t.Fatal(err)
		}
		for _, text := range append(fields, []byte(keys[0])) {
			for _, hidden := range []string{secret, w.wecom.Token(corp), corp} {
				if bytes.Contains(text, []byte(hidden)) {
					t.Errorf("%q is in Redis: %q", hidden, text)
				}
			}
		}
		if _, err := conn.Do("HSET", keys[0], "value", "forged"); err != nil {
			t.Fatal(err)
		}
		w.replicas = append(w.replicas[:0], New(w.replicas[0].client, w.replicas[0].secrets, tokens)) // this replica knows no token yet
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("forged: %v", codes)
		}
		if s := w.wecom.Stats(corp); s.GetToken != 2 || s.Refused != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestSeal(t *testing.T) {
	one, err := newGrant(config{corp: corp, baseURL: defaultBaseURL}, secret)
	if err != nil {
		t.Fatal(err)
	}
	sealed := one.Seal("token")
	if got, err := one.Unseal(sealed); err != nil || got != "token" {
		t.Errorf("got %q, %v", got, err)
	}
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if _, err := one.Unseal(broken); err == nil {
			t.Errorf("byte %d does not matter", i)
		}
		if _, err := one.Unseal(sealed[:i]); err == nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
	for _, other := range []config{{corp: "other", baseURL: defaultBaseURL}, {corp: corp, baseURL: "https://example.com"}} {
		if g, err := newGrant(other, secret); err != nil || g.Ref() == one.Ref() {
			t.Errorf("%+v: the same credential, %v", other, err)
		} else if _, err := g.Unseal(sealed); err == nil {
			t.Errorf("%+v opens it", other)
		}
	}
	if g, err := newGrant(config{corp: corp, baseURL: defaultBaseURL}, "another"); err != nil || g.Ref().Name == one.Ref().Name || g.Ref().Owner != one.Ref().Owner {
		t.Errorf("another secret has %+v, %v", g.Ref(), err)
	}
}
