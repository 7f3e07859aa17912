package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A Redis that is slow, or refuses, ends nothing. One that says nothing does, in less than three seconds.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := func(d time.Duration) func(context.Context) error {
			return func(ctx context.Context) error {
				select {
				case <-time.After(d):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		for name, c := range map[string]struct {
			check func(context.Context) error
			ends  time.Duration // 0: the page may take a minute
		}{
			"well":    {takes(time.Millisecond), 0},
			"slow":    {takes(1900 * time.Millisecond), 0},
			"refuses": {func(context.Context) error { return errors.New("LOADING") }, 0},
			"silent":  {takes(time.Hour), 2700 * time.Millisecond},
		} {
			began := time.Now()
			ctx, stop := silence{c.check, 700 * time.Millisecond, 2 * time.Second}.watch(t.Context())
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			took := time.Since(began)
			if c.ends == 0 && ctx.Err() != nil || c.ends != 0 && (took != c.ends || !errors.Is(context.Cause(ctx), errSilent)) {
				t.Errorf("%s: %v after %v", name, context.Cause(ctx), took)
			}
			stop()
			synctest.Wait() // the watch has ended
		}
	})
}

// A page says that Redis does not answer, and a request of a program waits as long as it wants.
func TestPagesOfASilentRedis(t *testing.T) {
	server := redistest.Start(t)
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	api, err := New(Options{
		Ring: ring, Registry: accounts.NewRegistry(ring, testKinds{}), Token: rightToken,
		Pages: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a page without a session") })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	f := &fixture{T: t, ring: ring, api: api, server: httptest.NewServer(api), token: rightToken}
	t.Cleanup(f.server.Close)
	cookie := f.signIn(rightToken)
	api.silence.first, api.silence.within = time.Millisecond, 20*time.Millisecond
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Thaw() })
	r := f.request("GET", "/problems", "")
	r.Header.Del("Authorization")
	r.Header.Set("Accept", "text/html")
	r.AddCookie(cookie)
	if got := f.do(r); got.status != http.StatusServiceUnavailable || got.header.Get("Refresh") == "" || !strings.Contains(string(got.body), "Redis does not answer in time") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
