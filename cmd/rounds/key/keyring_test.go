package key

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/testing/faketime"
)

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// create creates a key and returns its text.
func create(t testing.TB, r *Keyring, n New) string {
	t.Helper()
	text, _, err := r.Create(context.Background(), n)
	return must(t, text, err)
}

// counted returns functions that say how often Redis was asked for a key, and how often a use
// was written.
func counted(w *faketime.World) (asked, written func() int) {
	var mu sync.Mutex
	var gets, evals int
	w.Server.Set(func(s faketime.Step) faketime.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case s.At == faketime.Send && s.Command == "HGET":
			gets++ // two for each request
		case s.At == faketime.Call && s.Command == "EVALSHA":
			evals++
		}
		return faketime.Healthy
	})
	read := func(n *int) func() int {
		return func() int { mu.Lock(); defer mu.Unlock(); return *n }
	}
	return func() int { return read(&gets)() / 2 }, read(&evals)
}

func TestAKeysLife(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		r, ctx := NewKeyring(w.Ring, faketime.Log(t)), w.Context()
		n := New{Name: "press", Role: access.Editor, Labels: access.Labels{"team": "press"}, Life: 24 * time.Hour, By: "token"}
		text, made, err := r.Create(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.known) != 0 {
			t.Errorf("a key is known before anybody showed it")
		}
		got, err := r.Authenticate(ctx, text)
		if err != nil || got.Name != "press" || got.Digest != made.Digest || got.By != "token" || !got.Expires.Equal(made.Created.Add(24*time.Hour)) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if p := got.Principal(); p.Name != "press" || p.Role != access.Editor || p.Labels.String() != "team=press" || p.Via != access.ViaKey {
			t.Errorf("principal: %+v", p)
		}
		if _, _, err := r.Create(ctx, n); !errors.Is(err, ErrTaken) {
			t.Errorf("the name again: %v", err)
		}
		if _, err := r.Authenticate(ctx, newText()); !errors.Is(err, ErrUnknown) {
			t.Errorf("a key that was never made: %v", err)
		}
		for _, key := range w.Miniredis().Keys() {
			if dump, err := w.Miniredis().DB(0).HKeys(key); err == nil {
				for _, field := range dump {
					if value := w.Miniredis().HGet(key, field); strings.Contains(field+value, text[len(prefix):]) {
						t.Errorf("%s has the key itself", key)
					}
				}
			}
		}
		time.Sleep(24*time.Hour - time.Second)
		if _, err := r.Authenticate(ctx, text); err != nil {
			t.Errorf("a second before it expires: %v", err)
		}
		time.Sleep(time.Second)
		// Redis answered a second ago that the key was valid. The answer also had its expiry.
		if _, err := r.Authenticate(ctx, text); !errors.Is(err, ErrExpired) {
			t.Errorf("expired: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := r.Authenticate(ctx, text); !errors.Is(err, ErrExpired) {
			t.Errorf("expired long ago: %v", err)
		}
		keys, now, err := r.List(ctx)
		if err != nil || len(keys) != 1 || !keys[0].Expired(now) || keys[0].Used.IsZero() {
			t.Errorf("list: %+v, %v", keys, err)
		}
		if _, err := r.Revoke(ctx, "press"); err != nil {
			t.Errorf("revoke: %v", err)
		}
		if _, err := r.Revoke(ctx, "press"); !errors.Is(err, ErrNotFound) {
			t.Errorf("revoked twice: %v", err)
		}
		if keys, _, err := r.List(ctx); err != nil || len(keys) != 0 {
			t.Errorf("list: %+v, %v", keys, err)
		}
	})
}

// Redis is not asked for each request. A revoked key is invalid in all processes after
// Fresh.
func TestRevocationIsBounded(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		r, other, ctx := NewKeyring(w.Ring, nil), NewKeyring(w.Open(w.Redis), nil), w.Context()
		text := create(t, r, New{Name: "n", Role: access.Viewer})
		asked, _ := counted(w)
		for range 100 {
			if _, err := r.Authenticate(ctx, text); err != nil {
				t.Fatal(err)
			}
		}
		if n := asked(); n != 1 {
			t.Errorf("Redis was asked %d times", n)
		}
		for range 100 { // Redis is never asked for mistyped keys
			if _, err := r.Authenticate(ctx, text[:len(text)-1]); !errors.Is(err, ErrMistyped) {
				t.Fatal(err)
			}
		}
		if n := asked(); n != 1 {
			t.Errorf("Redis was asked %d times", n)
		}
		if _, err := other.Revoke(ctx, "n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(fresh)
		if _, err := r.Authenticate(ctx, text); !errors.Is(err, ErrUnknown) {
			t.Errorf("revoked elsewhere: %v", err)
		}
		text = create(t, r, New{Name: "n", Role: access.Viewer})
		if _, err := r.Authenticate(ctx, text); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Revoke(ctx, "n"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Authenticate(ctx, text); !errors.Is(err, ErrUnknown) {
			t.Errorf("revoked here: %v", err)
		}
	})
}

