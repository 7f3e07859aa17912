package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const atItsLimit = "Redis is at its memory limit and takes no more writes; deleting and pausing accounts still works, and writes work again once messages are trimmed"

func TestReadinessAsksAFewTimesASecond(t *testing.T) {
	var asked atomic.Int64
	h := &readiness{log: slog.New(slog.DiscardHandler), check: func(context.Context) error {
		asked.Add(1)
		return errors.New("away")
	}}
	var probes sync.WaitGroup
	for range 200 {
		probes.Go(func() {
			reply := httptest.NewRecorder()
			h.ServeHTTP(reply, httptest.NewRequest("GET", "/readyz", nil))
			if reply.Code != 503 {
				t.Errorf("answered %d", reply.Code)
			}
		})
	}
	probes.Wait()
	// A slow machine needs a few seconds for the probes, and may ask a few times in each. To ask 200
	// times would take it forty seconds.
	if n := asked.Load(); n >= 200 {
		t.Errorf("200 probes asked %d times", n)
	}
}

// A Redis that answers but refuses writes is not ready, and the probe says why.
func TestFullRedisIsNotReady(t *testing.T) {
	server := redistest.Connect(t, redistest.Start(t))
	limit := func(bytes int) {
		t.Helper()
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := redis.String(conn.Do("CONFIG", "SET", "maxmemory", bytes)); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	h := newReadiness(ring, nil, slog.New(slog.DiscardHandler))
	probe := func(code int, says string) {
		t.Helper()
		reply := httptest.NewRecorder()
		h.ServeHTTP(reply, httptest.NewRequest("GET", "/readyz", nil))
		if reply.Code != code || !strings.Contains(reply.Body.String(), says) {
			t.Errorf("answered %d %s, want %d %s", reply.Code, reply.Body, code, says)
		}
	}
	probe(200, "ready")
	limit(1)
	probe(503, atItsLimit)
	limit(0)
	probe(200, "ready")
}

// A process that stores everything itself, and cannot save it, says so in every refusal. It does
// not mention a Redis, because its operator has none.
func TestRefusalsNameTheDataDirectory(t *testing.T) {
	var unsaved error
	f := newFixture(t, func(o *Options) { o.Unsaved = func() error { return unsaved } })
	f.redis.Miniredis().SetError("MISCONF Errors writing to the data directory: file too large")
	var refused problemBody
	for why, want := range map[error]string{
		nil: "Redis refuses: MISCONF",
		errors.New("the data directory cannot be written"): "the data directory cannot be written",
	} {
		unsaved = why
		f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 503, &refused)
		if refused.Detail != want {
			t.Errorf("%v: %s, want %s", why, refused.Detail, want)
		}
	}
	unsaved = errors.New("the data directory cannot be written")
	for cause, want := range map[error]string{
		io.EOF:                "the data directory cannot be written", // as an embedded server ends connections whose writes may be lost
		circulate.ErrMismatch: "settings disagree with Redis",
	} {
		if got := f.api.reasonOf(fmt.Errorf("register: %w", cause)); !strings.HasSuffix(got, want) {
			t.Errorf("%v: %s, want %s", cause, got, want)
		}
	}
}