// An answer of Redis that was under way while this process revoked the key is not kept.
func TestRevokedWhileAsked(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		r, ctx := NewKeyring(w.Ring, nil), w.Context()
		text := create(t, r, New{Name: "n", Role: access.Viewer})
		other := NewKeyring(w.Open(w.Redis), nil)
		revoked := false
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			// The key is revoked once Redis has answered that it exists.
			if reply, ok := s.Reply.([]byte); ok && s.At == faketime.Receive && strings.Contains(string(reply), `"name"`) && !revoked {
				revoked = true
				if _, _, err := other.store.Remove(ctx, "n"); err != nil {
					t.Error(err)
				}
				r.forget("n")
			}
			return faketime.Healthy
		})
		if _, err := r.Authenticate(ctx, text); err != nil || !revoked {
			t.Fatalf("%v, %t", err, revoked)
		}
		if _, err := r.Authenticate(ctx, text); !errors.Is(err, ErrUnknown) {
			t.Errorf("after: %v", err)
		}
	})
}

// While Redis is unreachable, a key is neither accepted nor refused.
func TestRedisAway(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		r, ctx := NewKeyring(w.Ring, nil), w.Context()
		text := create(t, r, New{Name: "n", Role: access.Viewer})
		if _, err := r.Authenticate(ctx, text); err != nil {
			t.Fatal(err)
		}
		w.Server.Set(func(faketime.Step) faketime.Fate { return faketime.NotDone })
		if _, err := r.Authenticate(ctx, text); err != nil {
			t.Errorf("just asked: %v", err)
		}
		time.Sleep(fresh)
		for _, shown := range []string{text, newText()} {
			if _, err := r.Authenticate(ctx, shown); !errors.Is(err, faketime.ErrCut) {
				t.Errorf("away: %v", err)
			}
		}
		w.Server.Set(nil)
		if _, err := r.Authenticate(ctx, text); err != nil {
			t.Errorf("back: %v", err)
		}
		ended, end := context.WithCancel(ctx)
		end()
		time.Sleep(fresh)
		if _, err := r.Authenticate(ended, text); !errors.Is(err, context.Canceled) && err != nil {
			t.Errorf("the caller has gone: %v", err)
		}
		synctest.Wait()
	})
}

func TestUsesAreKeptCoarsely(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		r, ctx := NewKeyring(w.Ring, faketime.Log(t)), w.Context()
		text := create(t, r, New{Name: "n", Role: access.Viewer})
		used := func() time.Time {
			t.Helper()
			keys, _, err := r.List(ctx)
			if err != nil || len(keys) != 1 {
				t.Fatal(keys, err)
			}
			return keys[0].Used
		}
		if at := used(); !at.IsZero() {
			t.Errorf("used at %v before anybody did", at)
		}
		_, written := counted(w)
		began := time.Now()
		for time.Since(began) < 5*time.Hour {
			if _, err := r.Authenticate(ctx, text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if n := written(); n < 4 || n > 5 {
			t.Errorf("in five hours %d uses were written", n)
		}
		if old := time.Since(used()); old > UsedEvery+time.Minute {
			t.Errorf("the last use is told as %v old", old)
		}
		// A use that cannot be stored does not make the key invalid, and is not tried again at
		// each request.
		time.Sleep(2 * time.Hour)
		tries := 0
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && strings.HasPrefix(s.Command, "EVAL") {
				tries++
				return faketime.NotDone
			}
			return faketime.Healthy
		})
		for range 10 {
			if _, err := r.Authenticate(ctx, text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(fresh)
		}
		if tries != 1 {
			t.Errorf("tried %d times within half a minute", tries)
		}
	})
}

// Only expired keys make room for new ones.
func TestKeysAreBounded(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		r, ctx := NewKeyring(w.Ring, nil), w.Context()
		kept, err := json.Marshal(record{Version: 1, Name: "n", Role: "viewer"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range Most - 1 {
			name := "n" + strings.Repeat("x", i%50) + string(rune('a'+i/50))
			if err := r.store.Add(ctx, name, digestOf(name), kept, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		create(t, r, New{Name: "short", Role: access.Viewer, Life: time.Hour})
		if _, _, err := r.Create(ctx, New{Name: "one-more", Role: access.Viewer}); !errors.Is(err, ErrFull) {
			t.Errorf("too many: %v", err)
		}
		time.Sleep(time.Hour)
		text := create(t, r, New{Name: "one-more", Role: access.Viewer})
		if _, err := r.Authenticate(ctx, text); err != nil {
			t.Error(err)
		}
		keys, _, err := r.List(ctx)
		if err != nil || len(keys) != Most {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if k.Name == "short" {
				t.Error("the expired one is still there")
			}
		}
		if _, err := r.Revoke(ctx, "short"); !errors.Is(err, ErrNotFound) {
			t.Errorf("the expired one: %v", err)
		}
	})
}
